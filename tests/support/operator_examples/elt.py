"""Examples of the operators that change ELT syncs and streams."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.elt_changes import (
    EltStreamCancelFullRefreshOperator,
    EltStreamClearIntervalOperator,
    EltStreamDeleteOperator,
    EltStreamRequestFullRefreshOperator,
    EltStreamSetIntervalOperator,
    EltSyncAddStreamsOperator,
    EltSyncAttachOperator,
    EltSyncCreateOperator,
    EltSyncDeleteOperator,
    EltSyncDetachOperator,
    EltSyncDisableOperator,
    EltSyncEnableOperator,
    EltSyncUpdateOperator,
)
from tests.support.operator_examples.example import Example


def _sync(use: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"elt.{use}",
        "connection_id": "files",
        "destination_schema_name": f"elt_{use}",
        "sync_interval": "0 3 * * *",
    } | more


def _stream(use: str, **more: Any) -> dict[str, Any]:
    return {"id": f"elt.stream.{use}", "name": use, "file": "rows.csv"} | more


SEED: dict[str, Any] = {
    "connections": [
        # A connection has ten syncs at the most.
        {"id": "elt_new", "integration_id": "files", "label": "Files for new syncs", "settings": {"path": "{folder}"}}
    ],
    "orchestrations": [{"id": "elt.orchestration", "name": "ELT", "cron_schedule": "0 2 * * *"}],
    "elt_syncs": [
        _sync("keep", connection_id="elt_new"),
        *(_sync(use) for use in ("update", "disable", "delete", "attach", "grow")),
        _sync("enable", enabled=False),
        _sync("delete_all", source_streams=[{"name": "rows", "file": "rows.csv"}]),
        _sync("detach", orchestration_workflow_id="elt.orchestration"),
        _sync(
            "streams",
            source_streams=[
                *(_stream(use) for use in ("refresh", "cancel", "set", "set_by_name", "delete", "delete_by_name")),
                _stream("clear", sync_interval="0 5 * * *"),
            ],
        ),
    ],
}

EXAMPLES = [
    Example(
        "elt_sync_create",
        EltSyncCreateOperator,
        {
            "destination_schema_name": "elt_created",
            "connection_label": "Files for new syncs",
            "sync_interval": "0 4 * * *",
            "elt_settings": '{"region": "eu"}',
            "data_start_date": "2026-01-01",
        },
        {"action": "created", "changed": True, "name": "elt_created"},
        {"action": "none", "changed": False, "name": "elt_created"},
    ),
    Example(
        "elt_sync_create_update",
        EltSyncCreateOperator,
        {"destination_schema_name": "elt_keep", "connection_id": "elt_new", "sync_interval": "0 4 * * *"},
        {"action": "updated", "changed": True, "id": "elt.keep"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_keep",
        EltSyncCreateOperator,
        {
            "destination_schema_name": "elt_keep",
            "connection_id": "elt_new",
            "sync_interval": "0 4 * * *",
            "if_exists": "keep",
        },
        {"action": "none", "changed": False, "id": "elt.keep"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_update",
        EltSyncUpdateOperator,
        {"destination_schema_name": "elt_update", "sync_interval": "0 4 * * *"},
        {"action": "updated", "changed": True, "id": "elt.update"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_enable",
        EltSyncEnableOperator,
        {"sync_id": "elt.enable"},
        {"action": "enabled", "changed": True, "name": "elt_enable"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_disable",
        EltSyncDisableOperator,
        {"destination_schema_name": "elt_disable"},
        {"action": "disabled", "changed": True, "id": "elt.disable"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_delete",
        EltSyncDeleteOperator,
        {"sync_id": "elt.delete"},
        {"action": "deleted", "changed": True, "id": "elt.delete"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_delete_with_tables",
        EltSyncDeleteOperator,
        {"destination_schema_name": "elt_delete_all", "remove_data_references": "True"},
        {"action": "deleted", "changed": True, "id": "elt.delete_all"},
        {"action": "none", "changed": False, "id": None},
    ),
    Example(
        "elt_sync_add_streams",
        EltSyncAddStreamsOperator,
        {"sync_id": "elt.grow", "source_streams": [{"name": "rows", "full_sync_always": True}]},
        {"action": "source_streams_added", "changed": True, "id": "elt.grow"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_attach",
        EltSyncAttachOperator,
        {"sync_id": "elt.attach", "orchestration_name": "ELT"},
        {"action": "attached", "changed": True, "name": "elt_attach"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_sync_detach",
        EltSyncDetachOperator,
        {"destination_schema_name": "elt_detach"},
        {"action": "detached", "changed": True, "id": "elt.detach"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_stream_request_full_refresh",
        EltStreamRequestFullRefreshOperator,
        {"stream_id": "elt.stream.refresh", "reset_history_table": "True"},
        {"action": "full_refresh_requested", "changed": True, "name": "refresh"},
        {"action": "full_refresh_requested"},
    ),
    Example(
        "elt_stream_cancel_full_refresh",
        EltStreamCancelFullRefreshOperator,
        {"stream_name": "cancel", "destination_schema_name": "elt_streams"},
        {"action": "full_refresh_canceled", "id": "elt.stream.cancel"},
        {"action": "full_refresh_canceled"},
    ),
    Example(
        "elt_stream_set_interval",
        EltStreamSetIntervalOperator,
        {"stream_id": "elt.stream.set", "sync_interval": "0 5 * * *"},
        {"action": "sync_interval_set", "changed": True, "name": "set"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_stream_set_interval_by_name",
        EltStreamSetIntervalOperator,
        {"stream_name": "set_by_name", "sync_id": "elt.streams", "sync_interval": "0 5 * * *"},
        {"action": "sync_interval_set", "changed": True, "id": "elt.stream.set_by_name"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_stream_clear_interval",
        EltStreamClearIntervalOperator,
        {"stream_id": "elt.stream.clear"},
        {"action": "sync_interval_cleared", "changed": True, "name": "clear"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_stream_delete",
        EltStreamDeleteOperator,
        {"stream_id": "elt.stream.delete"},
        {"action": "deleted", "changed": True, "id": "elt.stream.delete"},
        {"action": "none", "changed": False},
    ),
    Example(
        "elt_stream_delete_by_name",
        EltStreamDeleteOperator,
        {"stream_name": "delete_by_name", "destination_schema_name": "elt_streams"},
        {"action": "deleted", "changed": True, "id": "elt.stream.delete_by_name"},
        {"action": "none", "changed": False, "id": None},
    ),
]
