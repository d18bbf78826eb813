"""Connections to external systems (interface.md, "GET /connections")."""

from __future__ import annotations

from airflow_provider_datapipe.api.models.common import Answer, OptionalTimestamp


class Connection(Answer):
    """
    A connection of the account.

    The interface declares only the ID. The other fields are assumptions; unknown fields are kept.
    """

    id: str
    integration_id: str | None = None
    label: str | None = None
    created_at: OptionalTimestamp = None
