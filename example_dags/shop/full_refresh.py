"""
Load all orders again after the approval of a person.

A full refresh reads the whole source and replaces the table. It takes longer, and removes rows that the source no
longer has. So the DAG shows the current number of orders and asks for an approval. A rejection ends the DAG without
any change in the service.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.query_previews import QueryPreviewOperator

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
        # No answer for a day is no approval.
        defaults="Reject",
        response_timeout=timedelta(days=1),
    )

    # An active run loads only new rows. Wait for its end, then start another one.
    refresh = EltStreamRunOperator(task_id="refresh", stream_id="shop.orders", full_refresh=True, deferrable=True)

    after = QueryPreviewOperator(task_id="after", sql_template=COUNT)

    before >> approve >> refresh >> after
