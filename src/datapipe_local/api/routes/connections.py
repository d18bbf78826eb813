"""Routes of connections."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from datapipe_local.api.models.common import PageDto, serialized
from datapipe_local.api.models.connections import ConnectionDto, SettingsSchemaDto
from datapipe_local.api.routes.common import DEFAULT_LIMIT, After, CurrentContext, Limit, envelope, no_content
from datapipe_local.api.routes.documented import answering
from datapipe_local.services import connections

router = APIRouter(prefix="/connections", tags=["connections"])


@router.get("", **answering(PageDto[ConnectionDto]))
def list_connections(
    context: CurrentContext, starting_after: After = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List connections."""
    return envelope(connections.page(context, after=starting_after, limit=limit), partial(serialized, ConnectionDto))


@router.delete("/{connection_id}", **answering(None, 404, status=204))
def delete_connection(context: CurrentContext, connection_id: str) -> Response:
    """Delete a connection that no sync uses."""
    connections.delete(context, connection_id)
    return no_content()


@router.get("/{connection_id}/settings", **answering(SettingsSchemaDto, 404))
def settings_schema(context: CurrentContext, connection_id: str) -> dict[str, Any]:
    """Return the JSON Schema of a connection's settings."""
    return connections.schema(context, connection_id)
