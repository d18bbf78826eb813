"""Routes of ELT streams and their runs."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from datapipe_local.api.models.common import PageDto, RequestRunDto, RunConflictDto, serialized
from datapipe_local.api.models.elt_streams import (
    EltStreamDto,
    EltStreamRunDto,
    FullRefreshRequest,
    SyncIntervalRequest,
    elt_stream,
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
from datapipe_local.services import elt_streams

router = APIRouter(tags=["ELT streams"])


@router.get("/elt_streams", **answering(PageDto[EltStreamDto]))
def list_streams(
    context: CurrentContext, starting_after: After = None, limit: Limit = DEFAULT_LIMIT, elt_sync_id: str | None = None
) -> dict[str, Any]:
    """List streams by creation date, optionally of one sync."""
    page = elt_streams.page(context, after=starting_after, limit=limit, elt_sync_id=elt_sync_id)
    return envelope(page, partial(elt_stream, newer=context.shows_newer_fields))


@router.get("/elt_streams/{stream_id}", **answering(EltStreamDto, 404))
def get_stream(context: CurrentContext, stream_id: str) -> dict[str, Any]:
    """Return a stream."""
    return elt_stream(elt_streams.get(context, stream_id), newer=context.shows_newer_fields)


@router.delete("/elt_streams/{stream_id}", **answering(None, 404, status=204))
def delete_stream(context: CurrentContext, stream_id: str) -> Response:
    """Delete a stream and its runs."""
    elt_streams.delete(context, stream_id)
    return no_content()


@router.post("/elt_streams/{stream_id}/request_run", **answering(RequestRunDto, 404, 409, conflict=RunConflictDto))
def request_run(context: CurrentContext, stream_id: str, body: NoFields | None = None) -> dict[str, str]:
    """Request a run of a stream."""
    return {"status_url": elt_streams.request_run(context, stream_id)}


@router.post("/elt_streams/{stream_id}/request_full_refresh", **answering(None, 404, status=204))
def request_full_refresh(context: CurrentContext, stream_id: str, body: FullRefreshRequest | None = None) -> Response:
    """Request that the next run loads everything."""
    reset = body is not None and body.reset_history_table
    elt_streams.request_full_refresh(context, stream_id, reset_history_table=reset)
    return no_content()


@router.post("/elt_streams/{stream_id}/cancel_full_refresh", **answering(None, 404, status=204))
def cancel_full_refresh(context: CurrentContext, stream_id: str, body: NoFields | None = None) -> Response:
    """Cancel the request for a full refresh."""
    elt_streams.cancel_full_refresh(context, stream_id)
    return no_content()


@router.post("/elt_streams/{stream_id}/set_sync_interval", **answering(EltStreamDto, 404))
def set_sync_interval(context: CurrentContext, stream_id: str, body: SyncIntervalRequest) -> dict[str, Any]:
    """Set the stream's own schedule."""
    stream = elt_streams.set_sync_interval(context, stream_id, body.sync_interval)
    return elt_stream(stream, newer=context.shows_newer_fields)


@router.post("/elt_streams/{stream_id}/clear_sync_interval", **answering(None, 404, status=204))
def clear_sync_interval(context: CurrentContext, stream_id: str, body: NoFields | None = None) -> Response:
    """Remove the stream's own schedule. It then runs with its sync."""
    elt_streams.set_sync_interval(context, stream_id, None)
    return no_content()


@router.get("/elt_stream_runs", **answering(PageDto[EltStreamRunDto], 404))
def list_runs(
    context: CurrentContext,
    elt_stream_id: str,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    sort_direction: SortDirection = "desc",
) -> Response:
    """List the runs of a stream of the last three months, by start date."""
    page = elt_streams.page_of_runs(context, elt_stream_id, after=starting_after, limit=limit, direction=sort_direction)
    return unvalidated_json(envelope(page, partial(serialized, EltStreamRunDto)))


@router.get("/elt_stream_runs/{run_id}", **answering(EltStreamRunDto, 404))
def get_run(context: CurrentContext, run_id: str) -> Response:
    """Return a run of a stream."""
    return unvalidated_json(serialized(EltStreamRunDto, elt_streams.runs(context).get(run_id)))
