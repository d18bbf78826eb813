"""Connections."""

from typing import Any

from fastapi import APIRouter

from datapipe_local.routes.answers import connections as answers
from datapipe_local.routes.common import DEFAULT_LIMIT, After, CurrentContext, Limit, envelope
from datapipe_local.service import connections

router = APIRouter(prefix="/connections", tags=["connections"])


@router.get("")
def list_connections(
    context: CurrentContext, starting_after: After = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List connections."""
    return envelope(connections.page(context, after=starting_after, limit=limit), answers.connection)
