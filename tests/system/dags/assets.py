"""Tasks that update assets of all kinds, and DAGs that start for these updates."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.sdk import DAG, task

from airflow_provider_datapipe.assets import (
    alias_of,
    elt_stream_asset,
    elt_sync_asset,
    reverse_etl_sync_asset,
    run_of,
    transform_asset,
)
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformRematerializeOperator

CONNECTION: dict[str, Any] = {"datapipe_conn_id": "datapipe_assets"}
MODES: dict[str, dict[str, Any]] = {"deferred": {"deferrable": True}, "blocking": {"deferrable": False}}
STREAMS = [f"{how}_{mode}" for how in ("literal", "templated") for mode in MODES] + ["mapped_1", "mapped_2"]
ASSETS = [
    *(elt_stream_asset(stream, **CONNECTION) for stream in (*STREAMS, "of_a_sync")),
    elt_sync_asset("of_a_sync", **CONNECTION),
    transform_asset("numbers", **CONNECTION),
    reverse_etl_sync_asset("sent", **CONNECTION),
]
START: dict[str, Any] = {"start_date": pendulum.datetime(2026, 1, 1)}

with DAG(
    "assets",
    schedule=None,
    # A busy scheduler can fail a task whose trigger has fired soon after the deferral. The next try continues.
    default_args={**CONNECTION, "emit_assets": True, "poll_interval": 0.5, "retries": 1, "retry_delay": 0},
    params={"prefix": "templated"},
    **START,
):
    for mode, arguments in MODES.items():
        EltStreamRunOperator(task_id=f"literal_{mode}", stream_id=f"literal_{mode}", **arguments)
        EltStreamRunOperator(task_id=f"templated_{mode}", stream_id=f"{{{{ params.prefix }}}}_{mode}", **arguments)
    EltStreamRunOperator.partial(task_id="mapped", deferrable=True).expand(stream_id=["mapped_1", "mapped_2"])
    EltSyncRunOperator(task_id="sync", sync_id="of_a_sync", deferrable=True)
    TransformRematerializeOperator(task_id="transform", transform_id="numbers")
    ReverseEtlRunOperator(task_id="reverse_etl", reverse_etl_sync_id="sent")
    # A failed task emits no asset event.
    EltStreamRunOperator(task_id="failing", stream_id="none_of_it", retries=0)

with DAG("assets_consumer", schedule=ASSETS, **START):

    @task
    def runs(triggering_asset_events: Any = None) -> dict[str, list[dict[str, Any]]]:
        """Return the runs in the events of each asset."""
        return {asset.uri: [run_of(event) for event in triggering_asset_events[asset]] for asset in ASSETS}

    runs()

with DAG("assets_alias_consumer", schedule=[alias_of("elt_stream")], max_active_runs=1, **START):

    @task
    def ids(triggering_asset_events: Any = None) -> list[str]:
        """Return the IDs of resources that were unknown when the DAG file was parsed."""
        events = triggering_asset_events[alias_of("elt_stream")]
        return [run_of(event)["resource_id"] for event in events]

    ids()

with DAG("assets_failed_consumer", schedule=[elt_stream_asset("none_of_it", **CONNECTION)], **START):

    @task
    def never() -> None:
        """Never run."""

    never()
