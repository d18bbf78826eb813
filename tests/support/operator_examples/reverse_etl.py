"""Examples of the operators that change reverse ETL syncs."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.reverse_etl_changes import (
    ReverseEtlRetryFailedRecordsOperator,
    ReverseEtlSyncActivateOperator,
    ReverseEtlSyncCreateOperator,
    ReverseEtlSyncDeactivateOperator,
    ReverseEtlSyncDeleteOperator,
    ReverseEtlSyncUpdateOperator,
)
from tests.support.operator_examples.example import Example

MAPPINGS = [
    {"source_property_id": "id", "destination_property_id": "id", "primary_key": True},
    {"source_property_id": "name", "destination_property_id": "name"},
]
UPSERT = {"mode": "upsert", "mappings": MAPPINGS}

SEED: dict[str, Any] = {
    "transforms": [
        {
            "id": "reverse.people",
            "name": "people",
            "folder_path": "reverse",
            "publish": True,
            "sql_template": "SELECT 1 AS id, 'Ada' AS name",
        }
    ],
    "orchestrations": [{"id": "reverse.nightly", "name": "Reverse nightly", "cron_schedule": "0 2 * * *"}],
    "reverse_etl_syncs": [
        {
            "id": f"reverse.{use}",
            "source_id": "reverse.people",
            "destination_connection_id": "out",
            "object_type_id": use,
            "sync_interval": "0 2 * * *",
            "enabled": use not in ("activate", "paused"),
            "operation": UPSERT,
        }
        for use in ("exists", "keep", "update", "paused", "same", "attach", "activate", "deactivate", "delete", "retry")
    ],
}


def _created(**changes: Any) -> dict[str, Any]:
    return {
        "source_id": "reverse.people",
        "destination_connection_id": "out",
        "operation": UPSERT,
        "sync_interval": "0 4 * * *",
    } | changes


EXAMPLES = [
    Example(
        "reverse_etl_create",
        ReverseEtlSyncCreateOperator,
        _created(object_type_id="made_by_a_task"),
        {"action": "created", "changed": True},
        {"action": "none", "changed": False},
        mapped="object_type_id",
    ),
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
        {"action": "created", "changed": True},
        {"action": "none", "changed": False},
        mapped="object_type_id",
    ),
    Example(
        "reverse_etl_create_what_is_there",
        ReverseEtlSyncCreateOperator,
        _created(object_type_id="exists"),
        {"action": "updated", "changed": True, "id": "reverse.exists"},
        {"action": "none", "changed": False},
        mapped="object_type_id",
    ),
    Example(
        "reverse_etl_keep",
        ReverseEtlSyncCreateOperator,
        _created(object_type_id="keep", if_exists="keep"),
        {"action": "none", "changed": False, "id": "reverse.keep"},
        {"action": "none", "changed": False},
        mapped="object_type_id",
    ),
    Example(
        "reverse_etl_update",
        ReverseEtlSyncUpdateOperator,
        {
            "reverse_etl_sync_id": "reverse.update",
            "operation": {"mode": "insert", "mappings": MAPPINGS},
            "sync_interval": "0 4 * * *",
        },
        {"action": "updated", "changed": True, "id": "reverse.update"},
        {"action": "none", "changed": False},
    ),
    Example(
        "reverse_etl_update_paused",
        ReverseEtlSyncUpdateOperator,
        {"reverse_etl_sync_id": "reverse.paused", "sync_interval": "0 4 * * *"},
        {"action": "updated", "changed": True},
        {"action": "none", "changed": False},
    ),
    Example(
        "reverse_etl_update_same",
        ReverseEtlSyncUpdateOperator,
        {"reverse_etl_sync_id": "reverse.same", "sync_interval": "0 2 * * *", "operation": UPSERT},
        {"action": "none", "changed": False},
        {"action": "none", "changed": False},
    ),
    Example(
        "reverse_etl_attach",
        ReverseEtlSyncUpdateOperator,
        {"reverse_etl_sync_id": "reverse.attach", "orchestration_name": "Reverse nightly"},
        {"action": "updated", "changed": True},
        {"action": "none", "changed": False},
    ),
    Example(
        "reverse_etl_activate",
        ReverseEtlSyncActivateOperator,
        {"reverse_etl_sync_id": "reverse.activate"},
        {"action": "activated", "changed": True},
        {"action": "none", "changed": False},
    ),
    Example(
        "reverse_etl_deactivate",
        ReverseEtlSyncDeactivateOperator,
        {"reverse_etl_sync_id": "reverse.deactivate"},
        {"action": "deactivated", "changed": True},
        {"action": "none", "changed": False},
    ),
    Example(
        "reverse_etl_delete",
        ReverseEtlSyncDeleteOperator,
        {"reverse_etl_sync_id": "reverse.delete"},
        {"action": "deleted", "changed": True, "id": "reverse.delete"},
        {"action": "none", "changed": False},
    ),
    Example(
        "reverse_etl_retry_all",
        ReverseEtlRetryFailedRecordsOperator,
        {"reverse_etl_sync_id": "reverse.retry", "record_ids": "all"},
        {"changed": False, "details": {"failed_records": 0, "seen": None, "requested": 0}},
        {"changed": False},
    ),
    Example(
        "reverse_etl_retry_some",
        ReverseEtlRetryFailedRecordsOperator,
        {"reverse_etl_sync_id": "reverse.retry", "record_ids": ["1", "2"]},
        {"changed": False, "details": {"failed_records": 0, "seen": None, "requested": 2}},
        {"changed": False},
    ),
    Example(
        "reverse_etl_retry_reason",
        ReverseEtlRetryFailedRecordsOperator,
        {"reverse_etl_sync_id": "reverse.retry", "reason": "address"},
        {"changed": False, "details": {"failed_records": 0, "seen": 0, "requested": 0}},
        {"changed": False},
    ),
]
