"""Routes of ELT syncs."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from airflow_provider_datapipe.api.models.orchestrations import AttachRequest
from datapipe_local.api.models.common import PageDto
from datapipe_local.api.models.elt_streams import elt_stream
from datapipe_local.api.models.elt_syncs import (
    AvailableStreamDto,
    EltSyncAddSourceStreamsResponseDto,
    EltSyncCreateRequest,
    EltSyncDto,
    EltSyncStatusDto,
    EltSyncUpdateRequest,
    SourceStreamsRequest,
    available_stream,
    elt_sync,
    stream_snapshots,
)
from datapipe_local.api.routes.common import (
    DEFAULT_LIMIT,
    After,
    CurrentContext,
    Limit,
    NoFields,
    envelope,
    no_content,
    unvalidated_json,
)
from datapipe_local.api.routes.documented import answering
from datapipe_local.services import available_streams, elt_syncs
from datapipe_local.services.available_streams import Wanted

router = APIRouter(prefix="/elt_syncs", tags=["ELT syncs"])

RemoveData = Annotated[Literal["true", "false"], Query(alias="removeDataReferences")]


@router.get("", **answering(PageDto[EltSyncDto]))
def list_syncs(
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    connection_id: str | None = None,
) -> dict[str, Any]:
    """List syncs by creation date, optionally of one source connection."""
    page = elt_syncs.page(context, after=starting_after, limit=limit, connection_id=connection_id)
    return envelope(page, partial(elt_sync, context))


@router.post("", **answering(EltSyncDto, 404, 409, status=201))
def create_sync(context: CurrentContext, body: EltSyncCreateRequest) -> dict[str, Any]:
    """Create a sync without streams."""
    sync = elt_syncs.create(
        context,
        connection_id=body.connection_id,
        destination_schema_name=body.destination_schema_name,
        sync_interval=body.sync_interval,
        settings=body.elt_settings or {},
        start_date=body.start_date,
    )
    return elt_sync(context, sync, with_streams=True)


@router.get("/{sync_id}", **answering(EltSyncDto, 404))
def get_sync(context: CurrentContext, sync_id: str) -> dict[str, Any]:
    """Return a sync with its streams."""
    return elt_sync(context, elt_syncs.get(context, sync_id), with_streams=True)


@router.post("/{sync_id}", **answering(EltSyncDto, 404))
def update_sync(context: CurrentContext, sync_id: str, body: EltSyncUpdateRequest) -> dict[str, Any]:
    """Update a sync. Missing fields keep their value."""
    sync = elt_syncs.update(context, sync_id, settings=body.elt_settings, sync_interval=body.sync_interval)
    return elt_sync(context, sync, with_streams=True)


@router.delete("/{sync_id}", **answering(None, 404, status=204))
def delete_sync(context: CurrentContext, sync_id: str, remove: RemoveData = "false") -> Response:
    """Delete a sync and its streams, optionally with its tables."""
    elt_syncs.delete(context, sync_id, with_tables=remove == "true")
    return no_content()


@router.post("/{sync_id}/enable", **answering(None, 404, status=204))
def enable_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Enable a sync, so that it runs on its schedule."""
    elt_syncs.enable(context, sync_id, enabled=True)
    return no_content()


@router.post("/{sync_id}/disable", **answering(None, 404, status=204))
def disable_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Disable a sync, so that it no longer runs."""
    elt_syncs.enable(context, sync_id, enabled=False)
    return no_content()


@router.post("/{sync_id}/orchestration", **answering(EltSyncDto, 404))
def attach_orchestration(context: CurrentContext, sync_id: str, body: AttachRequest) -> dict[str, Any]:
    """Attach a sync to an orchestration."""
    sync = elt_syncs.attach(context, sync_id, body.orchestration_workflow_id)
    return elt_sync(context, sync, with_streams=True)


@router.delete("/{sync_id}/orchestration", **answering(EltSyncDto, 404))
def detach_orchestration(context: CurrentContext, sync_id: str) -> dict[str, Any]:
    """Detach a sync from its orchestration. It then runs on its own schedule."""
    return elt_sync(context, elt_syncs.detach(context, sync_id), with_streams=True)


@router.get("/{sync_id}/available_source_streams", **answering(PageDto[AvailableStreamDto], 404))
def available_source_streams(
    context: CurrentContext, sync_id: str, starting_after: After = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List the streams that a sync has or can add, by name."""
    page = available_streams.page(context, sync_id, after=starting_after, limit=limit)
    return envelope(page, available_stream)


@router.post("/{sync_id}/source_streams", **answering(EltSyncAddSourceStreamsResponseDto, 404, status=201))
def add_source_streams(context: CurrentContext, sync_id: str, body: SourceStreamsRequest) -> dict[str, Any]:
    """Add streams, and update those that the sync already has. The response contains the added streams."""
    wanted = [
        Wanted(one.name, one.model_dump(mode="json", exclude={"name"}, exclude_unset=True))
        for one in body.source_streams or ()
    ]
    added = available_streams.add(context, sync_id, wanted)
    newer = context.shows_newer_fields
    return {"source_streams": [elt_stream(stream, newer=newer) for stream in added]}


@router.get("/{sync_id}/status", **answering(EltSyncStatusDto, 404))
def get_status(context: CurrentContext, sync_id: str) -> Response:
    """Return the active and the latest run state of each stream."""
    elt_syncs.get(context, sync_id)
    states = elt_syncs.stream_states(context, sync_id)
    return unvalidated_json({"elt_sync_id": sync_id, "source_streams": [stream_snapshots(state) for state in states]})
