"""Parameters, page envelopes and checks that the routes share."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, Field

from airflow_provider_datapipe.api.models.common import Body
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services.context import Context
from datapipe_local.storage.table import Page

R = TypeVar("R")

NO_CONTENT = 204


def _digits(value: object) -> object:
    # Otherwise pydantic would accept "1.0", "+1" and "1_0", too.
    if isinstance(value, str) and not (value.isascii() and value.isdecimal()):
        raise ValueError("must be an integer, written with digits only")
    return value


After = Annotated[str | None, Query(alias="starting_after")]
Limit = Annotated[Annotated[int, Field(ge=1, le=100)], BeforeValidator(_digits), Query()]
DEFAULT_LIMIT = 10
SortDirection = Annotated[Literal["asc", "desc"], Query()]


class NoFields(Body):
    """Body without fields. It can be missing or empty."""


# A coroutine, because a switch to a thread costs more than this access.
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


CurrentContext = Annotated[Context, Depends(_context)]


async def refuse_unknown_parameters(request: Request) -> None:
    """
    Raise if the request has unknown or repeated query parameters.

    :raises BadRequestError: if there is such a parameter. The message contains its name.
    """
    known = _parameters(request.scope["route"].dependant)
    for name in dict.fromkeys(request.query_params):
        if name not in known:
            raise BadRequestError(f"{name[:100]}: the query parameter is unknown.", error_code="invalid_request")
        if len(request.query_params.getlist(name)) > 1:
            raise BadRequestError(f"{name}: the query parameter is given more than once.", error_code="invalid_request")


async def refuse_other_than_json(request: Request) -> None:
    """
    Raise if the content type of a body is not JSON. FastAPI accepts some other types, and before 0.132 more of them.

    :raises BadRequestError: if the content type is missing or not JSON.
    """
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if request.scope["route"].body_field is None or not has_body:
        return
    kind, _, detail = request.headers.get("content-type", "").partition(";")[0].strip().lower().partition("/")
    if kind != "application" or not (detail == "json" or detail.endswith("+json")):
        raise BadRequestError("Content-Type: send the body as application/json.", error_code="invalid_request")


def envelope(page: Page[Any], as_json: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return the response body of a page, with both spellings of the envelope."""
    more = page.next_cursor is not None
    body: dict[str, Any] = {"data": [as_json(record) for record in page.records], "hasMore": more, "has_more": more}
    if more:
        body["nextCursor"] = body["next_cursor"] = page.next_cursor
    return body


def unvalidated_json(body: dict[str, Any]) -> Response:
    """
    Return a JSON response for a body that needs no conversion.

    FastAPI would check each value of the body, which takes longer than the rest of the request. Routes that clients
    poll use this instead.
    """
    return JSONResponse(body)


def no_content() -> Response:
    """Return an empty 204 response."""
    return Response(status_code=NO_CONTENT)


def _parameters(dependant: Dependant) -> set[str]:
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*map(_parameters, dependant.dependencies))
