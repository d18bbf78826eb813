"""
Bring the SQL files of the folder `models` to the service, after a change to them was merged.

The plan in the log of the first task says what will change. Then each transform is checked before it is published,
as the comments at the beginning of its file say: where a check fails, what was published before stays, and so does
all that reads it.

Start it from CI: `airflow dags trigger shop_deploy_models`, or Airflow's REST API.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.transform_changes import TransformBulkDeployOperator, TransformPlanOperator

with DAG(
    dag_id="shop_deploy_models",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    # Two deployments at a time would undo one another's work.
    max_active_runs=1,
    default_args={"datapipe_conn_id": "shop", "folder": "models"},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    plan = TransformPlanOperator(task_id="plan")
    deploy = TransformBulkDeployOperator(task_id="deploy", deferrable=True)

    plan >> deploy
