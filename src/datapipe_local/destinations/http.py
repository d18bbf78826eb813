"""HTTP endpoints: a POST per record."""

import ipaddress
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from datapipe_local.destinations.base import Record
from datapipe_local.destinations.settings import HttpSettings
from datapipe_local.errors import RunError

_TRIES = 5
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 30.0
_SECONDS_FOR_AN_ANSWER = 30.0
_LONGEST_REASON = 300


class HttpDestination:
    """
    The address ``<url>/<object type>``: each record is POSTed there as one JSON object.

    2xx takes the record. 4xx refuses it, for good, but for 408 and 429, which ask to try again, as does 5xx; so
    does a connection that fails. ``Retry-After`` is honoured up to half a minute. One request at a time, on one
    connection. A process that is killed sends at most the record again whose answer it had not noted.

    :param settings: As :class:`~datapipe_local.destinations.settings.HttpSettings` describes.
    :param object_type_id: What the records are.
    :param pause: Waits before another try.
    """

    batch_size = 1

    def __init__(self, settings: dict[str, Any], object_type_id: str, pause: Callable[[float], None]) -> None:
        url = HttpSettings.model_validate(settings).url.rstrip("/")
        self._url = f"{url}/{quote(object_type_id, safe='')}"
        self._pause = pause
        # A proxy of the environment cannot reach this machine's own addresses.
        self._client = httpx.Client(timeout=_SECONDS_FOR_AN_ANSWER, trust_env=not _is_local(url))

    def send(self, records: Sequence[Record]) -> list[str | None]:
        """
        POST records.

        :raises RunError: the endpoint cannot be reached, or answers what no endpoint should.
        """
        return [self._send(record) for record in records]

    def checkpoint(self) -> None:
        """There is none: the endpoint has what it took."""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _send(self, record: Record) -> str | None:
        said, wait = "", 0.0
        for number in range(_TRIES):
            if number:
                self._pause(min(wait, _LONGEST_WAIT))
            wait = _FIRST_WAIT * 2**number
            try:
                answer = self._client.post(self._url, json=record.properties)
            except httpx.TransportError as error:
                said = f"could not be reached ({str(error) or type(error).__name__})"
                continue
            status = answer.status_code
            if answer.is_success:
                return None
            said = f"answered {_phrase(status)}"
            if answer.is_server_error or status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS):
                wait = _retry_after(answer) or wait
                continue
            if answer.is_client_error:
                return _reason(answer)
            # Neither taken nor refused: to follow a redirect would send the data elsewhere.
            break
        raise RunError(
            f"The destination {self._url} {said} for record {record.record_id!r}: see to it, then run the sync again."
        )


def _retry_after(answer: httpx.Response) -> float | None:
    """Read the seconds that the endpoint asks for; a date is not worth a clock of the other side."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def _reason(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if isinstance(body, dict):
        for name in ("message", "error"):
            said = body.get(name)
            if isinstance(said, dict):
                said = said.get("message")
            if isinstance(said, str) and said.strip():
                return " ".join(said.split())[:_LONGEST_REASON]
    return _phrase(answer.status_code)


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _is_local(url: str) -> bool:
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
