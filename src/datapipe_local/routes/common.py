"""What the routes share: parameters, pages, strictness."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, Field

from airflow_provider_datapipe.api.models.common import Body
from datapipe_local.errors import BadRequestError
from datapipe_local.service.context import Context
from datapipe_local.store.table import Page

R = TypeVar("R")

NO_CONTENT = 204


def _digits(value: object) -> object:
    # Otherwise "1.0", "+1" and "1_0" would be numbers, too.
    if isinstance(value, str) and not (value.isascii() and value.isdecimal()):
        raise ValueError("must be a whole number, of digits alone")
    return value


After = Annotated[str | None, Query(alias="starting_after")]
Limit = Annotated[Annotated[int, Field(ge=1, le=100)], BeforeValidator(_digits), Query()]
DEFAULT_LIMIT = 10
SortDirection = Annotated[Literal["asc", "desc"], Query()]


class NoFields(Body):
    """The body of a request that needs none: absent or empty."""


# What does no more than look at the request is no work for a thread: to have one do it costs more than that.
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


CurrentContext = Annotated[Context, Depends(_context)]


async def refuse_unknown_parameters(request: Request) -> None:
    """
    Refuse query parameters that the route does not declare, or that are given twice.

    :raises BadRequestError: there is one; the message names it.
    """
    known = _parameters(request.scope["route"].dependant)
    for name in dict.fromkeys(request.query_params):
        if name not in known:
            raise BadRequestError(f"{name[:100]}: the query parameter is unknown.", error_code="invalid_request")
        if len(request.query_params.getlist(name)) > 1:
            raise BadRequestError(f"{name}: the query parameter is given more than once.", error_code="invalid_request")


async def refuse_other_than_json(request: Request) -> None:
    """
    Refuse a body that is not said to be JSON. FastAPI does so of some kinds, before 0.132 of fewer.

    :raises BadRequestError: it is said to be something else, or nothing.
    """
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if request.scope["route"].body_field is None or not has_body:
        return
    kind, _, detail = request.headers.get("content-type", "").partition(";")[0].strip().lower().partition("/")
    if kind != "application" or not (detail == "json" or detail.endswith("+json")):
        raise BadRequestError(
            "Content-Type: the body is not said to be JSON: send it as application/json.",
            error_code="invalid_request",
        )


def envelope(page: Page[Any], as_json: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Give a page as it is sent: with both spellings of the envelope."""
    more = page.next_cursor is not None
    body: dict[str, Any] = {"data": [as_json(record) for record in page.records], "hasMore": more, "has_more": more}
    if more:
        body["nextCursor"] = body["next_cursor"] = page.next_cursor
    return body


def as_it_is(body: dict[str, Any]) -> Response:
    """
    Give an answer that is JSON already.

    FastAPI looks at each value of what a route returns, whether it can be JSON, which takes longer than all else. So
    what is asked for all the time is answered by this.
    """
    return JSONResponse(body)


def no_content() -> Response:
    """Give the answer that says no more than that it was done."""
    return Response(status_code=NO_CONTENT)


def _parameters(dependant: Dependant) -> set[str]:
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*map(_parameters, dependant.dependencies))
