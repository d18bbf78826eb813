"""Two concurrent DAGs with tasks that run the same stream, are mapped over streams, or find an active run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator

ARGUMENTS: dict[str, Any] = {
    "start_date": pendulum.datetime(2026, 1, 1),
    "schedule": None,
    "default_args": {
        "datapipe_conn_id": "datapipe_starting_once",
        "poll_interval": 0.5,
        "execution_timeout": timedelta(minutes=10),
        "retry_delay": timedelta(seconds=1),
    },
}
POLICIES: tuple[Literal["wait", "skip", "fail"], ...] = ("wait", "skip", "fail")

with DAG(dag_id="starting_once", **ARGUMENTS):
    for how in ("deferred", "blocking"):
        for policy in POLICIES:
            EltStreamRunOperator(
                task_id=f"{policy}_{how}",
                stream_id=f"{policy}_{how}",
                if_running=policy,
                deferrable=how == "deferred",
                # This task starts before that run has ended.
                priority_weight=3,
            )
    EltStreamRunOperator(task_id="raced", stream_id="raced", deferrable=True, priority_weight=2)
    EltStreamRunOperator.partial(task_id="same", deferrable=True, priority_weight=2).expand(stream_id=["same", "same"])
    # Blocking tasks occupy a worker while they wait.
    EltStreamRunOperator.partial(task_id="each", deferrable=False, retries=2).expand(
        stream_id=["each_0", "each_1", "each_2"]
    )

with DAG(dag_id="starting_once_too", **ARGUMENTS):
    EltStreamRunOperator(task_id="raced", stream_id="raced", deferrable=True, priority_weight=2)
