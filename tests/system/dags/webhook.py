"""Records for a webhook: constant, from a task, mapped, and from a file."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, task

from airflow_provider_datapipe.operators.webhooks import WebhookIngestOperator

ARGUMENTS: dict[str, Any] = {
    "start_date": pendulum.datetime(2026, 1, 1),
    "schedule": None,
    "default_args": {"execution_timeout": timedelta(minutes=5), "retry_delay": timedelta(seconds=1)},
}
COMMON: dict[str, Any] = {"webhook_conn_id": "webhook_dag", "endpoint": "events"}


@task
def make() -> list[dict[str, Any]]:
    return [{"id": number, "how": "made"} for number in range(5)]


@task
def make_lists() -> list[list[dict[str, Any]]]:
    return [[{"id": number, "how": f"list_{part}"} for number in range(3)] for part in range(2)]


@task
def make_one(number: int) -> dict[str, Any]:
    return {"id": number, "how": "each"}


with DAG(dag_id="webhook", **ARGUMENTS):
    WebhookIngestOperator(task_id="given", records={"id": 1, "how": "given", "run": "{{ dag_run.run_id }}"}, **COMMON)
    WebhookIngestOperator(task_id="made", records=make(), batch_size=2, **COMMON)
    WebhookIngestOperator(task_id="gathered", records=make_one.expand(number=[1, 2, 3]), **COMMON)
    WebhookIngestOperator.partial(task_id="mapped", **COMMON).expand(
        records=[{"id": 1, "how": "mapped_0"}, [{"id": 1, "how": "mapped_1"}, {"id": 2, "how": "mapped_1"}]]
    )
    WebhookIngestOperator.partial(task_id="mapped_over_lists", **COMMON).expand(records=make_lists())

with DAG(dag_id="webhook_file", **ARGUMENTS):
    WebhookIngestOperator(
        task_id="file",
        webhook_conn_id="webhook_held",
        source="{{ dag_run.conf['file'] }}",
        endpoint="events",
        batch_size=10,
        retries=2,
    )
