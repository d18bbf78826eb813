"""Serializers of reverse ETL resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName, OperationType, SourceType
from datapipe_local.api.serializers import Json, present
from datapipe_local.services import connections

if TYPE_CHECKING:
    from datapipe_local.connectors.destinations.settings import ObjectType, Property
    from datapipe_local.services.context import Context
    from datapipe_local.storage import records


def reverse_etl_sync(context: Context, record: records.ReverseEtlSync, *, with_settings: bool = False) -> Json:
    """Return ``ReverseEtlSyncDto``, or ``ReverseEtlSyncWithSettingsDto`` if ``with_settings`` is set."""
    destination = connections.get(context, record.destination_connection_id)
    return present(
        {
            "id": record.id,
            "enabled": record.enabled,
            "source_type": record.source_type,
            "source_id": record.source_id,
            "transform_id": record.source_id if record.source_type == SourceType.TRANSFORM else None,
            "destination_connection_id": record.destination_connection_id,
            "destination_integration_id": destination.integration_id,
            "object_type_id": record.object_type_id,
            # The interface omits it while the sync is attached to an orchestration.
            "sync_interval": None if record.orchestration_workflow_id else record.sync_interval,
            "orchestration_workflow_id": record.orchestration_workflow_id,
            "operation": record.operation,
            "settings": record.settings if with_settings else None,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        }
    )


def reverse_etl_sync_run(record: records.ReverseEtlSyncRun) -> Json:
    """Return ``ReverseEtlSyncRunDto``."""
    return present(
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


def object_type(kind: ObjectType, *, declared: bool) -> Json:
    """Return ``ReverseEtlObjectTypeDto``."""
    return {"id": kind.id, "name": kind.name or kind.id, "type": "declared" if declared else "open", "associations": []}


def operation(mode: OperationName, *, needs_key: bool) -> Json:
    """Return ``ReverseEtlAvailableOperationDto``."""
    return {"type": OperationType.PRIMARY, "mode": mode, "primary_key_required": needs_key}


def destination_property(one: Property) -> Json:
    """Return ``ReverseEtlDestinationPropertyDto``."""
    return {
        "id": one.id,
        "property_name": one.name or one.id,
        "property_type": one.type,
        "readonly": one.readonly,
        "is_required": one.required,
        "is_primary_key": one.primary_key,
    }
