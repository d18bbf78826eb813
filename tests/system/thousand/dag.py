"""Tasks that start in the triggerer, in several DAGs. A plan file in the same folder lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.sdk import DAG, BaseOperator, get_parsing_context
from airflow.triggers.base import StartTriggerArgs

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator

OPERATORS: dict[str, type[BaseOperator]] = {
    "elt_stream": EltStreamRunOperator,
    "orchestration": OrchestrationRunOperator,
}
TRIGGER = "airflow_provider_datapipe.triggers.run.DatapipeRunTrigger"


def deferred(kind: str, reference: dict[str, Any], interval: float | None) -> BaseOperator:
    """Return a task for a requested run. It needs no worker before the end of the run."""
    resource = "stream_id" if kind == "elt_stream" else "orchestration_id"
    arguments: dict[str, Any] = {"task_id": reference["resource_id"], resource: reference["resource_id"]}
    task = OPERATORS[kind](**arguments)
    batch = {"kind": kind, "queued": [], "waiting": [reference], "blocked": [], "ended": [], "at_a_time": None}
    task.start_from_trigger = True
    task.start_trigger_args = StartTriggerArgs(
        trigger_cls=TRIGGER,
        trigger_kwargs={
            "datapipe_conn_id": "datapipe_default",
            "batch": batch,
            "policy": {"poll_interval": interval},
            "kill_policy": "leave",
        },
        next_method="execute_complete",
        next_kwargs=None,
        timeout=None,
    )
    return task


def asleep(reference: dict[str, Any], moment: str) -> BaseOperator:
    """Return a task that sleeps until a time, as a baseline for triggers that end together."""
    return DateTimeSensorAsync(task_id=reference["resource_id"], target_time=moment, start_from_trigger=True)


plan = json.loads(Path(__file__).with_name("thousand.json").read_text(encoding="utf-8"))
for number, part in enumerate(plan["parts"]):
    dag_id = f"thousand_{number}"
    # The process of a task needs only its own DAG.
    if get_parsing_context().dag_id in (None, dag_id):
        with DAG(dag_id, start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:
            for each in part["references"]:
                if plan["asleep_until"] is None:
                    deferred(part["kind"], each, plan["interval"])
                else:
                    asleep(each, plan["asleep_until"])
        globals()[dag_id] = dag
