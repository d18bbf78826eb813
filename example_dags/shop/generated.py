"""
Bring a table up to date with all that it is made from, in an order that nobody has to write down.

The file `pipelines.json` says what the service holds and what reads what. It is taken by a command, reviewed like
code, and read when this DAG is parsed; the service is not asked:

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
    # `+` before a name: and all that it reads. What fails keeps only what reads it from running.
    DatapipeTaskGroup(
        "finance",
        snapshot="pipelines.json",
        select="+open_orders",
        transforms="publish",
        datapipe_conn_id="shop",
        operator_args={"deferrable": True, "retries": 2, "retry_delay": timedelta(minutes=5)},
    )
