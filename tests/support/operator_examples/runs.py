"""Examples of the operators that start runs and wait for them."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.elt import EltStreamRunOperator, EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestration import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transform import TransformPublishOperator
from tests.support.operator_examples.example import Example


def _stream(name: str) -> dict[str, Any]:
    return {"id": f"runs.stream.{name}", "name": name, "file": "rows.csv"}


def _sync(use: str, streams: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": f"runs.{use}",
        "connection_id": "files",
        "destination_schema_name": f"runs_{use}",
        "sync_interval": "0 3 * * *",
        "source_streams": [_stream(name) for name in streams],
    }


SEED: dict[str, Any] = {
    "elt_syncs": [
        _sync("streams", ("by_id", "by_name")),
        _sync("sync", ("a", "b")),
        _sync("refresh", ("c", "d")),
    ],
    "orchestrations": [{"id": "runs.nightly", "name": "Nightly run", "cron_schedule": "0 2 * * *"}],
    "transforms": [
        {
            "id": f"runs.{use}",
            "name": f"runs_{use}",
            "folder_path": "examples",
            "materialization": kind,
            "publish": use == "source",
            "sql_template": "SELECT 1 AS id",
        }
        for use, kind in (("source", "view"), ("publish", "table"))
    ],
    "reverse_etl_syncs": [
        {
            "id": f"runs.reverse.{use}",
            "source_id": "runs.source",
            "destination_connection_id": "out",
            "object_type_id": f"runs_{use}",
            "sync_interval": "0 5 * * *",
            "operation": {
                "mode": "upsert",
                "mappings": [{"source_property_id": "id", "destination_property_id": "id", "primary_key": True}],
            },
        }
        for use in ("run", "retry", "retry_some")
    ],
}

_DONE = {"outcome": "succeeded"}

EXAMPLES = [
    Example(
        "run_stream", EltStreamRunOperator, {"stream_id": "runs.stream.by_id"}, _DONE | {"rows_synced": 3}, dict(_DONE)
    ),
    Example(
        "run_stream_by_name",
        EltStreamRunOperator,
        {"stream_name": "by_name", "sync_id": "runs.streams", "full_refresh": True},
        _DONE | {"resource_id": "runs.stream.by_name"},
        dict(_DONE),
    ),
    Example("run_sync", EltSyncRunOperator, {"sync_id": "runs.sync"}, _DONE | {"rows_synced": 6}, dict(_DONE)),
    Example(
        "run_sync_full_refresh",
        EltSyncRunOperator,
        {"sync_id": "runs.refresh", "full_refresh": True},
        dict(_DONE),
        dict(_DONE),
    ),
    Example(
        "run_orchestration",
        OrchestrationRunOperator,
        {"orchestration_name": "Nightly run"},
        _DONE | {"resource_id": "runs.nightly"},
        dict(_DONE),
    ),
    Example(
        "publish_transform",
        TransformPublishOperator,
        {"transform_name": "runs_publish", "folder_path": "examples"},
        _DONE | {"resource_id": "runs.publish"},
        dict(_DONE),
    ),
    Example(
        "run_reverse_etl",
        ReverseEtlRunOperator,
        {"reverse_etl_sync_id": "runs.reverse.run"},
        _DONE | {"rows_failed": 0},
        dict(_DONE),
    ),
    Example(
        "run_reverse_etl_with_failed_records",
        ReverseEtlRunOperator,
        {"reverse_etl_sync_id": "runs.reverse.retry", "retry_failed_records": "True"},
        dict(_DONE),
        dict(_DONE),
    ),
    Example(
        "run_reverse_etl_with_some_failed_records",
        ReverseEtlRunOperator,
        {"reverse_etl_sync_id": "runs.reverse.retry_some", "retry_failed_records": ["gone"]},
        dict(_DONE),
        dict(_DONE),
    ),
]
