"""Connections to external systems."""

from __future__ import annotations

from airflow_provider_datapipe.api.models.common import Answer, OptionalTimestamp


class Connection(Answer):
    """
    A connection of the account.

    The interface declares only the ID. The other fields are assumptions; unknown fields are kept.

    :param id: ID of the connection.
    :param integration_id: ID of the integration of the external system.
    :param label: display name.
    :param created_at: time of the creation.
    """

    id: str
    integration_id: str | None = None
    label: str | None = None
    created_at: OptionalTimestamp = None
