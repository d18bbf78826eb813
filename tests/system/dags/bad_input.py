"""A task for each kind of bad input, deferrable and blocking. Each must fail with a clear error."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow import __version__
from airflow.sdk import DAG
from packaging.version import Version

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor

#: Tasks with retries. Errors that a retry cannot change must not be retried.
RETRIED: dict[str, Any] = {}
if Version(__version__) >= Version("3.3.dev0"):
    # Earlier versions have no retry policy, so all tasks would be retried.
    from airflow_provider_datapipe.retries import DatapipeRetryPolicy

    RETRIED |= {"retries": 1, "retry_delay": timedelta(seconds=1), "retry_policy": DatapipeRetryPolicy()}

with DAG(
    dag_id="bad_input",
    start_date=pendulum.datetime(2026, 1, 1),
    schedule=None,
    default_args={"execution_timeout": timedelta(minutes=2)},
):
    for deferrable in (True, False):
        how = "deferred" if deferrable else "blocking"
        EltStreamRunOperator(
            task_id=f"wrong_key_{how}",
            datapipe_conn_id="datapipe_wrong_key",
            stream_id="nycflights.airlines",
            deferrable=deferrable,
            **RETRIED,
        )
        EltStreamRunOperator(task_id=f"unknown_stream_{how}", stream_id="nowhere", deferrable=deferrable, **RETRIED)
        EltSyncRunOperator(task_id=f"disabled_sync_{how}", sync_id="disabled", deferrable=deferrable)
        EltStreamRunOperator(task_id=f"vanished_file_{how}", stream_id=f"broken.vanished_{how}", deferrable=deferrable)
        TransformPublishOperator(task_id=f"failing_query_{how}", transform_id="failing_table", deferrable=deferrable)
        TransformPublishOperator(task_id=f"failing_view_{how}", transform_id="failing_view", deferrable=deferrable)
        ReverseEtlRunOperator(
            task_id=f"refused_rows_{how}", reverse_etl_sync_id=f"refused_{how}", deferrable=deferrable
        )
        EltStreamRunSensor(
            task_id=f"failed_run_{how}", stream_id="broken.failed_before", newest=True, deferrable=deferrable
        )
        OrchestrationRunOperator(
            task_id=f"service_down_{how}",
            datapipe_conn_id="datapipe_down",
            orchestration_id="nightly",
            deferrable=deferrable,
            **RETRIED,
        )
