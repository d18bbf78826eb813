"""An answer of the service as a whole, and what can be made of it on its way."""

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
_ERROR = {"error_code": "fault", "message": "A fault that the control plane was told to make."}
#: For faults that need a body where the service has none to give.
_STOCK = b'{"data": [], "hasMore": false, "has_more": false}'
_NO_BODY = frozenset({204, 304})


@dataclass(frozen=True)
class Answer:
    """
    An answer.

    :param status: Its status.
    :param headers: Its headers, but for its length.
    :param body: Its body.
    """

    status: int
    headers: tuple[Header, ...]
    body: bytes

    async def send(self, send: Send) -> None:
        """Send it."""
        await self.send_beginning(send, len(self.body))

    async def send_beginning(self, send: Send, size: int) -> None:
        """Send its head, which announces all of the body, and so many bytes of that."""
        length = [] if self.status in _NO_BODY else [(b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": [*self.headers, *length]})
        more = size < len(self.body)
        await send({"type": "http.response.body", "body": self.body[:size], "more_body": more})


class Recorder:
    """Takes an answer that is sent, instead of the connection."""

    def __init__(self) -> None:
        self._start: Message = {}
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        """Take a part."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    @property
    def answer(self) -> Answer:
        """All of it."""
        headers = tuple((name, value) for name, value in self._start["headers"] if name != b"content-length")
        return Answer(self._start["status"], headers, bytes(self._body))


def stock() -> Answer:
    """Give the answer to a request that is not carried out, to make something else of."""
    return Answer(200, (_JSON,), _STOCK)


def with_body(answer: Answer) -> Answer:
    """Give an answer that has a body: the same, or else a stock one."""
    return answer if answer.body else stock()


def made_up(rule: Fault) -> Answer:
    """Give the answer that a rule wants instead of the service's."""
    body: Any = rule.body if "body" in rule.model_fields_set else _ERROR
    headers = tuple((name.lower().encode(), value.encode()) for name, value in rule.headers.items())
    if not any(name == b"content-type" for name, _ in headers):
        headers = (_TEXT if isinstance(body, str) else _JSON, *headers)
    content = body if isinstance(body, str) else json.dumps(body)
    status = int(rule.status or 0)
    return Answer(status, headers, b"" if status in _NO_BODY else content.encode("utf-8", "backslashreplace"))


def malformed(answer: Answer, how: Literal["truncated", "html", "empty", "other"]) -> Answer:
    """Make an answer one that is right as HTTP, and not what the interface promises."""
    whole = with_body(answer)
    if how == "truncated":
        return replace(whole, body=whole.body[: len(whole.body) // 2])
    if how == "html":
        return Answer(whole.status, (_HTML,), _PAGE)
    return replace(whole, body=b"" if how == "empty" else b'["another shape", {"altogether": [1, 2.5, null]}]')


def rewritten(answer: Answer, values: Mapping[str, Any], removed: Sequence[str]) -> Answer | None:
    """
    Change fields of an answer: of each entry if it is a page, else its own.

    :param answer: The answer.
    :param values: What fields are to say. A dot leads into a field, and through lists into each of their entries.
    :param removed: Fields that are to be missing.
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
    """Give the objects that a path leads to, which need not have the field, and the field's name."""
    if isinstance(node, list):
        for entry in node:
            yield from _fields(entry, path)
    elif isinstance(node, dict):
        if len(path) == 1:
            yield node, path[0]
        elif path[0] in node:
            yield from _fields(node[path[0]], path[1:])
