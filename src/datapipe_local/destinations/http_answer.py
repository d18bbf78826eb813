"""What an endpoint answers: read within bounds, and what it means."""

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

    from datapipe_local.destinations.base import Record

LONGEST_REASON = 300
#: The first digits of what an answer's status says.
_TAKES, _REFUSES = 2, 4
_LARGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """
    An answer.

    :param status: Its status.
    :param headers: Its headers.
    :param content: What its body says as JSON; ``None`` if it is none.
    """

    status: int
    headers: Mapping[str, str]
    content: Any = None

    @property
    def takes(self) -> bool:
        """Whether what was sent was taken."""
        return self.status // 100 == _TAKES

    @property
    def refuses(self) -> bool:
        """Whether it was refused."""
        return self.status // 100 == _REFUSES

    @property
    def phrase(self) -> str:
        """The status as people read it."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)

    @property
    def reason(self) -> str:
        """Why it was refused."""
        if isinstance(self.content, dict):
            for name in ("message", "error"):
                said = self.content.get(name)
                if isinstance(said, dict):
                    said = said.get("message")
                if isinstance(said, str) and said.strip():
                    return _line(said)
        return self.phrase

    def wait(self) -> float | None:
        """Tell for how many seconds it asks to wait."""
        text = self.headers.get("retry-after", "")
        if text.isdecimal():
            return float(text)
        until = _moment(text)
        if until is None:
            return None
        # By the other side's clock, if it shows it.
        seconds = (until - (_moment(self.headers.get("date", "")) or dt.datetime.now(dt.UTC))).total_seconds()
        return seconds if seconds > 0 else None


def read(response: httpx.Response, seconds: float, *, is_needed: bool) -> Answer:
    """
    Read an answer whose head is there.

    :param response: The answer.
    :param seconds: How long its body may take.
    :param is_needed: Whether the body matters. Else what its head says counts, also if the rest never comes.
    :raises httpx.HTTPError: it cannot be read.
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
    Tell which records of a batch were refused, by their place in it, and why.

    The body names them in ``errors``: a list of objects with ``index``, the place in the array, or ``record_id``, the
    record's key as text, and ``message``. Without ``errors``, or if that is empty, none is named.

    :param answer: The answer.
    :param records: The batch.
    :return: ``None`` if there are errors, and it cannot be told of which records.
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
    # Half a character, which JSON can hold, can't be kept.
    whole = text.encode("utf-8", "replace").decode()
    return " ".join(whole.split())[:LONGEST_REASON]


def _moment(text: str) -> dt.datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
