"""
Sequential delivery of batches, with a task state of the accepted ones.

The interface has no idempotency key. An accepted batch is stored in the task state immediately, and is not sent again.
A batch without a response is sent again, and its records are counted as possible duplicates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, TypedDict

from airflow_provider_datapipe.api.errors import DatapipeError, RateLimitError, ServerError, TransportError
from airflow_provider_datapipe.api.request import Repeat
from airflow_provider_datapipe.api.retry import RetryPolicy, delay_before, may_send_again
from airflow_provider_datapipe.runs.task_state import TaskState
from airflow_provider_datapipe.webhook.batches import Batch, Fingerprint, Limits, batches
from airflow_provider_datapipe.webhook.sources import Record, RecordError, Source

#: Key of the task state with the progress.
KEY = "datapipe.webhook"
# Number of batch results that are kept from the beginning, and from the end.
_SHOWN = 50


class BatchResult(TypedDict):
    """Result of a batch."""

    #: Number of records of the source before the batch.
    first: int
    records: int
    bytes: int
    #: Number of rows that the service reported as accepted; None without a report.
    rows: int | None
    attempts: int
    #: Number of its records that may be duplicated.
    maybe_twice: int


class IngestResult(TypedDict):
    """Accepted records of all tries. ``results`` has batches of the last try only."""

    records: int
    batches: int
    bytes: int
    rows: int | None
    maybe_twice: int
    #: Number of records that were accepted in earlier tries.
    resumed_from: int
    results: list[BatchResult]
    #: Number of batches between the first and the last ones that are not in ``results``.
    results_omitted: int


class IngestError(DatapipeError):
    """
    Error of an incomplete delivery. The message has the number of accepted records, and the behavior of a retry.

    :param message: the message.
    :param result: the accepted records.
    """

    def __init__(self, message: str, result: IngestResult) -> None:
        super().__init__(message)
        self.result = result


class SourceChangedError(DatapipeError):
    """Error of a source that no longer starts with the records that an earlier try sent."""


@dataclass(slots=True)
class Progress:
    """
    Accepted records, and records with an unknown outcome.

    :param records: number of accepted records, from the beginning of the source.
    :param batches: number of accepted batches.
    :param size: size of the accepted batches in bytes.
    :param rows: number of rows that the service reported; None if a response had no number.
    :param maybe_twice: number of accepted records that may be duplicated.
    :param in_doubt: number of records, from the beginning of the source, up to the last one that was sent with an
        unknown outcome.
    :param fingerprint: fingerprint of the accepted records.
    """

    records: int = 0
    batches: int = 0
    size: int = 0
    rows: int | None = 0
    maybe_twice: int = 0
    in_doubt: int = 0
    fingerprint: str = field(default_factory=lambda: Fingerprint().now())


class Sent(NamedTuple):
    """
    A batch that was accepted.

    :param rows: number of rows that the service reports as accepted; None without a report.
    :param attempts: number of attempts.
    :param in_doubt: True if an earlier attempt may also have been accepted.
    """

    rows: int | None
    attempts: int
    in_doubt: bool


class Sending(NamedTuple):
    """
    Function that sends request bodies, with its retries and warnings.

    :param post: function that sends a body once, and returns the number of accepted rows.
    :param retry: retry policy.
    :param warn: function that is called with a message after the first failed attempt, if it is repeated.
    """

    post: Callable[[bytes], int | None]
    retry: RetryPolicy
    warn: Callable[[str], None]


class UnconfirmedError(Exception):
    """
    Error of a body whose last attempt failed.

    :param error: error of the last attempt.
    :param in_doubt: True if one of the attempts may have been accepted.
    """

    def __init__(self, error: DatapipeError, *, in_doubt: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.in_doubt = in_doubt


def send(body: bytes, sending: Sending) -> Sent:
    """
    Send a body until it is accepted.

    Rate limits (429), temporary server errors and transport errors are retried within the retry budget.

    :param body: request body.
    :param sending: function that sends it, with its retry policy.
    :raises UnconfirmedError: if the body was rejected, or the retry budget is used up.
    """
    began, attempts, in_doubt = time.monotonic(), 0, False
    while True:
        attempts += 1
        try:
            return Sent(sending.post(body), attempts, in_doubt)
        except (TransportError, RateLimitError, ServerError) as error:
            # Delivery is at least once, so every request may be repeated.
            is_retryable = may_send_again(error, Repeat.IDEMPOTENT)
            in_doubt = in_doubt or isinstance(error, ServerError) or (isinstance(error, TransportError) and error.sent)
            delay = delay_before(attempts, error, elapsed=time.monotonic() - began, policy=sending.retry)
            if not is_retryable or delay is None:
                raise UnconfirmedError(error, in_doubt=in_doubt) from None
            if attempts == 1:
                sending.warn(f"{error}\nTrying again for up to {sending.retry.budget:g} s.")
        except DatapipeError as error:
            raise UnconfirmedError(error, in_doubt=in_doubt) from None
        time.sleep(delay)


class Delivery:
    """
    Delivery of all records of a source. It continues after the records that an earlier try has sent.

    :param source: function that opens the source at its beginning.
    :param limits: size limits of a batch.
    :param sending: function that sends a batch, with its retry policy.
    :param task_state: task state, which later tries can read.
    """

    def __init__(self, source: Source, limits: Limits, sending: Sending, task_state: TaskState) -> None:
        self._source = source
        self._limits = limits
        self._sending = sending
        self._task_state = task_state
        self.progress = Progress()
        self._resumed_from = 0
        self._first: list[BatchResult] = []
        self._last: list[BatchResult] = []
        self._sent = 0

    def resume(self) -> int:
        """Read the task state of an earlier try, and return its number of accepted records."""
        stored = self._task_state.get(KEY)
        if stored is not None:
            self.progress = Progress(**stored)
        self._resumed_from = self.progress.records
        return self._resumed_from

    def restart(self) -> None:
        """Delete the task state of an earlier try, so that all records are sent again."""
        self._task_state.delete(KEY)
        self.progress, self._resumed_from = Progress(), 0

    def run(self, accepted: Callable[[Progress], None]) -> IngestResult:
        """
        Send the remaining batches.

        :param accepted: function that is called with the progress after each accepted batch.
        :raises SourceChangedError: if the source no longer starts with the records that were sent. Nothing was sent.
        :raises IngestError: if not all records were accepted.
        """
        with closing(self._source()) as records:
            fingerprint = Fingerprint()
            self._skip_accepted(records, fingerprint)
            left = batches(records, self._limits, first=self.progress.records, fingerprint=fingerprint)
            batch, problem = _following(left)
            if batch is not None:
                self._store_progress(batch)
            while batch is not None:
                # Read before this batch is sent, so that the task state can be stored immediately after the response.
                following, problem = _following(left)
                self._deliver(batch, following)
                accepted(self.progress)
                batch = following
            if problem is not None:
                raise self._error(problem, None) from problem
        self._task_state.close(KEY)
        return self.result()

    def result(self) -> IngestResult:
        """Return the result so far."""
        progress = self.progress
        return {
            "records": progress.records,
            "batches": progress.batches,
            "bytes": progress.size,
            "rows": progress.rows,
            "maybe_twice": progress.maybe_twice,
            "resumed_from": self._resumed_from,
            "results": [*self._first, *self._last],
            "results_omitted": self._sent - len(self._first) - len(self._last),
        }

    def _skip_accepted(self, records: Iterator[Record], fingerprint: Fingerprint) -> None:
        """Read the accepted records, and raise if they have changed."""
        number = 0
        try:
            for number in range(self.progress.records):  # noqa: B007 - the message states the last number
                fingerprint.add(next(records))
        except StopIteration:
            how = f"it has {number:,} records"
        except RecordError as error:
            how = f"{error}"
        else:
            if fingerprint.now() == self.progress.fingerprint:
                return
            how = "they differ"
        raise SourceChangedError(
            f"{self.progress.records:,} records were accepted before, and they are no longer those that the source "
            f"begins with ({how.rstrip('.')}). Nothing more was sent."
        )

    def _deliver(self, batch: Batch, following: Batch | None) -> None:
        progress = self.progress
        try:
            sent = send(batch.body, self._sending)
        except UnconfirmedError as failed:
            progress.in_doubt = max(progress.in_doubt, batch.end if failed.in_doubt else 0)
            self._store(progress.in_doubt)
            raise self._error(failed.error, batch) from failed.error
        if sent.in_doubt:
            progress.in_doubt = max(progress.in_doubt, batch.end)
        twice = max(0, min(progress.in_doubt, batch.end) - batch.first)
        progress.records = batch.end
        progress.batches += 1
        progress.size += len(batch.body)
        progress.rows = None if progress.rows is None or sent.rows is None else progress.rows + sent.rows
        progress.maybe_twice += twice
        progress.fingerprint = batch.fingerprint
        self._store_progress(following)
        self._add_result(
            {
                "first": batch.first,
                "records": batch.records,
                "bytes": len(batch.body),
                "rows": sent.rows,
                "attempts": sent.attempts,
                "maybe_twice": twice,
            }
        )

    def _store_progress(self, following: Batch | None) -> None:
        """Store the progress. The next batch counts as possibly sent, because the task may be killed after sending."""
        self._store(max(self.progress.in_doubt, 0 if following is None else following.end))

    def _store(self, in_doubt: int) -> None:
        self._task_state.set(KEY, asdict(self.progress) | {"in_doubt": in_doubt})

    def _add_result(self, result: BatchResult) -> None:
        self._sent += 1
        if len(self._first) < _SHOWN:
            self._first.append(result)
            return
        self._last.append(result)
        del self._last[:-_SHOWN]

    def _error(self, cause: DatapipeError, batch: Batch | None) -> IngestError:
        progress = self.progress
        sentences = [f"The first {progress.records:,} records were accepted, in {progress.batches:,} batches."]
        if batch is not None:
            sentences.append(f"The next record is {batch.place}.")
            uncertain = progress.in_doubt - batch.first
            if uncertain > 0:
                sentences.append(
                    f"The {uncertain:,} records after them may have been accepted, and will be sent again."
                )
        return IngestError(f"{cause}\n{' '.join(sentences)}", self.result())


def _following(left: Iterator[Batch]) -> tuple[Batch | None, DatapipeError | None]:
    try:
        return next(left, None), None
    except DatapipeError as error:
        return None, error


def described(progress: Progress) -> str:
    """Return the progress as one line."""
    return f"Accepted: {progress.records:,} records in {progress.batches:,} batches, {progress.size:,} bytes."
