"""Decorated tasks that compute the arguments of their requests: blocking, deferred, mapped, refused and failing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, task

with DAG(
    dag_id="decorators",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    default_args={
        "datapipe_conn_id": "datapipe_decorators",
        "webhook_conn_id": "datapipe_decorators_hooks",
        "execution_timeout": timedelta(minutes=5),
        # A scheduler without CPU time uses up tries.
        "retries": 3,
        "retry_delay": timedelta(seconds=1),
    },
):
    for how in ("deferred", "blocking"):

        @task.datapipe_query(task_id=f"query_{how}", deferrable=how == "deferred", poll_interval=0.5)
        def query(table: str, run_id: str | None = None) -> str:
            same = "'{{ run_id }}' = '" + str(run_id) + "' AS same"
            return "SELECT id, " + same + " FROM {{model.sales." + table + "}}"  # noqa: S608 - names of this file

        query("orders")

        @task.datapipe_query_check(
            task_id=f"failing_{how}", deferrable=how == "deferred", poll_interval=0.5, retry_on_failure=False
        )
        def failing() -> str:
            return "SELECT count(*) = 0 AS is_empty FROM {{model.sales.orders}}"

        failing()

    @task.datapipe_query_value_check
    def value() -> dict[str, Any]:
        return {"sql_template": "SELECT count(*) FROM {{model.sales.orders}}", "pass_value": 3}

    @task.datapipe_query_threshold_check(deferrable=True, poll_interval=0.5)
    def threshold() -> dict[str, Any]:
        sql = "SELECT count(*) FROM {{model.sales.orders}}"
        return {"sql_template": sql, "min_threshold": sql, "max_threshold": 3}

    @task.datapipe(multiple_outputs=True)
    def call(which: str) -> tuple[str, dict[str, Any]]:
        return "transforms.get", {"transform_id": which}

    @task.datapipe_query_check
    def each(amount: int) -> str:
        return "SELECT count(*) = 1 FROM {{model.sales.orders}} WHERE amount = " + str(amount)  # noqa: S608 - a number

    @task.datapipe_webhook
    def push(name: str) -> list[dict[str, Any]]:
        return [{"name": name, "text": "{{ ds }}"}]

    @task.datapipe_query
    def nothing() -> None:
        return None

    value()
    threshold()
    each.override(task_id="mapped").expand(amount=[10, 20])
    called: Any = call("orders")
    push(called["name"])
    nothing()
