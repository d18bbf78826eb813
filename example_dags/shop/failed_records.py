"""
When the CRM has refused three contacts or more: list the reasons, and retry temporary ones after an hour.

A country that is not registered yet will be registered, so its contacts are sent again. An invalid address remains
invalid until a person corrects it at its source. The service then sends that record again without a request. The first
task groups the reasons, and the last one reports the remaining records.

Records that are refused again start this DAG again, so it retries every hour. Without the delay of an hour, the
retries would never pause.

Only checked rows are sent: only the nightly DAG builds the table, after a successful check of the orders.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pendulum
from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_datapipe.operators.datapipe import DatapipeOperator
from airflow_provider_datapipe.operators.reverse_etl_failed_records import ReverseEtlRetryFailedRecordsOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.triggers.events import FailedRecordsEventTrigger

too_many = FailedRecordsEventTrigger("contacts", threshold=3, datapipe_conn_id="shop", poll_interval=10)
refused = Asset("shop_contacts_refused", watchers=[AssetWatcher(name="contacts_refused", trigger=too_many)])

LIST: dict[str, Any] = {
    "endpoint": "reverse_etl_failed_records.list",
    "arguments": {"reverse_etl_sync_id": "contacts", "limit": 100},
}

with DAG(
    dag_id="shop_failed_records",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=[refused],
    catchup=False,
    max_active_runs=1,
    default_args={"datapipe_conn_id": "shop", "retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["datapipe", "example"],
    doc_md=__doc__,
) as dag:

    @task
    def by_reason(failed: Any) -> dict[str, int]:
        """Return the number of records for each reason."""
        return dict(Counter(record["error"] for record in failed["data"]))

    delay = TimeDeltaSensor(task_id="delay", delta=timedelta(hours=1), deferrable=True)
    retry = ReverseEtlRetryFailedRecordsOperator(
        task_id="retry", reverse_etl_sync_id="contacts", reason="country is not registered"
    )
    # This task must not fail if the records are refused again. The last task reports them.
    send = ReverseEtlRunOperator(
        task_id="send", reverse_etl_sync_id="contacts", max_failed_rows=100, if_running="wait", deferrable=True
    )

    before = by_reason(DatapipeOperator(task_id="failed", **LIST).output)
    still_failed = DatapipeOperator(task_id="still_failed", **LIST)
    before >> delay >> retry >> send >> still_failed
    by_reason.override(task_id="left")(still_failed.output)
