"""Missing, duplicate and contradictory arguments are refused when a DAG file is parsed."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_datapipe.operators.reverse_etl_changes import (
    ReverseEtlSyncCreateOperator,
    ReverseEtlSyncUpdateOperator,
)

NEW: dict[str, Any] = {
    "source_id": "s",
    "destination_connection_id": "c",
    "object_type_id": "o",
    "operation": {"mode": "insert", "mappings": []},
    "sync_interval": "0 1 * * *",
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"orchestration_id": "a", "orchestration_name": "b"}, "one of orchestration_id and orchestration_name"),
        ({"folder_path": "sales"}, "folder_path goes with transform_name"),
    ],
)
def test_a_new_sync(arguments: dict[str, Any], said: str) -> None:
    ReverseEtlSyncCreateOperator(task_id="t", **NEW)
    with pytest.raises(ValueError, match=said):
        ReverseEtlSyncCreateOperator(task_id="t", **NEW | arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"orchestration_id": "a", "orchestration_name": "b"}, "one of orchestration_id and orchestration_name"),
        ({"object_type_id": "a", "object_type_name": "b"}, "one of object_type_id and object_type_name"),
        ({}, "nothing to change"),
        ({"wait_for_run": 5}, "nothing to change"),
    ],
)
def test_an_update(arguments: dict[str, Any], said: str) -> None:
    ReverseEtlSyncUpdateOperator(task_id="t", reverse_etl_sync_id="r", enabled=False)
    with pytest.raises(ValueError, match=said):
        ReverseEtlSyncUpdateOperator(task_id="t", reverse_etl_sync_id="r", **arguments)
