"""
DAGs of the distributed tests: each plan in the folder ``distributed_plans`` next to this file is one.

:mod:`tests.system.distributed.plans` writes the plans.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pendulum
from airflow.sdk import DAG, get_parsing_context

from airflow_provider_datapipe.operators.base import DatapipeRunOperator
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, OrchestrationRunSensor, ReverseEtlRunSensor

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.start import StartPolicy

PLANS = Path(__file__).with_name("distributed_plans")
#: Seconds for which a run is searched after a lost response. It exceeds the time for which the service holds a request.
LOST_RESPONSE_TIMEOUT = 15.0


class _ShortSearch(DatapipeRunOperator):
    """Operator that sends a request again after a shorter search than the default of two minutes."""

    def _start_policy(self) -> StartPolicy:
        return replace(super()._start_policy(), lost_response_timeout=LOST_RESPONSE_TIMEOUT, search_interval=2)


class Stream(_ShortSearch, EltStreamRunOperator):
    """Runs an ELT stream."""


class Sync(_ShortSearch, EltSyncRunOperator):
    """Runs the streams of an ELT sync."""


class Orchestration(_ShortSearch, OrchestrationRunOperator):
    """Runs an orchestration."""


class ReverseEtl(_ShortSearch, ReverseEtlRunOperator):
    """Runs a reverse ETL sync."""


class Transform(_ShortSearch, TransformPublishOperator):
    """Publishes a transform."""


TASKS: dict[str, Callable[..., Any]] = {
    "elt_stream": Stream,
    "elt_sync": Sync,
    "orchestration": Orchestration,
    "reverse_etl": ReverseEtl,
    "transform": Transform,
    "stream_sensor": EltStreamRunSensor,
    "orchestration_sensor": OrchestrationRunSensor,
    "reverse_etl_sensor": ReverseEtlRunSensor,
}

# The process of a task needs its own DAG only.
for file in sorted(PLANS.glob(f"{get_parsing_context().dag_id or '*'}.json")):
    plan = json.loads(file.read_text(encoding="utf-8"))
    with DAG(
        dag_id=plan["dag_id"],
        start_date=pendulum.datetime(2026, 1, 1),
        schedule=None,
        max_active_tasks=2000,
        max_active_runs=plan["max_active_runs"],
        default_args={"datapipe_conn_id": plan["conn_id"], "retry_delay": timedelta(seconds=3)},
    ) as dag:
        for task in plan["tasks"]:
            TASKS[task["kind"]](task_id=task["task_id"], **task["arguments"])
    globals()[plan["dag_id"]] = dag
