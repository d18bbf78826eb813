"""HTTP endpoints: a request per record, or per batch of them."""

from __future__ import annotations

import ipaddress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local.destinations.base import ABSENT
from datapipe_local.destinations.http_batch import LONGEST_REASON, refused
from datapipe_local.destinations.settings import HttpSettings
from datapipe_local.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from datapipe_local.destinations.base import Outcome, Record, Target

_TRIES = 5
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 30.0
_SECONDS_FOR_AN_ANSWER = 30.0
_NO_ADDRESS = "A record with this key can have no address of its own."
#: What is wrong is wrong with the records; what else a batch is refused with is not.
_OF_RECORDS = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
_GONE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


class HttpDestination:
    """
    The address ``<url>/<object type>`` of all records, and below it one for each, by its key.

    Unless the sync's settings say otherwise, each record is POSTed to the address of all, and with ``update``
    PATCHed at its own. What is gone is DELETEd at its own.

    2xx takes the record. 4xx refuses it, for good, but for 408 and 429, which ask to try again, as does 5xx; so
    does a connection that fails. ``Retry-After`` is honoured up to half a minute. One request at a time, on one
    connection. A process that is killed sends at most the record, or the batch, again whose answer it had not noted.

    A batch is an array. Its answer can refuse some of it: :func:`~datapipe_local.destinations.http_batch.refused`. A
    batch that is refused as a whole, with 400, 409, 413 or 422, was not taken: it is sent again without those that
    the answer names, or if it names none, by halves.

    :param settings: As :class:`~datapipe_local.destinations.settings.HttpSettings` describes.
    :param target: What is written, and how.
    :param pause: Waits before another try.
    """

    def __init__(self, settings: dict[str, Any], target: Target, pause: Callable[[float], None]) -> None:
        url = HttpSettings.model_validate(settings).url.rstrip("/")
        self._url = f"{url}/{quote(target.object_type_id, safe='')}"
        self._pause = pause
        self._updates = target.mode == OperationName.UPDATE
        self._by_key = target.settings.get("address", "record" if self._updates else "collection") == "record"
        self.batch_size = int(target.settings.get("batch_size", 1))
        self._is_array = "batch_size" in target.settings
        self._method = target.settings.get("method", "PATCH" if self._by_key else "POST")
        # A proxy of the environment cannot reach this machine's own addresses.
        self._client = httpx.Client(timeout=_SECONDS_FOR_AN_ANSWER, trust_env=not _is_local(url))

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Send records.

        :raises RunError: the endpoint cannot be reached, or answers what no endpoint should.
        """
        return self._sent_together(records) if self._is_array else [self._sent(record) for record in records]

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        DELETE records.

        :raises RunError: the endpoint cannot be reached, or answers what no endpoint should.
        """
        return [self._deleted(record) for record in records]

    def checkpoint(self) -> None:
        """There is none: the endpoint has what it took."""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _sent(self, record: Record) -> Outcome:
        url = self._address(record) if self._by_key else self._url
        if url is None:
            return _NO_ADDRESS
        answer = self._answered(self._method, url, f"record {record.record_id!r}", record.properties)
        if self._updates and self._by_key and answer.status_code in _GONE:
            return ABSENT
        return None if answer.is_success else _reason(answer)

    def _sent_together(self, records: Sequence[Record]) -> list[Outcome]:
        outcomes: list[Outcome] = [None] * len(records)
        left = list(range(len(records)))
        while left:
            part = [records[index] for index in left]
            what = f"{len(part)} records from {part[0].record_id!r} on"
            answer = self._answered(self._method, self._url, what, [record.properties for record in part])
            named = refused(answer, part)
            if not answer.is_success and answer.status_code not in _OF_RECORDS:
                raise self._failed(f"answered {_phrase(answer.status_code)}", what)
            if answer.is_success and named is None:
                raise self._failed("answered with errors that name no record", what)
            if not named and not answer.is_success:
                if len(left) > 1:
                    # What became of the first half is noted before the other is sent.
                    del left[(len(left) + 1) // 2 :]
                    del outcomes[left[-1] + 1 :]
                    continue
                named = {0: _reason(answer)}
            for place, reason in (named or {}).items():
                outcomes[left[place]] = reason
            if answer.is_success:
                break
            left = [index for place, index in enumerate(left) if place not in (named or {})]
        return outcomes

    def _deleted(self, record: Record) -> Outcome:
        url = self._address(record)
        if url is None:
            return _NO_ADDRESS
        answer = self._answered("DELETE", url, f"record {record.record_id!r}", None)
        return None if answer.is_success or answer.status_code in _GONE else _reason(answer)

    def _address(self, record: Record) -> str | None:
        # Such a path would lead to the address of all records, or above.
        key = record.record_id
        return None if key in ("", ".", "..") else f"{self._url}/{quote(key, safe='')}"

    def _answered(self, method: str, url: str, what: str, body: Any) -> httpx.Response:
        """Give an answer that takes or refuses what is sent."""
        said, wait = "", 0.0
        for number in range(_TRIES):
            if number:
                self._pause(min(wait, _LONGEST_WAIT))
            wait = _FIRST_WAIT * 2**number
            try:
                answer = self._client.request(method, url, json=body)
            except httpx.TransportError as error:
                said = f"could not be reached ({str(error) or type(error).__name__})"
                continue
            status = answer.status_code
            said = f"answered {_phrase(status)}"
            if answer.is_server_error or status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS):
                wait = _retry_after(answer) or wait
                continue
            if answer.is_success or answer.is_client_error:
                return answer
            # Neither taken nor refused: to follow a redirect would send the data elsewhere.
            break
        raise self._failed(said, what)

    def _failed(self, said: str, what: str) -> RunError:
        return RunError(f"The destination {self._url} {said} for {what}: see to it, then run the sync again.")


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
                return " ".join(said.split())[:LONGEST_REASON]
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
