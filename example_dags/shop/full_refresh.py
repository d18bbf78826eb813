"""
Load all orders anew, once a person has agreed.

A full refresh reads the whole source again and replaces the table: it takes the source's time, and drops what the
source no longer has. So the DAG says what is there now, and asks. Who rejects, ends the DAG without anything having
been asked of the service.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.query import QueryPreviewOperator

COUNT = "SELECT count(*) AS orders, max(updated_at)::text AS newest FROM {{raw.shop.orders}}"

with DAG(
    dag_id="shop_full_refresh",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    max_active_runs=1,
    default_args={"datapipe_conn_id": "shop"},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    before = QueryPreviewOperator(task_id="before", sql_template=COUNT)

    approve = ApprovalOperator(
        task_id="approve",
        subject="Load all orders of the shop anew?",
        body="There are {{ ti.xcom_pull('before')['rows'][0]['orders'] }} orders now, the newest of "
        "{{ ti.xcom_pull('before')['rows'][0]['newest'] }}. Those that the source has deleted will be gone.",
        # Nobody has answered for a day: that is no approval.
        defaults="Reject",
        response_timeout=timedelta(days=1),
    )

    # A run that is going began before: it loads what is new only. Its end is waited for.
    refresh = EltStreamRunOperator(task_id="refresh", stream_id="shop.orders", full_refresh=True, deferrable=True)

    after = QueryPreviewOperator(task_id="after", sql_template=COUNT)

    before >> approve >> refresh >> after
