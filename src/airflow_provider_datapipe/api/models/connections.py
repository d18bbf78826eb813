"""Connections to external systems (interface.md, "GET /connections")."""

from __future__ import annotations

from airflow_provider_datapipe.api.models.common import Answer, OptionalTimestamp


class Connection(Answer):
    """
    A connection of the account.

    The interface declares no fields but the id; the others are a guess, everything else is kept.
    """

    id: str
    integration_id: str | None = None
    label: str | None = None
    created_at: OptionalTimestamp = None
