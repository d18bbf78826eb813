"""Connections, as the interface sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.routes.answers import Json

if TYPE_CHECKING:
    from datapipe_local.store import records


def connection(record: records.Connection) -> Json:
    """Give a connection; its settings, which may hold secrets, stay here."""
    return {
        "id": record.id,
        "integration_id": record.integration_id,
        "label": record.label,
        "created_at": record.created_at,
    }
