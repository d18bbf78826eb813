"""
Deploy the SQL files of the folder `models` to the service after a merge.

The log of the first task contains the plan of all changes. Each transform is checked before its publication, with the
checks in the comments at the beginning of its file. If a check fails, the published version remains, also for all
transforms that read it.

Start the DAG from CI with `airflow dags trigger shop_deploy_models`, or with the REST API of Airflow.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.transform_folders import TransformBulkDeployOperator, TransformPlanOperator

with DAG(
    dag_id="shop_deploy_models",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    # Concurrent deployments could revert each other.
    max_active_runs=1,
    default_args={"datapipe_conn_id": "shop", "folder": "models"},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    plan = TransformPlanOperator(task_id="plan")
    deploy = TransformBulkDeployOperator(task_id="deploy", deferrable=True)

    plan >> deploy
