"""Tasks that are stopped, cleared or moved while they wait, each with a separate resource."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator

POLICIES: tuple[Literal["leave", "disable"], ...] = ("leave", "disable")

with DAG(
    dag_id="stopping",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    default_args={
        "datapipe_conn_id": "datapipe_stopping",
        "poll_interval": 0.5,
        "execution_timeout": timedelta(minutes=10),
    },
):
    moved: dict[str, Any] = {"on_kill": "disable", "deferrable": True, "priority_weight": 3}
    EltStreamRunOperator(task_id="moved_while_going", stream_id="moved_while_going", **moved)
    # The first triggerer is frozen after its first poll. It must not detect the end of the run after it resumes.
    EltStreamRunOperator(task_id="moved_and_over", stream_id="moved_and_over", **moved | {"poll_interval": 300})
    for task_id in ("again_deferred", "success_deferred_disable"):
        EltStreamRunOperator(task_id=task_id, stream_id=task_id, on_kill="disable", deferrable=True, priority_weight=2)
    EltStreamRunOperator(task_id="evicted_blocking", stream_id="evicted_blocking", on_kill="disable", deferrable=False)
    for how in ("deferred", "blocking"):
        # Deferred tasks come first, because the blocking tasks occupy all workers.
        mode: dict[str, Any] = {"deferrable": how == "deferred", "priority_weight": 2 if how == "deferred" else 1}
        task_id = f"cleared_{how}"
        EltStreamRunOperator(task_id=task_id, stream_id=task_id, on_kill="disable", **mode)
        for policy in POLICIES:
            task_id = f"failed_{how}_{policy}"
            ReverseEtlRunOperator(task_id=task_id, reverse_etl_sync_id=task_id, on_kill=policy, **mode)
            task_id = f"timeout_{how}_{policy}"
            EltStreamRunOperator(
                task_id=task_id, stream_id=task_id, on_kill=policy, execution_timeout=timedelta(seconds=15), **mode
            )
