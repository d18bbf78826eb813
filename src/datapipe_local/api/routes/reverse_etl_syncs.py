"""Routes of reverse ETL: destination catalogs, syncs, runs and failed records."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from datapipe_local.api.models import reverse_etl_syncs as models
from datapipe_local.api.models.common import ListDto, PageDto, RequestRunDto, RunConflictDto, serialized
from datapipe_local.api.models.reverse_etl_syncs import (
    RetryRecordsRequest,
    ReverseEtlAvailableOperationDto,
    ReverseEtlDestinationPropertyDto,
    ReverseEtlObjectTypeDto,
    ReverseEtlSyncCreateRequest,
    ReverseEtlSyncDto,
    ReverseEtlSyncFailedRecordCountDto,
    ReverseEtlSyncRecordErrorDto,
    ReverseEtlSyncRunDto,
    ReverseEtlSyncUpdateRequest,
    ReverseEtlSyncWithSettingsDto,
    SettingsRequest,
    SyncSettingsSchemaDto,
)
from datapipe_local.api.routes.common import (
    DEFAULT_LIMIT,
    After,
    CurrentContext,
    Limit,
    NoFields,
    SortDirection,
    envelope,
    no_content,
    unvalidated_json,
)
from datapipe_local.api.routes.documented import answering
from datapipe_local.services import reverse_etl_catalog, reverse_etl_definitions, reverse_etl_records, reverse_etl_syncs

router = APIRouter(tags=["reverse ETL"])


# Fixed paths below /reverse_etl_syncs must precede the route with the sync ID.
@router.get("/reverse_etl_syncs/object_types", **answering(ListDto[ReverseEtlObjectTypeDto], 404))
def list_object_types(context: CurrentContext, connection_id: str) -> dict[str, Any]:
    """List the object types of a destination."""
    kinds = reverse_etl_catalog.object_types(context, connection_id)
    return {"data": [models.object_type(kind.object_type, declared=kind.declared) for kind in kinds]}


@router.get("/reverse_etl_syncs/available_operations", **answering(ListDto[ReverseEtlAvailableOperationDto], 404))
def list_available_operations(context: CurrentContext, connection_id: str, object_type_id: str) -> dict[str, Any]:
    """List the operations of an object type."""
    modes = reverse_etl_catalog.operations(context, connection_id, object_type_id)
    return {"data": [models.operation(mode, needs_key=mode in reverse_etl_catalog.WITH_KEY) for mode in modes]}


@router.get("/reverse_etl_syncs/destination_schema", **answering(ListDto[ReverseEtlDestinationPropertyDto], 404))
def get_destination_schema(
    context: CurrentContext, connection_id: str, object_type_id: str, operation_mode: str, source_id: str
) -> dict[str, Any]:
    """Return the properties that source columns can be mapped to."""
    properties = reverse_etl_catalog.properties(context, connection_id, object_type_id, operation_mode, source_id)
    return {"data": [models.destination_property(one) for one in properties]}


@router.post("/reverse_etl_syncs/settings_schema", **answering(SyncSettingsSchemaDto, 404))
def get_settings_schema(
    context: CurrentContext, connection_id: str, object_type: str, body: SettingsRequest | None = None
) -> dict[str, Any]:
    """Return the JSON Schema of a sync's settings. Read-only."""
    known = None if body is None else body.partial_settings
    return reverse_etl_catalog.settings_schema(context, connection_id, object_type, known)


@router.get("/reverse_etl_syncs", **answering(PageDto[ReverseEtlSyncDto]))
def list_syncs(
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    destination_connection_id: str | None = None,
) -> dict[str, Any]:
    """List syncs by creation date, optionally of one destination connection."""
    page = reverse_etl_syncs.page(
        context, after=starting_after, limit=limit, destination_connection_id=destination_connection_id
    )
    return envelope(page, partial(models.reverse_etl_sync, context))


@router.post("/reverse_etl_syncs", **answering(ReverseEtlSyncWithSettingsDto, status=201))
def create_sync(context: CurrentContext, body: ReverseEtlSyncCreateRequest) -> dict[str, Any]:
    """Create an active sync."""
    sync = reverse_etl_definitions.create(context, **body.as_json())
    return models.reverse_etl_sync(context, sync, with_settings=True)


