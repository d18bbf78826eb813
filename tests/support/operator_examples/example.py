"""Example of an operator, which tests run in every way that Airflow supports, and builders of seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: The minimum content of the result of a change that was not needed.
UNCHANGED: Mapping[str, Any] = {"action": "none", "changed": False}


@dataclass(frozen=True)
class Example:
    """
    Example of an operator that changes something.

    Each example has its own resources in the seed, so that all can run in any order and concurrently.

    :param name: the task ID.
    :param expected: the minimum content of its result.
    :param again: the minimum content of the result of a repetition; None if the repetition fails.
    :param mapped: the argument for task mapping; None for the first.
    """

    name: str
    operator: type[Any]
    arguments: dict[str, Any]
    expected: dict[str, Any] = field(default_factory=dict)
    again: Mapping[str, Any] | None = field(default_factory=lambda: UNCHANGED)
    mapped: str | None = None

    @property
    def mapped_argument(self) -> str:
        """Return the name of the argument for task mapping."""
        return self.mapped or next(iter(self.arguments))


def changed(action: str, **more: Any) -> dict[str, Any]:
    """Return the minimum content of the result of a change."""
    return {"action": action, "changed": True, **more}


def orchestration(orchestration_id: str, name: str, cron_schedule: str = "0 2 * * *") -> dict[str, Any]:
    """Return an orchestration of the seed."""
    return {"id": orchestration_id, "name": name, "cron_schedule": cron_schedule}


def files_connection(connection_id: str, label: str) -> dict[str, Any]:
    """Return a connection of the seed to the folder of the examples."""
    return {"id": connection_id, "integration_id": "files", "label": label, "settings": {"path": "{folder}"}}


def elt_sync(sync_id: str, schema: str, **more: Any) -> dict[str, Any]:
    """Return an ELT sync of the seed."""
    fields = {"connection_id": "files", "destination_schema_name": schema, "sync_interval": "0 3 * * *"}
    return {"id": sync_id, **fields, **more}


def rows(stream_id: str, name: str = "rows", **more: Any) -> dict[str, Any]:
    """Return a source stream of the seed with three rows."""
    return {"id": stream_id, "name": name, "file": "rows.csv", **more}


def transform(transform_id: str, name: str, folder_path: str, **more: Any) -> dict[str, Any]:
    """Return a published transform of the seed."""
    fields = {"id": transform_id, "name": name, "folder_path": folder_path, "publish": True}
    return {**fields, "sql_template": "SELECT 1 AS id", **more}


def reverse_etl_sync(sync_id: str, source_id: str, object_type_id: str, **more: Any) -> dict[str, Any]:
    """Return a reverse ETL sync of the seed."""
    key = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}
    fields = {
        "source_id": source_id,
        "destination_connection_id": "out",
        "object_type_id": object_type_id,
        "sync_interval": "0 5 * * *",
        "operation": {"mode": "upsert", "mappings": [key]},
    }
    return {"id": sync_id, **fields, **more}
