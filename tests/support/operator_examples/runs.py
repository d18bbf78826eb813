"""Examples of the operators that start runs and wait for them."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from tests.support.operator_examples.example import Example, elt_sync, orchestration, reverse_etl_sync, rows, transform

_STREAMS = {"streams": ("by_id", "by_name"), "sync": ("a", "b"), "refresh": ("c", "d")}

SEED: dict[str, Any] = {
    "elt_syncs": [
        elt_sync(f"runs.{use}", f"runs_{use}", source_streams=[rows(f"runs.stream.{name}", name) for name in names])
        for use, names in _STREAMS.items()
    ],
    "orchestrations": [orchestration("runs.nightly", "Nightly run")],
    "transforms": [
        transform(f"runs.{use}", f"runs_{use}", "examples", materialization=kind, publish=use == "source")
        for use, kind in (("source", "view"), ("publish", "table"))
    ],
    "reverse_etl_syncs": [
        reverse_etl_sync(f"runs.reverse.{use}", "runs.source", f"runs_{use}") for use in ("run", "retry", "retry_some")
    ],
}


def _run(name: str, operator: type[Any], arguments: dict[str, Any], **more: Any) -> Example:
    done = {"outcome": "succeeded"}
    return Example(name, operator, arguments, {**done, **more}, done)


EXAMPLES = [
    _run("run_stream", EltStreamRunOperator, {"stream_id": "runs.stream.by_id"}, rows_synced=3),
    _run(
        "run_stream_by_name",
        EltStreamRunOperator,
        {"stream_name": "by_name", "sync_id": "runs.streams", "full_refresh": True},
        resource_id="runs.stream.by_name",
    ),
    _run("run_sync", EltSyncRunOperator, {"sync_id": "runs.sync"}, rows_synced=6),
    _run("run_sync_full_refresh", EltSyncRunOperator, {"sync_id": "runs.refresh", "full_refresh": True}),
    _run(
        "run_orchestration", OrchestrationRunOperator, {"orchestration_name": "Nightly run"}, resource_id="runs.nightly"
    ),
    _run(
        "publish_transform",
        TransformPublishOperator,
        {"transform_name": "runs_publish", "folder_path": "examples"},
        resource_id="runs.publish",
    ),
    _run("run_reverse_etl", ReverseEtlRunOperator, {"reverse_etl_sync_id": "runs.reverse.run"}, rows_failed=0),
    _run(
        "run_reverse_etl_with_failed_records",
        ReverseEtlRunOperator,
        {"reverse_etl_sync_id": "runs.reverse.retry", "retry_failed_records": "True"},
    ),
    _run(
        "run_reverse_etl_with_some_failed_records",
        ReverseEtlRunOperator,
        {"reverse_etl_sync_id": "runs.reverse.retry_some", "retry_failed_records": ["gone"]},
    ),
]