@router.get("/reverse_etl_syncs/{sync_id}", **answering(ReverseEtlSyncWithSettingsDto, 404))
def get_sync(context: CurrentContext, sync_id: str) -> dict[str, Any]:
    """Return a sync with its settings."""
    return models.reverse_etl_sync(context, reverse_etl_syncs.get(context, sync_id), with_settings=True)


@router.post("/reverse_etl_syncs/{sync_id}", **answering(ReverseEtlSyncWithSettingsDto, 404))
def update_sync(context: CurrentContext, sync_id: str, body: ReverseEtlSyncUpdateRequest) -> dict[str, Any]:
    """Update a deactivated sync."""
    sync = reverse_etl_definitions.update(context, sync_id, **body.as_json())
    return models.reverse_etl_sync(context, sync, with_settings=True)


@router.delete("/reverse_etl_syncs/{sync_id}", **answering(None, 404, status=204))
def delete_sync(context: CurrentContext, sync_id: str) -> Response:
    """Delete a sync. Records at the destination stay."""
    reverse_etl_syncs.delete(context, sync_id)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/activate", **answering(None, 404, status=204))
def activate_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Activate a sync, so that it runs on its schedule."""
    reverse_etl_syncs.activate(context, sync_id, enabled=True)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/deactivate", **answering(None, 404, status=204))
def deactivate_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Deactivate a sync, so that it no longer runs."""
    reverse_etl_syncs.activate(context, sync_id, enabled=False)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/request_run", **answering(RequestRunDto, 404, 409, conflict=RunConflictDto))
def request_run(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> dict[str, str]:
    """Request a run of a sync."""
    return {"status_url": reverse_etl_syncs.request_run(context, sync_id)}


@router.get("/reverse_etl_sync_runs", **answering(PageDto[ReverseEtlSyncRunDto], 404))
def list_runs(
    context: CurrentContext,
    reverse_etl_sync_id: str,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    sort_direction: SortDirection = "desc",
) -> Response:
    """List the runs of a sync by start date."""
    page = reverse_etl_syncs.page_of_runs(
        context, reverse_etl_sync_id, after=starting_after, limit=limit, direction=sort_direction
    )
    return unvalidated_json(envelope(page, partial(serialized, ReverseEtlSyncRunDto)))


@router.get("/reverse_etl_sync_runs/{run_id}", **answering(ReverseEtlSyncRunDto, 404))
def get_run(context: CurrentContext, run_id: str) -> Response:
    """Return a run of a sync."""
    return unvalidated_json(serialized(ReverseEtlSyncRunDto, reverse_etl_syncs.runs(context).get(run_id)))


@router.get("/reverse_etl_failed_records", **answering(ListDto[ReverseEtlSyncRecordErrorDto], 404))
def list_failed_records(
    context: CurrentContext, reverse_etl_sync_id: str, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List unresolved failed records."""
    failures = reverse_etl_records.failed(context, reverse_etl_sync_id, limit=limit)
    return {
        "data": [
            {"sync_id": reverse_etl_sync_id, "record_id": record_id, "error": error} for record_id, error in failures
        ]
    }


@router.get("/reverse_etl_failed_records/count", **answering(ReverseEtlSyncFailedRecordCountDto, 404))
def count_failed_records(context: CurrentContext, reverse_etl_sync_id: str) -> dict[str, int]:
    """Count unresolved failed records."""
    return {"count": reverse_etl_records.count_failed(context, reverse_etl_sync_id)}


@router.post("/reverse_etl_failed_records/retry", **answering(None, 404, status=204))
def retry(context: CurrentContext, reverse_etl_sync_id: str, body: RetryRecordsRequest) -> Response:
    """Request that the next run sends the given failed records again."""
    reverse_etl_records.retry(context, reverse_etl_sync_id, body.record_ids)
    return no_content()


@router.post("/reverse_etl_failed_records/retry_all", **answering(None, 404, status=204))
def retry_all(context: CurrentContext, reverse_etl_sync_id: str, body: NoFields | None = None) -> Response:
    """Request that the next run sends all failed records again."""
    reverse_etl_records.retry(context, reverse_etl_sync_id)
    return no_content()
