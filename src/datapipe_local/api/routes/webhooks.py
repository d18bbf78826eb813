"""Routes of webhook ingestion."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from datapipe_local.api.models.webhooks import AcceptedDto
from datapipe_local.api.routes.documented import answering
from datapipe_local.common.errors import PayloadTooLargeError, UnauthorizedError, UnsupportedMediaTypeError
from datapipe_local.services import webhooks

if TYPE_CHECKING:
    from datapipe_local.services.webhooks import Endpoint, Intake

router = APIRouter(prefix="/webhooks", tags=["webhook ingestion"])

_JSON = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]+\+)?json", re.IGNORECASE)
_UTF8 = re.compile(r"""charset\s*=\s*(?:utf-?8|"utf-?8")""", re.IGNORECASE)
#: Smaller bodies are parsed in the event loop, because that is faster than starting a thread.
_SMALL = 4096
_ANY_JSON = {"required": True, "content": {"application/json": {"schema": {}}}}


@router.post(
    "/{connection_id}/{table}", openapi_extra={"requestBody": _ANY_JSON}, **answering(AcceptedDto, 404, 413, 415)
)
async def push(request: Request, connection_id: str, table: str) -> Response:
    """Push data to a table of a webhook connection."""
    intake: Intake = request.app.state.intake
    place = intake.known(connection_id, table)
    if place is None:
        place = await run_in_threadpool(intake.endpoint, connection_id, table)
    headers = request.headers.raw
    try:
        webhooks.check_headers(place, headers)
        _check_kind(request)
        body = await _body(request, place.limit)
        if len(body) <= _SMALL:
            pushed = webhooks.read(place, headers, body)
        else:
            pushed = await run_in_threadpool(webhooks.read, place, headers, body)
        await intake.keep(pushed)
    except UnauthorizedError as error:
        return _unauthorized(place, error)
    except ClientDisconnect:
        # The client is gone, so no response can reach it.
        return Response(status_code=400)
    return JSONResponse({"accepted": pushed.rows})


async def _body(request: Request, limit: int) -> bytes:
    """Return the body. Raise as soon as it exceeds the limit."""
    too_large = PayloadTooLargeError(f"The body has more than {limit} bytes: send it in several requests.")
    if int(request.headers.get("content-length", 0)) > limit:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        if len(body) + len(part) > limit:
            raise too_large
        body += part
    return bytes(body)


def _check_kind(request: Request) -> None:
    kinds = request.headers.getlist("content-type")
    kind, *parameters = [part.strip() for part in (kinds[0] if len(kinds) == 1 else "").split(";")]
    charsets = [parameter for parameter in parameters if parameter.lower().startswith("charset")]
    if not _JSON.fullmatch(kind) or not all(_UTF8.fullmatch(charset) for charset in charsets):
        raise UnsupportedMediaTypeError("Content-Type: send JSON in UTF-8, as application/json.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaTypeError("Content-Encoding: send the body as it is, not compressed.")


def _unauthorized(place: Endpoint, error: UnauthorizedError) -> Response:
    headers = None if place.challenge is None else {"www-authenticate": place.challenge}
    return JSONResponse(error.as_json(), error.status, headers)
