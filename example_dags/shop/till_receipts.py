"""
Push the receipts of a till, a file of JSON Lines, to a webhook of the service, and load them into the warehouse.

The till's system writes the file; nothing can be installed there that the service could connect to. The connection
`shop_till` has the webhook's address and its signing secret. A retry goes on where the last try was stopped.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_datapipe.operators.elt import EltStreamRunOperator
from airflow_provider_datapipe.operators.query import DatapipeThresholdCheckOperator
from airflow_provider_datapipe.operators.webhook import WebhookIngestOperator

with DAG(
    dag_id="shop_till_receipts",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    params={
        # A file in object storage, such as s3://till/2026-03-01.jsonl, works as well.
        "file": Param(str(Path(__file__).with_name("till") / "2026-03-01.jsonl"), type="string"),
    },
    default_args={"datapipe_conn_id": "shop", "retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    push = WebhookIngestOperator(
        task_id="push", webhook_conn_id="shop_till", endpoint="receipts", source="{{ params.file }}"
    )

    # A run that began before the push does not load all of it: its end is waited for, then another is started.
    load = EltStreamRunOperator(task_id="load", stream_id="till.receipts", if_running="wait", deferrable=True)

    arrived = DatapipeThresholdCheckOperator(
        task_id="arrived",
        sql_template="SELECT count(*) FROM {{raw.till.receipts}}",
        min_threshold="SELECT {{ ti.xcom_pull('push')['records'] }}",
        max_threshold=1_000_000,
    )

    push >> load >> arrived
