"""
After each load of payments by any client: update the table of open orders.

The service loads payments every hour by its own schedule, and a person can start a load, too. A watcher in the
triggerer notices the end of each run, and Airflow starts this DAG. The wait occupies no worker slot.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, AssetWatcher, task

from airflow_provider_datapipe.assets import elt_stream_asset, run_of
from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from airflow_provider_datapipe.triggers.events import EltStreamRunEventTrigger

loaded = EltStreamRunEventTrigger("payments.payments", "payments", datapipe_conn_id="shop", poll_interval=10)
payments = elt_stream_asset(
    "payments.payments",
    datapipe_conn_id="shop",
    watchers=[AssetWatcher(name="payments_loaded", trigger=loaded)],
)

with DAG(
    dag_id="shop_payments_loaded",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=[payments],
    catchup=False,
    max_active_runs=1,
    default_args={"datapipe_conn_id": "shop", "deferrable": True, "retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:

    @task
    def rows_loaded(triggering_asset_events: Any = None) -> dict[str, int]:
        """Return the row count of each run. Several runs may have ended since the last start of this DAG."""
        # An event that a user creates has no run.
        runs = [run for event in triggering_asset_events[payments] if (run := run_of(event))]
        return {run["run_id"]: run["rows_synced"] for run in runs}

    build = TransformPublishOperator(task_id="build", transform_name="open_orders", folder_path="marts")
    owed = QueryPreviewOperator(
        task_id="owed", sql_template="SELECT count(*) AS orders, sum(amount) AS amount FROM {{model.marts.open_orders}}"
    )

    rows_loaded() >> build >> owed
