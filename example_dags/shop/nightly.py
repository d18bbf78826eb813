"""
Every night: load the shop, check the orders, compute the revenue of each customer, and send it to the CRM.

People use the data in the CRM. So if a check fails, nothing is built or sent, and the table of the last successful
night remains. The table and the reverse ETL sync have no schedules in the service, because these would skip the check.
Up to five records that the CRM refuses do not fail the DAG: `failed_records` processes them.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_provider_datapipe.notifications.failure import DatapipeFailureNotifier
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.query_previews import DatapipeCheckOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.schedules import paused_schedule
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator

with (
    DAG(
        dag_id="shop_nightly",
        start_date=pendulum.datetime(2026, 1, 1),
        schedule="0 3 * * *",
        catchup=False,
        max_active_runs=1,
        default_args={
            "datapipe_conn_id": "shop",
            # The tasks wait in the triggerer, and occupy no worker slot.
            "deferrable": True,
            "retries": 2,
            "retry_delay": timedelta(minutes=5),
            # HTTP connection to a chat for messages about failures, with their reasons and records.
            "on_failure_callback": DatapipeFailureNotifier(http_conn_id="shop_chat"),
        },
        tags=["datapipe", "example"],
        doc_md=__doc__,
    ) as dag,
    # The schedule of the service, which loads the shop every hour, is paused during the DAG run, so that the table is
    # built from the checked rows. It is restored after any outcome of the tasks.
    paused_schedule("shop", elt_sync_id="shop"),
):
    load = EltSyncRunOperator(task_id="load", sync_id="shop")

    check = DatapipeCheckOperator(
        task_id="check",
        sql_template="""
            SELECT
              count(*) > 0 AS has_orders,
              count(*) = count(DISTINCT orders.id) AS each_order_is_there_once,
              count(*) = count(customers.id) AS each_order_has_a_customer,
              min(orders.amount) >= 0 AS no_negative_amount
            FROM {{raw.shop.orders}} AS orders
            LEFT JOIN {{raw.shop.customers}} AS customers ON customers.id = orders.customer_id
        """,
        # A retry would check the same rows.
        retry_on_failure=False,
    )

    # Publish the newest SQL. `TransformRematerializeOperator` would build the published SQL again.
    build = TransformPublishOperator(task_id="build", transform_name="customer_value", folder_path="marts")

    send = ReverseEtlRunOperator(task_id="send", reverse_etl_sync_id="contacts", max_failed_rows=5)

    load >> check >> build >> send
