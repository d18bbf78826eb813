"""
Every night: load the shop, check it, build what each customer is worth, and send it to the CRM.

People act on what stands in the CRM. So where a check fails, nothing is built, and nothing sent: the table stays that
of the last good night, for all that read it. On the service neither the table nor the contacts have a schedule: they
would go round the check. Records that the CRM refuses are another matter: up to five of them are borne with, and
`failed_records` looks after them.
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
    # The service loads the shop every hour, too. While this runs it does not, so that what is built is what was
    # checked; whatever becomes of the tasks, its schedule is put back as it was.
    owned_schedule("shop", elt_sync_id="shop"),
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
        # The same rows would fail again.
        retry_on_failure=False,
    )

    # The newest SQL that the service has; `TransformRematerializeOperator` would build again what is published.
    build = TransformPublishOperator(task_id="build", transform_name="customer_value", folder_path="marts")

    send = ReverseEtlRunOperator(task_id="send", reverse_etl_sync_id="contacts", max_failed_rows=5)

    load >> check >> build >> send
