"""DAGs that pause schedules, one for each way of ending, each with separate resources."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
from airflow.sdk import DAG, get_current_context, task

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.schedules import paused_schedule
from airflow_provider_datapipe.operators.transforms import TransformRematerializeOperator

ARGUMENTS: dict[str, Any] = {
    "start_date": pendulum.datetime(2026, 1, 1),
    "schedule": None,
    "max_active_runs": 4,
    "default_args": {
        "datapipe_conn_id": "datapipe_schedules",
        "poll_interval": 0.5,
        "execution_timeout": timedelta(minutes=5),
        "retry_delay": timedelta(seconds=1),
    },
}
#: Paused resources, and retries of each of the three tasks: several, because a scheduler without CPU time uses up
#: tries.
ENDS: dict[str, tuple[str, int]] = {
    "failing": ("elt_sync_id", 0),
    "killed": ("elt_sync_id", 0),
    "killed_and_again": ("elt_sync_id", 5),
    "back_killed": ("reverse_etl_sync_id", 5),
    "changed": ("elt_sync_id", 0),
    "two": ("elt_sync_id", 0),
}


@task
def work() -> None:
    """Wait until the test ends the task, or fails it."""
    conf = get_current_context()["dag_run"].conf or {}
    while "gate" in conf and not Path(conf["gate"]).exists():
        time.sleep(0.2)
    if conf.get("fail"):
        raise ValueError("planned failure")


with (
    DAG(dag_id="schedules_all", **ARGUMENTS),
    paused_schedule("sync", elt_sync_id="all", cron_schedule="0 3 * * *"),
    paused_schedule("model", transform_name="all", folder_path="schedules"),
    paused_schedule("export", reverse_etl_sync_id="all"),
    paused_schedule("nightly", orchestration_name="all"),
):
    (
        EltStreamRunOperator(task_id="load", stream_id="all")
        >> TransformRematerializeOperator(task_id="build", transform_id="all")
        >> ReverseEtlRunOperator(task_id="send", reverse_etl_sync_id="all")
        >> OrchestrationRunOperator(task_id="run", orchestration_id="all")
    )

for end, (what, retries) in ENDS.items():
    with DAG(dag_id=f"schedules_{end}", **ARGUMENTS):
        owned: dict[str, Any] = {what: end}
        if what == "elt_sync_id":
            # The service omits the schedule of an attached sync.
            owned["cron_schedule"] = "0 3 * * *"
        with paused_schedule("it", task_arguments={"retries": retries}, **owned):
            work()
