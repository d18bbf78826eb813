"""Middleware of the control plane: it records requests in the journal and applies faults."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from fastapi.concurrency import run_in_threadpool

from datapipe_local.api.error_responses import as_response
from datapipe_local.control.answer import Answer, Recorder, made_up, malformed, rewritten, stock, with_body
from datapipe_local.control.connection import close_connection, is_open
from datapipe_local.control.tables import REQUEST

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from datapipe_local.control.control import Arrival, Control

_SERVER_ERROR = 500
_READS = frozenset({"GET", "HEAD"})


class Request(NamedTuple):
    """ASGI request."""

    scope: Scope
    receive: Receive
    send: Send


class ControlMiddleware:
    """
    Middleware that records each request of the interface, and applies the faults to it.

    Other requests pass unchanged. Faults also apply to webhooks. The journal does not record those: several webhook
    requests share a transaction.

    :param app: The application.
    :param control: The control plane.
    """

    def __init__(self, app: ASGIApp, control: Control) -> None:
        self._app = app
        self._control = control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            arrival = await self._arrival(scope)
        except sqlite3.Error as error:
            failed = self._control.insufficient_storage(error)
            if failed is None:
                raise
            # Reads work without the journal.
            answer = self._app if scope["method"] in _READS else as_response(failed)
            await answer(scope, receive, send)
            return
        if arrival is None:
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self._app, self._control, arrival, Request(scope, receive, send))
        token = REQUEST.set(arrival.seq)
        try:
            await exchange.run()
        finally:
            REQUEST.reset(token)

    async def _arrival(self, scope: Scope) -> Arrival | None:
        """Count a request of the interface or to a webhook; return ``None`` for other requests."""
        control, method, path = self._control, scope["method"], scope["path"]
        connection_id = control.interface.webhook_connection(scope)
        if connection_id is not None:
            return await run_in_threadpool(control.webhook_arrived, method, path, connection_id)
        query = scope["query_string"].decode("latin-1")
        target = control.interface.target(scope, dict(parse_qsl(query)))
        if target is None:
            return None
        return await run_in_threadpool(control.arrived, method, path, query, target)


class _Exchange:
    """Request with its response."""

    def __init__(self, app: ASGIApp, control: Control, arrival: Arrival, request: Request) -> None:
        self._app = app
        self._control = control
        self._arrival = arrival
        self._scope, self._receive, self._send = request
        self._is_for_a_run = self._scope["path"].endswith("/request_run")

    async def run(self) -> None:
        acting = self._arrival.acting
        if acting is None:
            await self._pass_on()
            return
        # Read the whole request before any fault acts: a client that disconnects later has sent it.
        request = await self._whole_request()
        answer = None
        if acting.rule.moment == "before":
            if not await self._control.delays.wait(acting.rule.delay):
                await self._send_nothing(None)
                return
            if acting.rule.effect == "delay":
                answer = await self._carry_out(request)
                await self._answer(answer, answer)
                return
        else:
            answer = await self._carry_out(request)
            if not await self._control.delays.wait(acting.rule.delay):
                await self._send_nothing(answer)
                return
        await self._apply_fault(answer)

    async def _pass_on(self) -> None:
        """Pass the request to the service, and record the response when it starts."""
        held: list[Message] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                held.append(message)
                return
            if held:
                start = held.pop()
                body = message.get("body", b"") if self._is_for_a_run else b""
                await self._note(start["status"], by_service=start["status"], body=body)
                await self._send(start)
            await self._send(message)

        try:
            await self._app(self._scope, self._receive, send)
        except Exception:
            await self._note(_SERVER_ERROR, by_service=_SERVER_ERROR)
            raise

    async def _whole_request(self) -> Message:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return message
            body += message.get("body", b"")
            if not message.get("more_body", False):
                return {"type": "http.request", "body": bytes(body), "more_body": False}

    async def _carry_out(self, request: Message) -> Answer:
        """Execute the request, and return the response without sending it."""
        pending = [request]

        async def receive() -> Message:
            return pending.pop() if pending else await self._receive()

        recorder = Recorder()
        try:
            await self._app(self._scope, receive, recorder.send)
        except Exception:
            await self._note(_SERVER_ERROR, by_service=_SERVER_ERROR)
            raise
        return recorder.answer

    async def _apply_fault(self, answer: Answer | None) -> None:
        acting = self._arrival.acting
        assert acting is not None  # noqa: S101 - called only with a fault
        rule = acting.rule
        if rule.drop:
            await self._send_nothing(answer)
        elif rule.reset:
            await self._send_half(answer)
        elif rule.status is not None:
            await self._answer(made_up(rule), answer)
        elif rule.malformed is not None:
            await self._answer(malformed(answer or stock(), rule.malformed), answer)
        elif rule.effect == "rewrite" and answer is not None:
            changed = rewritten(answer, rule.rewrite, rule.remove)
            if changed is None:
                await self._undo_fault_count()
            await self._answer(changed or answer, answer)
        else:
            await self._answer(answer or stock(), answer)

    async def _undo_fault_count(self) -> None:
        try:
            await run_in_threadpool(self._control.undo_fault_count, self._arrival)
        except sqlite3.Error as error:
            if self._control.insufficient_storage(error) is None:
                raise

    async def _answer(self, answer: Answer, by_service: Answer | None) -> None:
        """Send a response, and record it as sent if the client is still connected."""
        await self._note_of(answer.status if is_open(self._scope) else None, by_service)
        await answer.send(self._send)

    async def _send_nothing(self, by_service: Answer | None) -> None:
        """Send no response."""
        await self._note_of(None, by_service)
        await close_connection(self._scope, self._receive)

    async def _send_half(self, by_service: Answer | None) -> None:
        """Send half of a response."""
        await self._note_of(None, by_service)
        answer = with_body(by_service or stock())
        await answer.send_beginning(self._send, len(answer.body) // 2)
        await close_connection(self._scope, self._receive, reset=True)

    async def _note_of(self, status: int | None, by_service: Answer | None) -> None:
        if by_service is None:
            await self._note(status, by_service=None)
        else:
            body = by_service.body if self._is_for_a_run else b""
            await self._note(status, by_service=by_service.status, body=body)

    async def _note(self, status: int | None, *, by_service: int | None, body: bytes = b"") -> None:
        if self._arrival.seq is None:
            return
        journal = self._control.journal
        try:
            await run_in_threadpool(journal.answered, self._arrival.seq, status, by_service=by_service, body=body)
        except sqlite3.Error as error:
            # Send the response although the journal could not record it.
            if self._control.insufficient_storage(error) is None:
                raise
