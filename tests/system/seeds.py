"""Parts of seeds of the local service: each function returns one resource, with further fields by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def connection(conn_id: str, integration: str, **settings: Any) -> Json:
    return {"id": conn_id, "integration_id": integration, "label": conn_id.capitalize(), "settings": settings}


def stream(stream_id: str, name: str | None = None, file: str = "rows.csv", **fields: Any) -> Json:
    return {"id": stream_id, "name": name or stream_id, "file": file, **fields}


def elt_sync(sync_id: str, conn_id: str, streams: Iterable[Json], **fields: Any) -> Json:
    """Return a sync into a schema with its name."""
    known = {"id": sync_id, "connection_id": conn_id, "destination_schema_name": sync_id}
    return {**known, "source_streams": list(streams), **fields}


def webhook(conn_id: str, table: str, **settings: Any) -> Json:
    """Return the sections of a webhook with one table, and of a sync that loads it."""
    streams = [{"id": table, "name": table, "table": table}]
    return {
        "connections": [connection(conn_id, "webhook", tables=[{"name": table}], **settings)],
        "elt_syncs": [elt_sync(conn_id, conn_id, streams)],
    }


def transform(transform_id: str, sql: str, **fields: Any) -> Json:
    """Return a transform with a published view."""
    return {"id": transform_id, "name": transform_id, "publish": True, "sql_template": sql, **fields}


def reverse_etl_sync(
    sync_id: str,
    source_id: str,
    conn_id: str,
    object_type: str | None = None,
    *,
    columns: Iterable[str] = ("id",),
    key: Iterable[str] = ("id",),
    mode: str = "upsert",
    **fields: Any,
) -> Json:
    """Return a sync that sends columns under their own names."""
    mappings = [
        {"source_property_id": name, "destination_property_id": name, "primary_key": name in key} for name in columns
    ]
    return {
        "id": sync_id,
        "source_id": source_id,
        "destination_connection_id": conn_id,
        "object_type_id": object_type or sync_id,
        "operation": {"mode": mode, "mappings": mappings},
        **fields,
    }


def orchestration(orchestration_id: str, **fields: Any) -> Json:
    return {"id": orchestration_id, "name": orchestration_id, "cron_schedule": "0 2 * * *", **fields}
