"""Bodies of responses, as the interface description declares them."""

from __future__ import annotations

from typing import Any

#: Time before all events of a test.
LONG_AGO = "2026-01-01T00:00:00.000Z"


def elt_stream(stream_id: str = "s", *, name: str = "orders", sync_id: str = "y", **fields: Any) -> dict[str, Any]:
    """Return an ``EltStreamDto``; ``fields`` are added or replaced."""
    return {
        "id": stream_id,
        "elt_sync_id": sync_id,
        "name": name,
        "full_sync_at_midnight": False,
        "full_sync_always": False,
        "protected_from_full_sync": False,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "excluded_substreams": [],
        "enabled_history_table": False,
        **fields,
    }


def transform(transform_id: str = "t", **fields: Any) -> dict[str, Any]:
    """Return a ``TransformDto`` of a table; ``fields`` are added or replaced."""
    return {
        "id": transform_id,
        "name": transform_id,
        "folder_path": "",
        "status": "published",
        "materialization": "table",
        "materialization_status": "completed",
        "sql_template": "SELECT 1",
        "parameters": [],
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        **fields,
    }
