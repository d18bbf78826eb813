"""HTTP destination: one request per record, or per batch of records."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.base import ABSENT
from datapipe_local.connectors.destinations.http_answer import Answer, read, refused
from datapipe_local.connectors.destinations.http_network import open_client
from datapipe_local.connectors.destinations.http_request import UnderWay
from datapipe_local.connectors.destinations.settings import HttpSettings
from datapipe_local.connectors.egress import EgressRule, RefusedDestinationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from datapipe_local.connectors.destinations.base import Outcome, Progress, Record, Target, Unanswered

_TRIES = 5
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 30.0
_SECONDS_FOR_AN_ANSWER = 30.0
_NO_ADDRESS = "The key of this record cannot be part of a URL."
#: Client errors that reject the records of a batch. With other client errors the run fails.
_OF_RECORDS = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
_GONE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
#: Client errors that mean that the request had no effect, and can be retried later.
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class HttpDestination:
    """
    Writer for an HTTP endpoint.

    The URL of all records is ``<url>/<object type>``; each record has its own URL below it, made of its key.
    Unless the sync's settings say otherwise, the writer POSTs each record to the URL of all records, and with
    ``update`` PATCHes it at its own URL. It DELETEs removed records at their own URLs.

    A 2xx status accepts the record. A 4xx status refuses it permanently, except 408 and 429. Those, a 5xx status and
    connection failures cause retries. ``Retry-After`` is honored up to 30 seconds. The writer sends one request at a
    time, on one connection.

    Each request has an ``Idempotency-Key``. A request that was in flight when the process was killed is sent again with
    the same content and key (:class:`~.http_request.UnderWay`), so that an endpoint that
    honors the key executes nothing twice. For such a repetition, 409 means that the endpoint is still executing the
    first request.

    A batch is an array. The response can refuse some of its records:
    :func:`~.http_answer.refused`. A batch that is refused with 400, 409, 413 or 422 was not
    accepted. The writer sends it again without the records that the response names, or in halves if it names none.

    :param settings: The settings of the connection: :class:`~.settings.HttpSettings`.
    :param target: The object and the mode of the sync.
    :param progress: The progress of this run and of earlier runs.
    :param pause: A function that waits before a retry.
    :param rule: The class of addresses that records may be sent to.
    :raises RunError: the URL is invalid.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        target: Target,
        progress: Progress,
        pause: Callable[[float], None],
        rule: EgressRule = EgressRule.LOOPBACK,
    ) -> None:
        url = HttpSettings.model_validate(settings).url.rstrip("/")
        self._url = f"{url}/{quote(target.object_type_id, safe='')}"
        self._pause = pause
        self._updates = target.mode == OperationName.UPDATE
        self._by_key = target.settings.get("address", "record" if self._updates else "collection") == "record"
        self.batch_size = int(target.settings.get("batch_size", 1))
        self._is_array = "batch_size" in target.settings
        self._method = target.settings.get("method", "PATCH" if self._by_key else "POST")
        self._under_way = UnderWay(target.sync_id, progress)
        try:
            self._client = open_client(url, rule, timeout=_SECONDS_FOR_AN_ANSWER)
        except httpx.InvalidURL as error:
            raise RunError(
                f"The destination {self._url} is not a valid URL ({error}): correct its connection."
            ) from error

    def unanswered(self) -> Unanswered | None:
        """Return the records of the request that was in flight."""
        return self._under_way.left()

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Send one request.

        :raises RunError: the endpoint cannot be reached, or sends an unexpected response.
        """
        return self._sent_together(records) if self._is_array else [self._sent(records[0])]

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        DELETE the first record.

        :raises RunError: the endpoint cannot be reached, or sends an unexpected response.
        """
        return [self._deleted(records[0])]

    def checkpoint(self) -> str:
        """Return the checkpoint, which contains the request in flight, if any."""
        return self._under_way.checkpoint()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _sent(self, record: Record) -> Outcome:
        url = self._address(record) if self._by_key else self._url
        if url is None:
            return _NO_ADDRESS
        answer = self._answered(self._method, url, [record], record.properties)
        self._under_way.end()
        if self._updates and self._by_key and answer.status in _GONE:
            return ABSENT
        return None if answer.takes else answer.reason

    def _sent_together(self, records: Sequence[Record]) -> list[Outcome]:
        outcomes: list[Outcome] = [None] * len(records)
        left = list(range(len(records)))
        while left:
            part = [records[index] for index in left]
            answer = self._answered(self._method, self._url, part, [record.properties for record in part])
            named = refused(answer, part)
            if not answer.takes and answer.status not in _OF_RECORDS:
                self._under_way.forget()
                raise self._failed(f"answered {answer.phrase}", part)
            if answer.takes and named is None:
                raise self._failed("answered with errors without a record", part)
            self._under_way.end()
            if not named and not answer.takes:
                if len(left) > 1:
                    # The results of the first half are stored before the second half is sent.
                    del left[(len(left) + 1) // 2 :]
                    del outcomes[left[-1] + 1 :]
                    continue
                named = {0: answer.reason}
            for place, reason in (named or {}).items():
                outcomes[left[place]] = reason
            if answer.takes:
                break
            left = [index for place, index in enumerate(left) if place not in (named or {})]
        return outcomes

    def _deleted(self, record: Record) -> Outcome:
        url = self._address(record)
        if url is None:
            return _NO_ADDRESS
        answer = self._answered("DELETE", url, [record], None)
        self._under_way.end()
        return None if answer.takes or answer.status in _GONE else answer.reason

    def _address(self, record: Record) -> str | None:
        # Such a path would mean the URL of all records, or one above.
        key = record.record_id
        return None if key in ("", ".", "..") else f"{self._url}/{quote(key, safe='')}"

    def _answered(self, method: str, url: str, records: Sequence[Record], content: Any) -> Answer:
        """Send a request with retries, and return the response that accepts or refuses it."""
        is_deletion = content is None
        key, may_be_done = self._under_way.begin(records, is_deletion=is_deletion)
        headers = {"idempotency-key": f'"{key}"'}
        body = None
        if not is_deletion:
            headers["content-type"] = "application/json"
            body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        answer: Answer | None = None
        failure, wait = "", 0.0
        for number in range(_TRIES):
            if number:
                self._pause(min(wait, _LONGEST_WAIT))
            wait = _FIRST_WAIT * 2**number
            answer = None
            try:
                with self._client.stream(method, url, content=body, headers=headers) as response:
                    answer = read(response, _SECONDS_FOR_AN_ANSWER, is_needed=self._is_array and not is_deletion)
            except RefusedDestinationError as error:
                if not may_be_done:
                    self._under_way.forget()
                raise RunError(f"The destination {self._url} was refused: {error}.") from error
            except httpx.HTTPError as error:
                failure = f"could not be reached ({str(error) or type(error).__name__})"
                may_be_done = may_be_done or not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                continue
            failure = f"answered {answer.phrase}"
            is_at_work = may_be_done and answer.status == HTTPStatus.CONFLICT
            if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status in _LATER or is_at_work:
                may_be_done = may_be_done or answer.status not in _LATER
                wait = answer.wait() or wait
                continue
            if answer.takes or answer.refuses:
                return answer
            # Neither accepted nor refused. A redirect is not followed: it would send the data elsewhere.
            break
        if answer is not None and answer.status == HTTPStatus.CONFLICT:
            # After the retries, the first request cannot be in execution any more: 409 is a refusal.
            return answer
        if not may_be_done:
            self._under_way.forget()
        raise self._failed(failure, records)

    def _failed(self, failure: str, records: Sequence[Record]) -> RunError:
        first = records[0].record_id
        affected = f"{len(records)} records from {first!r} on" if self._is_array else f"record {first!r}"
        return RunError(
            f"The destination {self._url} {failure} for {affected}: correct the cause, then run the sync again."
        )
