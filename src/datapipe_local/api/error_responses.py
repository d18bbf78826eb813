"""Exception handlers that respond with an ``ErrorDto``."""

from __future__ import annotations

import logging
import sqlite3
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from datapipe_local.common.errors import BadRequestError, InsufficientStorageError, ServiceError
from datapipe_local.storage import write_failures
from datapipe_local.warehouse.statements import WarehouseError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from datapipe_local.services.context import Context

log = logging.getLogger(__name__)

_OBJECT = "it has the wrong type: give an object"
_ARRAY = "it has the wrong type: give an array"
#: Messages without Python terms, by pydantic error type.
_PLAIN_WORDS = {
    "missing": "the field is required",
    "extra_forbidden": "unknown field: remove it",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": _ARRAY,
    "tuple_type": _ARRAY,
    "string_type": "it has the wrong type: give a string",
    "bool_type": "it has the wrong type: give true or false",
}


def install(app: FastAPI) -> None:
    """Register the exception handlers."""
    app.add_exception_handler(ServiceError, _refused)
    for failed_write in (sqlite3.Error, OSError, WarehouseError):
        app.add_exception_handler(failed_write, _not_written)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(UnicodeEncodeError, _not_unicode)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _defect)


def as_response(error: ServiceError) -> JSONResponse:
    """Return the response for a refused request."""
    body = error.as_json()
    # The message may quote a lone surrogate from the request, which UTF-8 cannot encode.
    body["message"] = error.message.encode("utf-8", "backslashreplace").decode()
    return JSONResponse(body, error.status)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServiceError)  # noqa: S101 - registered for this type
    # The request may be valid and the disk full.
    failed = None if error.__cause__ is None else insufficient_storage(_context(request), error)
    return as_response(failed or error)


async def _not_written(request: Request, error: Exception) -> JSONResponse:
    failed = insufficient_storage(_context(request), error)
    if failed is None:
        raise error
    return as_response(failed)


def insufficient_storage(context: Context, error: Exception) -> InsufficientStorageError | None:
    """Return the error for a failed write, or None if the exception has another cause."""
    failed = write_failures.failure(error, context.store.folder)
    if failed is None:
        return None
    context.outage.begin(error)
    # The engine checks if writes succeed again.
    context.wake.set()
    return InsufficientStorageError(failed.reason, failed.advice)


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this type
    reasons = "; ".join(_field_error(entry) for entry in error.errors())
    return as_response(BadRequestError(f"{reasons}.", error_code="invalid_request"))


def _field_error(entry: dict[str, Any]) -> str:
    # The first part is "path", "query" or "body".
    where = entry["loc"][1:]
    if entry["type"] == "json_invalid":
        return f"body: it is not valid JSON from character {where[0]} on: send JSON"
    field = ".".join(str(part) for part in where) or "body"
    return f"{field[:100]}: {_PLAIN_WORDS.get(entry['type'], entry['msg'].removeprefix('Value error, '))}"


async def _not_unicode(_: Request, __: Exception) -> JSONResponse:
    # JSON can contain a lone surrogate such as "\ud800". It fails where the text is first encoded.
    return as_response(
        BadRequestError(
            "A text in the body contains half a character (a lone surrogate).", error_code="invalid_request"
        )
    )


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_methods_at(request)))
    if error.status_code == HTTPStatus.BAD_REQUEST:
        # FastAPI responds with 400 to invalid UTF-8 and to deeply nested JSON.
        return as_response(
            BadRequestError("body: it cannot be read: send JSON in UTF-8.", error_code="invalid_request")
        )
    name = HTTPStatus(error.status_code).name.lower()
    message = {
        HTTPStatus.NOT_FOUND: "There is nothing at this path.",
        HTTPStatus.METHOD_NOT_ALLOWED: "This path does not support this method.",
    }.get(HTTPStatus(error.status_code), str(error.detail))
    return JSONResponse({"error_code": name, "message": message}, error.status_code, headers)


def _methods_at(request: Request) -> set[str]:
    """Return the methods of all routes with the path of the first match. Each route knows only its own methods."""
    matching = [route for route in request.app.router.routes if route.matches(request.scope)[0] is not Match.NONE]
    # Exclude later routes that match because of a path parameter.
    return {
        method
        for route in matching
        if getattr(route, "path", None) == getattr(matching[0], "path", None)
        for method in getattr(route, "methods", None) or ()
    }


async def _defect(request: Request, error: Exception) -> JSONResponse:
    # Without the path, because it contains user input.
    log.error("Could not answer a %s request", request.method, exc_info=error)
    return as_response(ServiceError("datapipe-local itself failed: see the service's log."))
