"""Parts of seeds, as data of the YAML file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

NIGHTLY: Json = {"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}


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


def transform(transform_id: str, sql: str, **more: Any) -> Json:
    """Return a transform whose name is its ID."""
    return {"id": transform_id, "name": transform_id, "sql_template": sql, **more}


def operation(*columns: str, mode: str = "upsert") -> Json:
    """Return an operation that keeps the names of columns. The first one is the primary key."""
    mappings = [{"source_property_id": name, "destination_property_id": name} for name in columns]
    return {"mode": mode, "mappings": [mappings[0] | {"primary_key": True}, *mappings[1:]]}


def reverse_etl_sync(
    sync_id: str, source_id: str, connection_id: str, object_type_id: str, *columns: str, mode: str = "upsert"
) -> Json:
    """Return a sync of columns. The first one is the primary key."""
    return {
        "id": sync_id,
        "source_id": source_id,
        "destination_connection_id": connection_id,
        "object_type_id": object_type_id,
        "operation": operation(*columns, mode=mode),
    }
