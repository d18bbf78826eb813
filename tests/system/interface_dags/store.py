"""DAGs for tests and screenshots of Airflow's interface."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.sdk import DAG, task

from airflow_provider_datapipe.assets import elt_stream_asset, run_of
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.query_previews import DatapipeCheckOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator

START: dict[str, Any] = {"start_date": pendulum.datetime(2026, 1, 1)}
CONNECTION = "datapipe_default"
ORDERS = elt_stream_asset("store.orders", datapipe_conn_id=CONNECTION)
DEFAULTS = {"emit_assets": True, "datapipe_conn_id": CONNECTION}

with DAG("store", schedule=None, default_args=DEFAULTS, **START):
    orders = EltStreamRunOperator(task_id="orders", stream_id="store.orders", deferrable=True)
    tables = EltStreamRunOperator.partial(task_id="tables").expand(stream_id=["store.customers", "store.products"])
    revenue = TransformPublishOperator(task_id="revenue", transform_id="revenue")
    streams = ["orders", "store.products"]
    again = EltSyncRunOperator(task_id="again", sync_id="store", streams=streams, emit_assets=False)
    check = DatapipeCheckOperator(task_id="check", sql_template="SELECT count(*) > 0 FROM {{raw.store.products}}")
    orders >> tables >> revenue >> again >> check

with DAG("report", schedule=[ORDERS], **START):

    @task
    def rows_loaded(triggering_asset_events: Any = None) -> list[int]:
        """Return the rows of each run that started this DAG."""
        return [run_of(event)["rows_synced"] for event in triggering_asset_events[ORDERS]]

    rows_loaded()
