"""Examples of the operators that change reverse ETL syncs."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.reverse_etl_failed_records import ReverseEtlRetryFailedRecordsOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import (
    ReverseEtlSyncActivateOperator,
    ReverseEtlSyncCreateOperator,
    ReverseEtlSyncDeactivateOperator,
    ReverseEtlSyncDeleteOperator,
    ReverseEtlSyncUpdateOperator,
)
from tests.support.operator_examples.example import (
    UNCHANGED,
    Example,
    changed,
    orchestration,
    reverse_etl_sync,
    transform,
)

MAPPINGS = [
    {"source_property_id": "id", "destination_property_id": "id", "primary_key": True},
    {"source_property_id": "name", "destination_property_id": "name"},
]
UPSERT = {"mode": "upsert", "mappings": MAPPINGS}
_USES = ("exists", "keep", "update", "paused", "same", "attach", "activate", "deactivate", "delete", "retry")

SEED: dict[str, Any] = {
    "transforms": [transform("reverse.people", "people", "reverse", sql_template="SELECT 1 AS id, 'Ada' AS name")],
    "orchestrations": [orchestration("reverse.nightly", "Reverse nightly")],
    "reverse_etl_syncs": [
        reverse_etl_sync(
            f"reverse.{use}",
            "reverse.people",
            use,
            sync_interval="0 2 * * *",
            enabled=use not in ("activate", "paused"),
            operation=UPSERT,
        )
        for use in _USES
    ],
}


def _created(name: str, object_type_id: str, expected: dict[str, Any], **more: Any) -> Example:
    fields = {"source_id": "reverse.people", "destination_connection_id": "out", "operation": UPSERT}
    arguments = {**fields, "sync_interval": "0 4 * * *", "object_type_id": object_type_id, **more}
    return Example(name, ReverseEtlSyncCreateOperator, arguments, expected, mapped="object_type_id")


def _updated(name: str, use: str, expected: dict[str, Any], **arguments: Any) -> Example:
    given = {"reverse_etl_sync_id": f"reverse.{use}", **arguments}
    return Example(name, ReverseEtlSyncUpdateOperator, given, expected)


def _retried(name: str, details: dict[str, Any], **records: Any) -> Example:
    given = {"reverse_etl_sync_id": "reverse.retry", **records}
    expected = {"changed": False, "details": {"failed_records": 0, **details}}
    return Example(name, ReverseEtlRetryFailedRecordsOperator, given, expected, {"changed": False})


EXAMPLES = [
    _created("reverse_etl_create", "made_by_a_task", changed("created")),
    Example(
        "reverse_etl_create_by_names",
        ReverseEtlSyncCreateOperator,
        {
            "transform_name": "people",
            "folder_path": "reverse",
            "destination_connection_label": "Out",
            "object_type_id": "made_by_names",
            "operation": UPSERT,
            "orchestration_name": "Reverse nightly",
        },
        changed("created"),
        mapped="object_type_id",
    ),
    _created("reverse_etl_create_what_is_there", "exists", changed("updated", id="reverse.exists")),
    _created("reverse_etl_keep", "keep", {**UNCHANGED, "id": "reverse.keep"}, if_exists="keep"),
    _updated(
        "reverse_etl_update",
        "update",
        changed("updated", id="reverse.update"),
        operation={"mode": "insert", "mappings": MAPPINGS},
        sync_interval="0 4 * * *",
    ),
    _updated("reverse_etl_update_paused", "paused", changed("updated"), sync_interval="0 4 * * *"),
    _updated("reverse_etl_update_same", "same", {**UNCHANGED}, sync_interval="0 2 * * *", operation=UPSERT),
    _updated("reverse_etl_attach", "attach", changed("updated"), orchestration_name="Reverse nightly"),
    Example(
        "reverse_etl_activate",
        ReverseEtlSyncActivateOperator,
        {"reverse_etl_sync_id": "reverse.activate"},
        changed("activated"),
    ),
    Example(
        "reverse_etl_deactivate",
        ReverseEtlSyncDeactivateOperator,
        {"reverse_etl_sync_id": "reverse.deactivate"},
        changed("deactivated"),
    ),
    Example(
        "reverse_etl_delete",
        ReverseEtlSyncDeleteOperator,
        {"reverse_etl_sync_id": "reverse.delete"},
        changed("deleted", id="reverse.delete"),
    ),
    _retried("reverse_etl_retry_all", {"seen": None, "requested": 0}, record_ids="all"),
    _retried("reverse_etl_retry_some", {"seen": None, "requested": 2}, record_ids=["1", "2"]),
    _retried("reverse_etl_retry_reason", {"seen": 0, "requested": 0}, reason="address"),
]
