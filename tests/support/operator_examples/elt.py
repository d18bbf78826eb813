"""Examples of the operators that change ELT syncs and streams."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.operators.elt_streams import (
    EltStreamCancelFullRefreshOperator,
    EltStreamClearIntervalOperator,
    EltStreamDeleteOperator,
    EltStreamRequestFullRefreshOperator,
    EltStreamSetIntervalOperator,
)
from airflow_provider_datapipe.operators.elt_syncs import (
    EltSyncAddStreamsOperator,
    EltSyncAttachOperator,
    EltSyncCreateOperator,
    EltSyncDeleteOperator,
    EltSyncDetachOperator,
    EltSyncDisableOperator,
    EltSyncEnableOperator,
    EltSyncUpdateOperator,
)
from tests.support.operator_examples.example import (
    UNCHANGED,
    Example,
    changed,
    elt_sync,
    files_connection,
    orchestration,
    rows,
)


def _sync(use: str, **more: Any) -> dict[str, Any]:
    return elt_sync(f"elt.{use}", f"elt_{use}", **more)


_STREAMS = ("refresh", "cancel", "set", "set_by_name", "delete", "delete_by_name")

SEED: dict[str, Any] = {
    # A connection has at most ten syncs.
    "connections": [files_connection("elt_new", "Files for new syncs")],
    "orchestrations": [orchestration("elt.orchestration", "ELT")],
    "elt_syncs": [
        _sync("keep", connection_id="elt_new"),
        *(_sync(use) for use in ("update", "disable", "delete", "attach", "grow")),
        _sync("enable", enabled=False),
        _sync("delete_all", source_streams=[{"name": "rows", "file": "rows.csv"}]),
        _sync("detach", orchestration_workflow_id="elt.orchestration"),
        _sync(
            "streams",
            source_streams=[
                *(rows(f"elt.stream.{use}", use) for use in _STREAMS),
                rows("elt.stream.clear", "clear", sync_interval="0 5 * * *"),
            ],
        ),
    ],
}

_KEPT = {"destination_schema_name": "elt_keep", "connection_id": "elt_new", "sync_interval": "0 4 * * *"}
_CREATED = {
    "destination_schema_name": "elt_created",
    "connection_label": "Files for new syncs",
    "sync_interval": "0 4 * * *",
    "elt_settings": '{"region": "eu"}',
    "data_start_date": "2026-01-01",
}

EXAMPLES = [
    Example(
        "elt_sync_create",
        EltSyncCreateOperator,
        _CREATED,
        changed("created", name="elt_created"),
        {**UNCHANGED, "name": "elt_created"},
    ),
    Example("elt_sync_create_update", EltSyncCreateOperator, _KEPT, changed("updated", id="elt.keep")),
    Example("elt_sync_keep", EltSyncCreateOperator, {**_KEPT, "if_exists": "keep"}, {**UNCHANGED, "id": "elt.keep"}),
    Example(
        "elt_sync_update",
        EltSyncUpdateOperator,
        {"destination_schema_name": "elt_update", "sync_interval": "0 4 * * *"},
        changed("updated", id="elt.update"),
    ),
    Example("elt_sync_enable", EltSyncEnableOperator, {"sync_id": "elt.enable"}, changed("enabled", name="elt_enable")),
    Example(
        "elt_sync_disable",
        EltSyncDisableOperator,
        {"destination_schema_name": "elt_disable"},
        changed("disabled", id="elt.disable"),
    ),
    Example("elt_sync_delete", EltSyncDeleteOperator, {"sync_id": "elt.delete"}, changed("deleted", id="elt.delete")),
    Example(
        "elt_sync_delete_with_tables",
        EltSyncDeleteOperator,
        {"destination_schema_name": "elt_delete_all", "remove_data_references": "True"},
        changed("deleted", id="elt.delete_all"),
        {**UNCHANGED, "id": None},
    ),
    Example(
        "elt_sync_add_streams",
        EltSyncAddStreamsOperator,
        {"sync_id": "elt.grow", "source_streams": [{"name": "rows", "full_sync_always": True}]},
        changed("source_streams_added", id="elt.grow"),
    ),
    Example(
        "elt_sync_attach",
        EltSyncAttachOperator,
        {"sync_id": "elt.attach", "orchestration_name": "ELT"},
        changed("attached", name="elt_attach"),
    ),
    Example(
        "elt_sync_detach",
        EltSyncDetachOperator,
        {"destination_schema_name": "elt_detach"},
        changed("detached", id="elt.detach"),
    ),
    Example(
        "elt_stream_request_full_refresh",
        EltStreamRequestFullRefreshOperator,
        {"stream_id": "elt.stream.refresh", "reset_history_table": "True"},
        changed("full_refresh_requested", name="refresh"),
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
        changed("sync_interval_set", name="set"),
    ),
    Example(
        "elt_stream_set_interval_by_name",
        EltStreamSetIntervalOperator,
        {"stream_name": "set_by_name", "sync_id": "elt.streams", "sync_interval": "0 5 * * *"},
        changed("sync_interval_set", id="elt.stream.set_by_name"),
    ),
    Example(
        "elt_stream_clear_interval",
        EltStreamClearIntervalOperator,
        {"stream_id": "elt.stream.clear"},
        changed("sync_interval_cleared", name="clear"),
    ),
    Example(
        "elt_stream_delete",
        EltStreamDeleteOperator,
        {"stream_id": "elt.stream.delete"},
        changed("deleted", id="elt.stream.delete"),
    ),
    Example(
        "elt_stream_delete_by_name",
        EltStreamDeleteOperator,
        {"stream_name": "delete_by_name", "destination_schema_name": "elt_streams"},
        changed("deleted", id="elt.stream.delete_by_name"),
        {**UNCHANGED, "id": None},
    ),
]
