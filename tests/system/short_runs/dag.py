"""DAG with a deferrable task for each orchestration of the file ``short_runs.json`` in the same folder."""

from __future__ import annotations

import json
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator

plan = json.loads(Path(__file__).with_name("short_runs.json").read_text(encoding="utf-8"))

with DAG(
    "short_runs",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    max_active_tasks=len(plan["orchestrations"]),
    default_args={"datapipe_conn_id": plan["conn_id"], "deferrable": True, "defer_after": 0, "retries": 0},
):
    for orchestration in plan["orchestrations"]:
        OrchestrationRunOperator(task_id=orchestration, orchestration_id=orchestration)
