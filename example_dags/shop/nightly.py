"""
Every night: load the shop, build what each customer is worth, check it, and send it to the CRM.

What fails a check is not sent: people act on what stands in the CRM. Records that the CRM refuses are another
matter: up to five of them are borne with, and `failed_records` looks after them.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.notifications.failure import DatapipeFailureNotifier
from airflow_provider_datapipe.operators.elt import EltSyncRunOperator
from airflow_provider_datapipe.operators.query import DatapipeCheckOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.schedule import owned_schedule
from airflow_provider_datapipe.operators.transform import TransformPublishOperator

with (
    DAG(
        dag_id="shop_nightly",
        start_date=pendulum.datetime(2026, 1, 1),
        schedule="0 3 * * *",
        catchup=False,
        max_active_runs=1,
        default_args={
            "datapipe_conn_id": "shop",
            # While the service works, the tasks wait in the triggerer and take no worker slot.
            "deferrable": True,
            "retries": 2,
            "retry_delay": timedelta(minutes=5),
            # An HTTP connection to a chat: what has failed, why, and which records.
            "on_failure_callback": DatapipeFailureNotifier(http_conn_id="shop_chat"),
        },
        tags=["datapipe", "example"],
        doc_md=__doc__,
    ) as dag,
    # The service sends contacts by a schedule of its own, too: it is taken off it while this runs, and put back as it
    # was whatever becomes of the tasks.
    owned_schedule("contacts", reverse_etl_sync_id="contacts"),
):
    load = EltSyncRunOperator(task_id="load", sync_id="shop")

    # The newest SQL that the service has; `TransformRematerializeOperator` would build again what is published.
    build = TransformPublishOperator(task_id="build", transform_name="customer_value", folder_path="marts")

    check = DatapipeCheckOperator(
        task_id="check",
        sql_template="""
            SELECT
              count(*) > 0 AS has_rows,
              count(*) = count(DISTINCT customer_id) AS one_row_for_each_customer,
              min(revenue) >= 0 AS no_negative_revenue,
              sum(revenue) = (SELECT sum(amount) FROM {{raw.shop.orders}}) AS no_order_is_lost
            FROM {{model.marts.customer_value}}
        """,
        # The same rows would fail again.
        retry_on_failure=False,
    )

    send = ReverseEtlRunOperator(task_id="send", reverse_etl_sync_id="contacts", max_failed_rows=5)

    load >> build >> check >> send
