"""Routes of reverse ETL syncs."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from datapipe_local.api.routes.common import (
    DEFAULT_LIMIT,
    NO_CONTENT,
    After,
    CurrentContext,
    Limit,
    NoFields,
    envelope,
    no_content,
)
from datapipe_local.api.routes.documented import answering
from datapipe_local.api.routes.reverse_etl.bodies import ReverseEtlSyncCreateRequest, ReverseEtlSyncUpdateRequest
from datapipe_local.api.schemas.common import PageDto, RequestRunDto, RunConflictDto
from datapipe_local.api.schemas.reverse_etl import ReverseEtlSyncDto, ReverseEtlSyncWithSettingsDto
from datapipe_local.api.serializers import reverse_etl as answers
from datapipe_local.services import reverse_etl, reverse_etl_definitions

router = APIRouter()


@router.get("/reverse_etl_syncs", **answering(PageDto[ReverseEtlSyncDto]))
def list_syncs(
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    destination_connection_id: str | None = None,
) -> dict[str, Any]:
    """List syncs by creation date, optionally of one destination connection."""
    page = reverse_etl.page(
        context, after=starting_after, limit=limit, destination_connection_id=destination_connection_id
    )
    return envelope(page, partial(answers.reverse_etl_sync, context))


@router.post("/reverse_etl_syncs", **answering(ReverseEtlSyncWithSettingsDto, status=201))
def create_sync(context: CurrentContext, body: ReverseEtlSyncCreateRequest) -> dict[str, Any]:
    """Create an active sync."""
    sync = reverse_etl_definitions.create(context, **body.as_json())
    return answers.reverse_etl_sync(context, sync, with_settings=True)


@router.get("/reverse_etl_syncs/{sync_id}", **answering(ReverseEtlSyncWithSettingsDto, 404))
def get_sync(context: CurrentContext, sync_id: str) -> dict[str, Any]:
    """Return a sync with its settings."""
    return answers.reverse_etl_sync(context, reverse_etl.get(context, sync_id), with_settings=True)


@router.post("/reverse_etl_syncs/{sync_id}", **answering(ReverseEtlSyncWithSettingsDto, 404))
def update_sync(context: CurrentContext, sync_id: str, body: ReverseEtlSyncUpdateRequest) -> dict[str, Any]:
    """Update a deactivated sync."""
    sync = reverse_etl_definitions.update(context, sync_id, **body.as_json())
    return answers.reverse_etl_sync(context, sync, with_settings=True)


@router.delete("/reverse_etl_syncs/{sync_id}", **answering(None, 404, status=NO_CONTENT))
def delete_sync(context: CurrentContext, sync_id: str) -> Response:
    """Delete a sync. Records at the destination stay."""
    reverse_etl.delete(context, sync_id)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/activate", **answering(None, 404, status=NO_CONTENT))
def activate_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Activate a sync, so that it runs on its schedule."""
    reverse_etl.activate(context, sync_id, enabled=True)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/deactivate", **answering(None, 404, status=NO_CONTENT))
def deactivate_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Deactivate a sync, so that it no longer runs."""
    reverse_etl.activate(context, sync_id, enabled=False)
    return no_content()


@router.post("/reverse_etl_syncs/{sync_id}/request_run", **answering(RequestRunDto, 404, 409, conflict=RunConflictDto))
def request_run(
    context: CurrentContext,
    sync_id: str,
    body: NoFields | None = None,
) -> dict[str, str]:
    """Request a run of a sync."""
    return {"status_url": reverse_etl.request_run(context, sync_id)}
