"""Serializers of ELT syncs, streams and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import SnapshotStatus
from datapipe_local.api.serializers import Json, present
from datapipe_local.services import connections, elt_syncs
from datapipe_local.services.connections import WAREHOUSE_CONNECTION_ID, WAREHOUSE_INTEGRATION_ID

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.services.elt_syncs import StreamState
    from datapipe_local.services.source_streams import Available
    from datapipe_local.storage import records

#: The local service has a single account.
_ACCOUNT_ID = "local"


def elt_sync(context: Context, record: records.EltSync, *, with_streams: bool = False) -> Json:
    """Return ``EltSyncDto``."""
    body = {
        "id": record.id,
        "account_id": _ACCOUNT_ID,
        "source_connection_id": record.connection_id,
        "source_integration_id": connections.get(context, record.connection_id).integration_id,
        "destination_connection_id": WAREHOUSE_CONNECTION_ID,
        "destination_integration_id": WAREHOUSE_INTEGRATION_ID,
        "destination_schema_name": record.destination_schema_name,
        "enabled": record.enabled,
        "status": elt_syncs.state(context, record),
        # The interface omits it while the sync is attached to an orchestration.
        "sync_interval": None if record.orchestration_workflow_id else record.sync_interval,
        "orchestration_workflow_id": record.orchestration_workflow_id,
        "start_date": record.start_date,
        "config": record.settings or None,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }
    if with_streams:
        newer = context.shows_newer_fields
        body["source_streams"] = [elt_stream(each, newer=newer) for each in elt_syncs.streams(context, record.id)]
    return present(body)


def elt_stream(record: records.EltStream, *, newer: bool) -> Json:
    """Return ``EltStreamDto``. With ``newer`` it includes the stream's own schedule, which can be null."""
    body = present(
        {
            "id": record.id,
            "elt_sync_id": record.elt_sync_id,
            "name": record.name,
            "incremental_primary_key_name": record.incremental_primary_key_name,
            "incremental_pointer_id": record.incremental_pointer_id,
            "full_sync_at_midnight": record.full_sync_at_midnight,
            "full_sync_always": record.full_sync_always,
            "protected_from_full_sync": record.protected_from_full_sync,
            "excluded_substreams": record.excluded_substreams,
            "enabled_history_table": record.enabled_history_table,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        }
    )
    return body | {"sync_interval": record.sync_interval} if newer else body


def available_stream(one: Available) -> Json:
    """Return ``AvailableStreamDto``."""
    details = {"details": "The sync has this stream, and its source has it no more."} if one.retired else None
    return present(
        {
            "name": one.name,
            "is_selectable": one.is_selectable,
            "preselect": one.preselect,
            "sub_streams": list(one.substreams),
            "retired": one.retired,
            "retirement_details": details,
        }
    )


def elt_stream_run(record: records.EltStreamRun) -> Json:
    """Return ``EltStreamRunDto``."""
    return present(
        {
            "id": record.id,
            "elt_sync_id": record.elt_sync_id,
            "elt_stream_id": record.elt_stream_id,
            "started_at": record.started_at,
            "finished_at": record.finished_at,
            "status": record.status,
            "rows_synced": record.rows_synced,
        }
    )


def stream_snapshots(state: StreamState) -> Json:
    """Return ``SourceStreamSnapshotStatesDto``."""
    active = None
    if state.active is not None:
        active = _snapshot(state.active)
    elif state.job is not None:
        active = {"bytes_synced": 0, "status": SnapshotStatus.SCHEDULED}
    return present(
        {
            "name": state.name,
            "active_sync": active,
            "latest_sync": None if state.latest is None else _snapshot(state.latest),
        }
    )


def _snapshot(run: records.EltStreamRun) -> Json:
    going = run.status == EltStreamRunStatus.RUNNING
    return present(
        {
            "bytes_synced": run.bytes_synced,
            "records_synced": run.rows_synced,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
            # Snapshots have no status for a finished slice of a load.
            "status": SnapshotStatus.COMPLETED if run.status == EltStreamRunStatus.CHUNK_COMPLETED else run.status,
            "full_sync_trigger": run.full_sync_trigger,
            "operation_mode": run.operation_mode,
            "error_message": None if going else run.error_message,
        }
    )
