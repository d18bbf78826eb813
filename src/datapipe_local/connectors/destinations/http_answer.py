"""Responses of endpoints: reading within limits, and interpretation."""

from __future__ import annotations

import datetime as dt
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datapipe_local.connectors.destinations.base import Record

LONGEST_REASON = 300
#: First digits of status codes.
_TAKES, _REFUSES = 2, 4
_LARGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """
    Response of an endpoint.

    :param status: The status.
    :param headers: The headers.
    :param content: The body as parsed JSON; ``None`` if it is not JSON.
    """

    status: int
    headers: Mapping[str, str]
    content: Any = None

    @property
    def takes(self) -> bool:
        """True if the endpoint accepted the request."""
        return self.status // 100 == _TAKES

    @property
    def refuses(self) -> bool:
        """True if the endpoint refused the request."""
        return self.status // 100 == _REFUSES

    @property
    def phrase(self) -> str:
        """The status with its phrase."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)

    @property
    def reason(self) -> str:
        """The reason for the refusal."""
        if isinstance(self.content, dict):
            for name in ("message", "error"):
                message = self.content.get(name)
                if isinstance(message, dict):
                    message = message.get("message")
                if isinstance(message, str) and message.strip():
                    return _line(message)
        return self.phrase

    def wait(self) -> float | None:
        """Return the number of seconds of ``Retry-After``; None without it."""
        text = self.headers.get("retry-after", "")
        if text.isdecimal():
            return float(text)
        until = _moment(text)
        if until is None:
            return None
        # Relative to the clock of the endpoint, if the response has a Date.
        seconds = (until - (_moment(self.headers.get("date", "")) or dt.datetime.now(dt.UTC))).total_seconds()
        return seconds if seconds > 0 else None


def read(response: httpx.Response, seconds: float, *, is_needed: bool) -> Answer:
    """
    Read a response whose headers have arrived.

    :param response: The response.
    :param seconds: The time limit of the body, in seconds.
    :param is_needed: Raise if the body cannot be read. Otherwise the status alone counts.
    :raises httpx.HTTPError: the body cannot be read.
    """
    text = bytearray()
    deadline = time.monotonic() + seconds
    try:
        for chunk in response.iter_bytes():
            text += chunk
            if len(text) > _LARGEST_BODY:
                raise httpx.ReadError(f"its answer has more than {_LARGEST_BODY:,} bytes")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout(f"its answer took more than {seconds:g} s")
    except httpx.HTTPError:
        if is_needed:
            raise
        text.clear()
    content = None
    with suppress(ValueError, RecursionError):
        content = json.loads(text)
    return Answer(response.status_code, response.headers, content)


def refused(answer: Answer, records: Sequence[Record]) -> dict[int, str] | None:
    """
    Return the refused records of a batch, by their position in it, with the reasons.

    The body lists them in ``errors``: objects with ``index``, the position in the array, or ``record_id``, the record's
    key as text, and ``message``. Without ``errors``, or if the list is empty, no record is refused.

    :param answer: The response.
    :param records: The batch.
    :return: ``None`` if there are errors whose records cannot be determined.
    """
    errors = answer.content.get("errors") if isinstance(answer.content, dict) else None
    if not errors:
        return {}
    if not isinstance(errors, list):
        return None
    places = {record.record_id: place for place, record in enumerate(records)}
    found: dict[int, str] = {}
    for error in errors:
        place = _place(error, places) if isinstance(error, dict) else None
        if place is None or not 0 <= place < len(records):
            return None
        message = error.get("message")
        found[place] = (_line(message) if isinstance(message, str) else "") or "The endpoint gave no reason."
    return found


def _place(error: dict[str, Any], places: dict[str, int]) -> int | None:
    index, record_id = error.get("index"), error.get("record_id")
    if type(index) is int:
        return index
    return None if record_id is None else places.get(str(record_id))


def _line(text: str) -> str:
    # Unpaired surrogates, which JSON allows, cannot be stored.
    whole = text.encode("utf-8", "replace").decode()
    return " ".join(whole.split())[:LONGEST_REASON]


def _moment(text: str) -> dt.datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
