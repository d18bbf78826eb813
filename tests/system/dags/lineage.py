"""Tasks with OpenLineage events that the example lacks: failures, queries, and calls of the hook."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.providers.openlineage.utils.selective_enable import enable_lineage
from airflow.sdk import DAG, task

from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator

COUNT = "SELECT count(*) AS airlines FROM {{raw.nycflights.airlines}}"

with DAG(dag_id="lineage", start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:
    for how, deferrable in (("deferred", True), ("blocking", False)):
        TransformPublishOperator(task_id=f"failing_{how}", transform_id="failing_table", deferrable=deferrable)
        QueryPreviewOperator(task_id=f"query_{how}", sql_template=COUNT, deferrable=deferrable)

    @task
    def by_hand() -> Any:
        """Run a stream and a query with the hook."""
        from airflow_provider_datapipe.api.endpoints import elt_streams, query_previews
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        hook = DatapipeHook()
        hook.send(elt_streams.request_run("nycflights.airlines"))
        return hook.send(query_previews.create(sql_template="SELECT 1 AS one")).query_execution_id

    by_hand()

enable_lineage(dag)
