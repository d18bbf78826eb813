"""Records as the interface sends them. Optional fields that have no value are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import OperationMode, SnapshotStatus
from airflow_provider_datapipe.api.models.reverse_etl import SourceType
from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.service import connections, elt_syncs, transforms
from datapipe_local.service.connections import WAREHOUSE_CONNECTION_ID, WAREHOUSE_INTEGRATION_ID
from datapipe_local.service.references import Catalogue

if TYPE_CHECKING:
    from datapipe_local.service.context import Context
    from datapipe_local.service.elt_syncs import StreamState
    from datapipe_local.service.references import Reference
    from datapipe_local.store import records
    from datapipe_local.warehouse import Column

Json = dict[str, Any]

#: There is one account on one machine.
_ACCOUNT_ID = "local"


def connection(record: records.Connection) -> Json:
    """Give a connection; its settings, which may hold secrets, stay here."""
    return {
        "id": record.id,
        "integration_id": record.integration_id,
        "label": record.label,
        "created_at": record.created_at,
    }


def elt_sync(context: Context, record: records.EltSync, *, with_streams: bool = False) -> Json:
    """Give ``EltSyncDto``."""
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
        "sync_interval": record.sync_interval,
        "orchestration_workflow_id": record.orchestration_workflow_id,
        "start_date": record.start_date,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }
    if with_streams:
        body["source_streams"] = [elt_stream(stream) for stream in elt_syncs.streams(context, record.id)]
    return _present(body)


def elt_stream(record: records.EltStream) -> Json:
    """Give ``EltStreamDto``."""
    return _present(
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


def elt_stream_run(record: records.EltStreamRun) -> Json:
    """Give ``EltStreamRunDto``."""
    return _present(
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
    """Give ``SourceStreamSnapshotStatesDto``."""
    active = None
    if state.active is not None:
        active = _snapshot(state.active)
    elif state.job is not None:
        active = {"bytes_synced": 0, "status": SnapshotStatus.SCHEDULED, "operation_mode": OperationMode.FULL}
    return _present(
        {
            "name": state.stream.name,
            "active_sync": active,
            "latest_sync": None if state.latest is None else _snapshot(state.latest),
        }
    )


def orchestration(record: records.Orchestration) -> Json:
    """Give ``OrchestrationDto``, with the schedule, which the interface names."""
    return {"id": record.id, "name": record.name, "cron_schedule": record.cron_schedule}


def orchestration_run(record: records.OrchestrationRun) -> Json:
    """Give ``OrchestrationRunDto``."""
    return _present(
        {
            "id": record.id,
            "orchestration_id": record.orchestration_id,
            "status": record.status,
            "due_at": record.due_at,
            "started_at": record.started_at,
            "finished_at": record.finished_at,
        }
    )


def transform(context: Context, catalogue: Catalogue, record: records.Transform) -> Json:
    """Give ``TransformDto``; ``materialization_status`` is null for drafts and views."""
    template = transforms.version(context, record, record.latest_version_id).sql_template
    body = _present(
        {
            "id": record.id,
            "name": record.name,
            "folder_path": record.folder_path,
            "status": record.status,
            "materialization": record.materialization,
            "sql_template": template,
            "parameters": [reference(entry) for entry in catalogue.describe(template)],
            "documentation": record.documentation,
            "materialization_error": record.materialization_error,
            "orchestration_workflow_id": record.orchestration_workflow_id,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        }
    )
    is_table = record.materialization == Materialization.TABLE
    body["materialization_status"] = record.materialization_status if is_table else None
    return body


def reference(entry: Reference) -> Json:
    """Give ``TransformParameterDto`` or ``AvailableReferenceDto``."""
    return {"weld_tag": entry.tag, "type": entry.type, "dw_item_id": str(entry.place)}


def column(entry: Column) -> Json:
    """Give ``TransformSchemaFieldDto``."""
    return {"name": entry.name, "type": entry.type, "nullable": entry.nullable}


def reverse_etl_sync(context: Context, record: records.ReverseEtlSync, *, with_settings: bool = False) -> Json:
    """Give ``ReverseEtlSyncDto``, or with its settings ``ReverseEtlSyncWithSettingsDto``."""
    destination = connections.get(context, record.destination_connection_id)
    return _present(
        {
            "id": record.id,
            "enabled": record.enabled,
            "source_type": SourceType.TRANSFORM,
            "source_id": record.source_id,
            "transform_id": record.source_id,
            "destination_connection_id": record.destination_connection_id,
            "destination_integration_id": destination.integration_id,
            "object_type_id": record.object_type_id,
            "sync_interval": record.sync_interval,
            "orchestration_workflow_id": record.orchestration_workflow_id,
            "operation": record.operation,
            "settings": record.settings if with_settings else None,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        }
    )


def reverse_etl_sync_run(record: records.ReverseEtlSyncRun) -> Json:
    """Give ``ReverseEtlSyncRunDto``."""
    return _present(
        {
            "id": record.id,
            "reverse_etl_sync_id": record.reverse_etl_sync_id,
            "started_at": record.started_at,
            "finished_at": record.finished_at,
            "status": record.status,
            "total_rows": record.total_rows,
            "distinct_rows": record.distinct_rows,
            "new_rows": record.new_rows,
            "synced_rows": record.synced_rows,
            "failed_rows": record.failed_rows,
            "error": record.error,
        }
    )


def _snapshot(run: records.EltStreamRun) -> Json:
    going = run.status == EltStreamRunStatus.RUNNING
    return _present(
        {
            "bytes_synced": run.bytes_synced,
            "records_synced": run.rows_synced,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
            # A slice of a long load has ended well, as far as it goes.
            "status": SnapshotStatus.COMPLETED if run.status == EltStreamRunStatus.CHUNK_COMPLETED else run.status,
            "full_sync_trigger": run.full_sync_trigger,
            "operation_mode": run.operation_mode,
            "error_message": None if going else run.error_message,
        }
    )


def _present(body: Json) -> Json:
    return {name: value for name, value in body.items() if value is not None}
