"""ELT syncs."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from datapipe_local.routes.answers import elt as answers
from datapipe_local.routes.common import (
    DEFAULT_LIMIT,
    NO_CONTENT,
    After,
    CurrentContext,
    Limit,
    NoFields,
    envelope,
    no_content,
)
from datapipe_local.service import elt_syncs

router = APIRouter(prefix="/elt_syncs", tags=["ELT syncs"])


@router.get("")
def list_syncs(
    context: CurrentContext,
    starting_after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    connection_id: str | None = None,
) -> dict[str, Any]:
    """List syncs by creation date, of one source connection if its id is given."""
    page = elt_syncs.page(context, after=starting_after, limit=limit, connection_id=connection_id)
    return envelope(page, partial(answers.elt_sync, context))


@router.get("/{sync_id}")
def get_sync(context: CurrentContext, sync_id: str) -> dict[str, Any]:
    """Give a sync with its streams."""
    return answers.elt_sync(context, elt_syncs.get(context, sync_id), with_streams=True)


@router.post("/{sync_id}/enable", status_code=NO_CONTENT)
def enable_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Have a sync run on its schedule."""
    elt_syncs.enable(context, sync_id, enabled=True)
    return no_content()


@router.post("/{sync_id}/disable", status_code=NO_CONTENT)
def disable_sync(context: CurrentContext, sync_id: str, body: NoFields | None = None) -> Response:
    """Have a sync no longer run on its schedule."""
    elt_syncs.enable(context, sync_id, enabled=False)
    return no_content()


@router.get("/{sync_id}/status")
def get_status(context: CurrentContext, sync_id: str) -> dict[str, Any]:
    """Tell the active and the latest state of each stream."""
    elt_syncs.get(context, sync_id)
    states = elt_syncs.stream_states(context, sync_id)
    return {"elt_sync_id": sync_id, "source_streams": [answers.stream_snapshots(state) for state in states]}
