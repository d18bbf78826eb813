"""Resources in a store, as many requests would have left them, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from datapipe_local.storage.clock import Clock, Timestamp, later
from datapipe_local.storage.records import (
    Connection,
    EltStream,
    EltSync,
    Orchestration,
    ReverseEtlSync,
    Transform,
    TransformVersion,
)
from datapipe_local.storage.store import Store

NOW = "2026-03-20T22:15:30.000Z"
TIMES: dict[str, Any] = {"created_at": NOW, "updated_at": NOW}


class SetClock(Clock):
    """
    Clock that stands still until a test sets it.

    :param moment: Its first time.
    """

    def __init__(self, moment: Timestamp = NOW) -> None:
        self.moment = moment

    def now(self) -> Timestamp:
        return self.moment

    def forward(self, seconds: float) -> None:
        self.moment = later(self.moment, seconds)


class Resources:
    """Creates resources in a store, with orchestrations, and the connection ``data``."""

    def __init__(self, store: Store, orchestrations: Iterable[str] = ("nightly", "weekly")) -> None:
        self.store = store
        for name in orchestrations:
            store.orchestrations.insert(Orchestration(id=name, name=name, cron_schedule="0 2 * * *", **TIMES))
        store.connections.insert(
            Connection(id="data", integration_id="files", label="Data", settings={}, created_at=NOW)
        )

    def sync(self, name: str, *streams: str, attached: str | None = "nightly", **more: Any) -> None:
        fields: dict[str, Any] = {"connection_id": "data", "sync_interval": None, "enabled": True, **more}
        self.store.elt_syncs.insert(
            EltSync(id=name, destination_schema_name=name, orchestration_workflow_id=attached, **TIMES, **fields)
        )
        for stream in streams:
            self.store.elt_streams.insert(
                EltStream(id=f"{name}.{stream}", elt_sync_id=name, name=stream, origin={}, **TIMES)
            )

    def transform(
        self, name: str, *references: str, attached: str | None = "nightly", published: bool = True, **more: Any
    ) -> None:
        sql = " ".join(f"{{{{{reference}}}}}" for reference in references)
        version = TransformVersion(id=f"v_{name}", transform_id=name, sql_template=sql, created_at=NOW)
        fields: dict[str, Any] = {"folder_path": "", "materialization": "table", **more}
        self.store.transforms.insert(
            Transform(
                id=name,
                name=name,
                status="published" if published else "draft",
                latest_version_id=version.id,
                published_version_id=version.id if published else None,
                orchestration_workflow_id=attached,
                **TIMES,
                **fields,
            )
        )
        self.store.transform_versions.insert(version)

    def export(self, name: str, source_id: str, **more: Any) -> None:
        fields: dict[str, Any] = {
            "enabled": True,
            "destination_connection_id": "data",
            "object_type_id": name,
            "sync_interval": None,
            "orchestration_workflow_id": "nightly",
            "operation": {},
            "settings": {},
        }
        self.store.reverse_etl_syncs.insert(ReverseEtlSync(id=name, source_id=source_id, **TIMES, **{**fields, **more}))
