"""Long tasks and failing tasks with notifiers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG
from airflow.sdk.definitions.deadline import (  # type: ignore[attr-defined]  # in all versions AsyncCallback is here
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
)

from airflow_provider_datapipe.notifications.failure import DatapipeFailureNotifier
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator

START: dict[str, Any] = {"start_date": pendulum.datetime(2026, 1, 1), "schedule": None}
CONNECTION: dict[str, Any] = {"datapipe_conn_id": "datapipe_notifying", "poll_interval": 0.5}
CHAT: dict[str, Any] = {"http_conn_id": "notifying_chat"}
MODES = {"deferred": True, "blocking": False}

with DAG(
    "notifying",
    default_args={
        **CONNECTION,
        "on_failure_callback": DatapipeFailureNotifier(**CHAT),
        # On a busy machine, Airflow may lose a starting task.
        "on_retry_callback": DatapipeFailureNotifier(**CHAT),
        "retries": 1,
        "retry_delay": timedelta(seconds=1),
    },
    # Callbacks of DAGs run in the DAG processor, callbacks of tasks in workers.
    on_failure_callback=DatapipeFailureNotifier(**CHAT, body={"dag": "{{ failure.text }}"}),
    **START,
):
    for mode, deferrable in MODES.items():
        EltStreamRunOperator(task_id=f"going_{mode}", stream_id=f"going_{mode}", deferrable=deferrable)
        ReverseEtlRunOperator(task_id=f"refused_{mode}", reverse_etl_sync_id=f"refused_{mode}", deferrable=deferrable)
        EltStreamRunOperator(task_id=f"unknown_{mode}", stream_id="nowhere", deferrable=deferrable)
    ReverseEtlRunOperator(task_id="hidden", reverse_etl_sync_id="hidden", show_failed_records=0)
    EltStreamRunOperator(task_id="down", stream_id="any", datapipe_conn_id="datapipe_down")

with DAG(
    "notifying_late",
    # This callback runs in a triggerer.
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=1),
        callback=AsyncCallback(DatapipeFailureNotifier, {**CHAT, "body": {"late": "{{ failure.text }}"}}),
    ),
    **START,
):
    EltStreamRunOperator(task_id="going_late", stream_id="going_late", **CONNECTION)
