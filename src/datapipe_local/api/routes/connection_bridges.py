"""Routes of connection bridges."""

from typing import Any

from fastapi import APIRouter, Request

from datapipe_local.api.models.common import PageDto, serialized
from datapipe_local.api.models.connection_bridges import ConnectionBridgeCreate, ConnectionBridgeDto
from datapipe_local.api.routes.common import CurrentContext, envelope
from datapipe_local.api.routes.documented import answering
from datapipe_local.common.authority import parse_authority
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import connection_bridges
from datapipe_local.storage.records import ConnectionBridge
from datapipe_local.storage.table import Page

router = APIRouter(prefix="/connection_bridges", tags=["connection bridges"])

#: Path of the authorization page.
AUTHORIZE_PATH = "/authorize/"


@router.get("", **answering(PageDto[ConnectionBridgeDto]))
def list_bridges(context: CurrentContext, request: Request) -> dict[str, Any]:
    """List all active bridges."""
    found = connection_bridges.active(context)
    base = _base(request)
    return envelope(Page(found, None), lambda bridge: _answer(base, bridge))


@router.post("", **answering(ConnectionBridgeDto, 404, status=201))
def create_bridge(context: CurrentContext, request: Request, body: ConnectionBridgeCreate) -> dict[str, Any]:
    """Create a bridge that is valid for a day."""
    base = _base(request)
    return _answer(base, connection_bridges.create(context, **body.model_dump(exclude_unset=True)))


def _answer(base: str, bridge: ConnectionBridge) -> dict[str, Any]:
    return serialized(ConnectionBridgeDto, bridge, authorize_url=f"{base}{AUTHORIZE_PATH}{bridge.id}")


def _base(request: Request) -> str:
    """Return the base URL that the caller used for this request."""
    host = request.headers.get("host", "")
    try:
        parse_authority(host)
    except ValueError:
        raise BadRequestError("Host: the header must name this service, as in localhost:8484.") from None
    scheme = "https" if request.scope["scheme"] in ("https", "wss") else "http"
    return f"{scheme}://{host}"
