"""
Update a table and all of its inputs, in the order of their dependencies.

The file `pipelines.json` lists the resources of the service and their dependencies. A command writes it, and it is
reviewed like code. Airflow reads it when it parses this DAG, without a request to the service:

    datapipe snapshot --connection shop --output pipelines.json
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.task_groups import DatapipeTaskGroup

with DAG(
    dag_id="shop_generated",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    # `+` before a name adds all of its inputs. A failure skips only the resources that depend on it.
    DatapipeTaskGroup(
        "finance",
        snapshot="pipelines.json",
        select="+open_orders",
        transforms="publish",
        datapipe_conn_id="shop",
        operator_args={"deferrable": True, "retries": 2, "retry_delay": timedelta(minutes=5)},
    )
