"""Parts of seeds, as data of the YAML file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def connection(connection_id: str, integration_id: str, **settings: Any) -> Json:
    label = connection_id.title()
    return {"id": connection_id, "integration_id": integration_id, "label": label, "settings": settings}


def stream(name: str, file: str | None = None, **more: Any) -> Json:
    """Return a stream whose ID is its name, of a CSV file with its name by default."""
    origin = {} if "table" in more else {"file": file or f"{name}.csv"}
    return {"id": name, "name": name, **origin, **more}


def elt_sync(sync_id: str, connection_id: str, streams: Iterable[Json] = (), **more: Any) -> Json:
    """Return a sync whose schema is its ID."""
    named = {"id": sync_id, "connection_id": connection_id, "destination_schema_name": sync_id}
    return {**named, "source_streams": list(streams), **more}


def reverse_etl_sync(
    sync_id: str, source_id: str, connection_id: str, object_type_id: str, key: str, *, mode: str = "upsert"
) -> Json:
    """Return a sync of one column, the primary key."""
    mapping = {"source_property_id": key, "destination_property_id": key, "primary_key": True}
    return {
        "id": sync_id,
        "source_id": source_id,
        "destination_connection_id": connection_id,
        "object_type_id": object_type_id,
        "operation": {"mode": mode, "mappings": [mapping]},
    }
