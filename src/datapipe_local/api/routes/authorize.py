"""Authorization page of a connection bridge. The bridge ID in the URL replaces the API key."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.requests import ClientDisconnect

from datapipe_local.api.routes.common import CurrentContext
from datapipe_local.api.routes.connection_bridges import AUTHORIZE_PATH
from datapipe_local.pages import frame
from datapipe_local.pages.authorize import authorize_page, message_page
from datapipe_local.pages.fields import fields_of
from datapipe_local.pages.form import read, shown
from datapipe_local.services import connection_bridges, redirects
from datapipe_local.services.connection_bridges import InvalidSettingsError, NotOpenError, Problem, Standing
from datapipe_local.services.settings_schema import settings_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datapipe_local.pages.fields import Field
    from datapipe_local.services.connection_bridges import Session
    from datapipe_local.services.context import Context

router = APIRouter(include_in_schema=False)

_PATH = f"{AUTHORIZE_PATH}{{bridge_id}}"
_FORM = "application/x-www-form-urlencoded"
_LARGEST_FORM = 1 << 18
_MOST_FIELDS = 2_000
_NEW_ONE = "Go back to the application that sent you here, and request a new link."
_CLOSED = {
    Standing.USED: (
        410,
        "This link was already used",
        f"It created or changed a connection. To change the connection again: {_NEW_ONE.lower()}",
    ),
    Standing.EXPIRED: (410, "This link has expired", f"It could be used for a day. {_NEW_ONE}"),
    Standing.UNKNOWN: (404, "There is no such link", "Check that the whole address was copied."),
}


class _UnreadableError(Exception):
    """
    Error for a request body that is not a valid form.

    :param status: HTTP status of the response.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@router.get(_PATH)
def show(context: CurrentContext, bridge_id: str) -> Response:
    """Show the form."""
    try:
        session = connection_bridges.session(context, bridge_id)
    except NotOpenError as error:
        return _closed(error)
    given = shown(_fields(session), session.settings or {})
    return _form(session, given, {}, 200)


@router.post(_PATH)
async def submit(request: Request, bridge_id: str) -> Response:
    """Handle the submitted form."""
    context: Context = request.app.state.context
    try:
        typed = await _typed(request)
        return await run_in_threadpool(_submitted, context, bridge_id, typed)
    except NotOpenError as error:
        return _closed(error)
    except _UnreadableError as error:
        page = message_page("This form cannot be read", "Go back, and submit the form of the page again.")
        return HTMLResponse(page, error.status, frame.headers())
    except ClientDisconnect:
        return Response(status_code=400)


def _submitted(context: Context, bridge_id: str, typed: Mapping[str, str]) -> Response:
    action = typed.get("action", "connect")
    if action == "cancel":
        return _redirect(connection_bridges.decline(context, bridge_id))
    session = connection_bridges.session(context, bridge_id)
    form = read(_fields(session), typed)
    if action == "more":
        return _form(session, form.given, {}, 200)
    problems = form.problems
    if not problems:
        try:
            return _redirect(connection_bridges.authorize(context, bridge_id, form.settings))
        except InvalidSettingsError as error:
            problems = {_name(problem): problem.message for problem in error.problems}
    return _form(session, form.given, problems, 400)


async def _typed(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise _UnreadableError(415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            raise _UnreadableError(413)
    try:
        return dict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
        )
    except ValueError:
        raise _UnreadableError(400) from None


def _fields(session: Session) -> tuple[Field, ...]:
    return fields_of(settings_schema(session.integration.settings))


def _name(problem: Problem) -> str:
    return ".".join(map(str, problem.location))


def _form(session: Session, given: Mapping[str, str], problems: Mapping[str, str], status: int) -> Response:
    bridge = session.bridge
    page = authorize_page(
        integration=session.integration.name,
        label=bridge.label,
        target=urlsplit(bridge.redirect_uri).netloc,
        again=session.settings is not None,
        fields=_fields(session),
        given=given,
        problems=problems,
    )
    return HTMLResponse(page, status, frame.headers(redirects.origin(bridge.redirect_uri)))


def _closed(error: NotOpenError) -> Response:
    status, heading, text = _CLOSED[error.standing]
    return HTMLResponse(message_page(heading, text), status, frame.headers())


def _redirect(address: str) -> Response:
    answer = RedirectResponse(address, 303)
    answer.headers.update({"referrer-policy": "no-referrer", "cache-control": "no-store"})
    return answer
