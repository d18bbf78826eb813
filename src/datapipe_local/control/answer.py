"""Complete responses of the service, and their modification by faults."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.types import Message, Send

    from datapipe_local.control.models import Fault

Header = tuple[bytes, bytes]

_JSON: Header = (b"content-type", b"application/json")
_HTML: Header = (b"content-type", b"text/html; charset=utf-8")
_TEXT: Header = (b"content-type", b"text/plain; charset=utf-8")
_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>One moment</title></head><body><h1>One moment, please</h1></body></html>\n"
)
_ERROR = {"error_code": "fault", "message": "A fault injected by the control plane."}
#: Body for faults that need one if the service's response has none.
_STOCK = b'{"data": [], "hasMore": false, "has_more": false}'
_NO_BODY = frozenset({204, 304})


@dataclass(frozen=True)
class Answer:
    """
    HTTP response.

    :param status: The status.
    :param headers: The headers, without ``Content-Length``.
    :param body: The body.
    """

    status: int
    headers: tuple[Header, ...]
    body: bytes

    async def send(self, send: Send) -> None:
        """Send the response."""
        await self.send_beginning(send, len(self.body))

    async def send_beginning(self, send: Send, size: int) -> None:
        """Send the headers, with the length of the whole body, and the given number of bytes of the body."""
        length = [] if self.status in _NO_BODY else [(b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": [*self.headers, *length]})
        more = size < len(self.body)
        await send({"type": "http.response.body", "body": self.body[:size], "more_body": more})


class Recorder:
    """ASGI ``send`` that records a response."""

    def __init__(self) -> None:
        self._start: Message = {}
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        """Record a message."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    @property
    def answer(self) -> Answer:
        """The recorded response."""
        headers = tuple((name, value) for name, value in self._start["headers"] if name != b"content-length")
        return Answer(self._start["status"], headers, bytes(self._body))


def stock() -> Answer:
    """Return a stock response for a request that was not executed, as a base for faults."""
    return Answer(200, (_JSON,), _STOCK)


def with_body(answer: Answer) -> Answer:
    """Return the response if it has a body, otherwise a stock response."""
    return answer if answer.body else stock()


def made_up(rule: Fault) -> Answer:
    """Return the response that a fault sends instead of the service's."""
    body: Any = rule.body if "body" in rule.model_fields_set else _ERROR
    headers = tuple((name.lower().encode(), value.encode()) for name, value in rule.headers.items())
    if not any(name == b"content-type" for name, _ in headers):
        headers = (_TEXT if isinstance(body, str) else _JSON, *headers)
    content = body if isinstance(body, str) else json.dumps(body)
    status = int(rule.status or 0)
    return Answer(status, headers, b"" if status in _NO_BODY else content.encode("utf-8", "backslashreplace"))


def malformed(answer: Answer, how: Literal["truncated", "html", "empty", "other"]) -> Answer:
    """Return a response that is valid HTTP but violates the interface."""
    whole = with_body(answer)
    if how == "truncated":
        return replace(whole, body=whole.body[: len(whole.body) // 2])
    if how == "html":
        return Answer(whole.status, (_HTML,), _PAGE)
    return replace(whole, body=b"" if how == "empty" else b'["another shape", {"altogether": [1, 2.5, null]}]')


def rewritten(answer: Answer, values: Mapping[str, Any], removed: Sequence[str]) -> Answer | None:
    """
    Change fields of a response: of each entry of a page, otherwise of the object itself.

    :param answer: The response.
    :param values: New values by field path. A dot leads into a field, and through lists into each of their entries.
    :param removed: The paths of the fields to remove.
    :return: ``None`` if there is nothing to change.
    """
    try:
        content = json.loads(answer.body)
    except ValueError:
        return None
    changed = copy.deepcopy(content)
    roots = changed["data"] if isinstance(changed, dict) and isinstance(changed.get("data"), list) else changed
    for path, value in values.items():
        for owner, name in _fields(roots, path.split(".")):
            owner[name] = value
    for path in removed:
        for owner, name in _fields(roots, path.split(".")):
            owner.pop(name, None)
    return None if changed == content else replace(answer, body=json.dumps(changed).encode())


def _fields(node: Any, path: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects that contain the last field of a path, or could, with the name of that field."""
    if isinstance(node, list):
        for entry in node:
            yield from _fields(entry, path)
    elif isinstance(node, dict):
        if len(path) == 1:
            yield node, path[0]
        elif path[0] in node:
            yield from _fields(node[path[0]], path[1:])
