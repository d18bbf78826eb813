"""DAGs that start at the end of a run of any client."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_datapipe.triggers.events import (
    EltStreamRunEventTrigger,
    OrchestrationRunEventTrigger,
    ReverseEtlRunEventTrigger,
    TransformMaterializationEventTrigger,
)

SHARED: dict[str, Any] = {"datapipe_conn_id": "datapipe_watching", "poll_interval": 1}
TRIGGERS = {
    "streams": EltStreamRunEventTrigger(sync_id="sync", outcomes=["succeeded", "failed"], **SHARED),
    "orchestrations": OrchestrationRunEventTrigger(**SHARED),
    "exports": ReverseEtlRunEventTrigger("numbers", **SHARED),
    "built": TransformMaterializationEventTrigger("numbers", **SHARED),
}
ASSETS = {
    name: Asset(f"watched_{name}", watchers=[AssetWatcher(name=f"{name}_watcher", trigger=trigger)])
    for name, trigger in TRIGGERS.items()
}

for name, asset in ASSETS.items():
    with DAG(dag_id=f"watching_{name}", start_date=pendulum.datetime(2026, 1, 1), schedule=[asset], max_active_runs=8):
        if name == "built":

            @task
            def reported(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
                return [event.extra["payload"] for events in triggering_asset_events.values() for event in events]

            reported()
        else:
            EmptyOperator(task_id="nothing")
