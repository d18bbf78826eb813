"""
Send the receipts of a till, a JSON Lines file, to a webhook of the service, and load them into the warehouse.

The system of the till writes the file, and the service cannot connect to that system. The connection `shop_till`
contains the address and the signing secret of the webhook. A retry continues after the last sent batch. At the end,
the DAG checks that each receipt of the file is in the warehouse.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
from airflow.sdk import DAG, Param, task

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.webhooks import WebhookIngestOperator

with DAG(
    dag_id="shop_till_receipts",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    params={
        # A path in object storage is also possible, such as s3://till/2026-03-01.jsonl.
        "file": Param(str(Path(__file__).with_name("till") / "2026-03-01.jsonl"), type="string"),
    },
    default_args={"datapipe_conn_id": "shop", "retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:
    push = WebhookIngestOperator(
        task_id="push", webhook_conn_id="shop_till", endpoint="receipts", source="{{ params.file }}"
    )

    # A run that started before the push does not load all receipts. Wait for its end, then start another one.
    load = EltStreamRunOperator(task_id="load", stream_id="till.receipts", if_running="wait", deferrable=True)

    @task.datapipe_query_value_check(pass_value=0, retry_on_failure=False)
    def arrived(params: Any = None) -> str:
        """Return SQL that counts the receipts of the file that are not in the warehouse."""
        from airflow.sdk import ObjectStoragePath

        with ObjectStoragePath(params["file"]).open() as file:
            pushed = sorted({json.loads(line)["receipt"] for line in file if line.strip()})
        # External text must not become SQL.
        if strange := [receipt for receipt in pushed if not receipt.isalnum()]:
            raise ValueError(f"these are not receipt numbers: {strange}")
        receipts = ", ".join(f"'{receipt}'" for receipt in pushed)
        return f"""
            SELECT count(*) AS missing
            FROM (SELECT unnest([{receipts}]::VARCHAR[]) AS receipt) AS pushed
            ANTI JOIN {{{{raw.till.receipts}}}} USING (receipt)
        """  # noqa: S608 - letters and digits only

    push >> load >> arrived()
