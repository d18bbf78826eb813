"""Store with all tables of the service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from datapipe_local.storage import records
from datapipe_local.storage.database import Database
from datapipe_local.storage.table import Table

if TYPE_CHECKING:
    from pathlib import Path


class Store:
    """
    State of the service.

    :param path: SQLite file. It is created if it does not exist.
    :raises SetupError: if the file cannot be opened or has another schema version.
    """

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self.database = database = Database(path)
        self.transaction = database.transaction
        self.close = database.close
        self.connections = Table(database, "connections", records.Connection, "connection")
        self.connection_bridges = Table(database, "connection_bridges", records.ConnectionBridge)
        self.webhook_records = Table(database, "webhook_records", records.WebhookRecord)
        self.orchestrations = Table(database, "orchestrations", records.Orchestration, "orchestration")
        self.orchestration_runs = Table(database, "orchestration_runs", records.OrchestrationRun)
        self.orchestration_items = Table(database, "orchestration_items", records.OrchestrationItem)
        self.elt_syncs = Table(database, "elt_syncs", records.EltSync, "ELT sync")
        self.elt_streams = Table(database, "elt_streams", records.EltStream, "ELT stream")
        self.elt_stream_runs = Table(database, "elt_stream_runs", records.EltStreamRun, "ELT stream run")
        self.custom_reports = Table(database, "custom_reports", records.CustomReport)
        self.transforms = Table(database, "transforms", records.Transform)
        self.transform_versions = Table(database, "transform_versions", records.TransformVersion)
        self.query_previews = Table(database, "query_previews", records.QueryPreview, "query preview")
        self.reverse_etl_syncs = Table(database, "reverse_etl_syncs", records.ReverseEtlSync, "reverse ETL sync")
        self.reverse_etl_sync_runs = Table(database, "reverse_etl_sync_runs", records.ReverseEtlSyncRun)
        self.jobs = Table(database, "jobs", records.Job)

    def setting(self, name: str, default: Any) -> Any:
        """Return a stored setting."""
        text = self.database.value("SELECT value FROM settings WHERE name = ?", name)
        return default if text is None else json.loads(text)

    def set(self, name: str, value: Any) -> None:
        """Store a setting."""
        self.database.run("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", name, json.dumps(value))
