"""DAG with one task for each mode. ``conf`` has the stream and the duration of its run in seconds."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from tests.system.latency.baseline import SleepOperator

OPTIONS: dict[str, dict[str, Any]] = {
    "blocking": {"deferrable": False},
    "deferred": {"deferrable": True},
    "defer_at_once": {"deferrable": True, "defer_after": 0},
}

for mode in (*OPTIONS, "baseline"):
    dag_id = f"latency_{mode}"
    with DAG(
        dag_id, start_date=pendulum.datetime(2026, 1, 1), schedule=None, max_active_runs=100, max_active_tasks=100
    ) as dag:
        if mode == "baseline":
            SleepOperator(task_id="run", seconds="{{ dag_run.conf['seconds'] }}")
        else:
            EltStreamRunOperator(task_id="run", stream_id="{{ dag_run.conf['stream'] }}", **OPTIONS[mode])
    globals()[dag_id] = dag
