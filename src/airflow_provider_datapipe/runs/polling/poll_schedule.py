"""Schedule of polls that covers many runs with few requests. Pure: no I/O, and no clock of its own."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from airflow_provider_datapipe.api.errors import DatapipeError, ProtocolError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import backoff_delay, requested_delay
from airflow_provider_datapipe.runs.backoff import ConnectionBackoff, is_of_connection
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling.bulk_status import (
    BulkStatusRequest,
    NeedsDirectPoll,
    StatusFingerprint,
    bulk_status_for,
)
from airflow_provider_datapipe.runs.wait import RunWait, WaitOutcome

log = logging.getLogger(__name__)

WaitOutcomes: TypeAlias = list[tuple[RunWait, WaitOutcome]]

#: The shortest interval between two polls of the same bulk status in seconds, even if waits are added continuously.
_SHARED_PAUSE = 0.25
#: Bulk polls without a change, and seconds (with jitter up to twice as many), before a direct poll of the run.
_CONFIRMATIONS = 10
_CONFIRM_SECONDS = 120.0
#: Number of consecutive bulk polls without the state of a run (strikes) after which the run is only polled directly.
_STRIKES = 3
#: Seconds between two checks for waits that ended without an answer.
_SWEEP = 5.0
#: The first and the longest time in seconds for which a bulk request that fails is not sent for a run.
_FIRST_HOLD, _LONGEST_HOLD = 2.0, 600.0


@dataclass(slots=True, eq=False)
class _Source:
    """A request that is repeated, and the waits that need its answers."""

    key: BulkStatusRequest | Request[Any]
    run_waits: dict[RunWait, None] = field(default_factory=dict)
    due: float = math.inf
    busy: bool = False
    not_before: float = 0.0
    #: Number of consecutive failures of a bulk request, and the time of the last one.
    failures: int = 0
    failed_at: float = 0.0


@dataclass(slots=True, eq=False)
class _ScheduledWait:
    """State of the polls of one run."""

    source: _Source
    fingerprint: StatusFingerprint | None = None
    confirmations_left: int = 0
    confirm_at: float = 0.0
    strikes: int = 0
    #: Number of consecutive failures of the bulk request, and the time until which the run is polled directly instead.
    failures: int = 0
    alone_until: float = 0.0
    #: True if the bulk status has changed in a way that suggests that the run has ended.
    seems_over: bool = False


_Queue: TypeAlias = list[tuple[float, int, _Source]]


@dataclass(slots=True, eq=False)
class PollRequest:
    """
    A poll: one request for one or more runs.

    :param request: the request, which the client does not retry.
    :param run_waits: the waits that need the answer.
    :param due: time at which the poll was due. The next interval is counted from it, so that slow answers do not make
        polls less frequent.
    """

    request: Request[Any]
    run_waits: list[RunWait]
    source: _Source
    due: float
    pages: int = 1

    @property
    def is_direct(self) -> bool:
        """True if the request shows one run by itself."""
        return not isinstance(self.source.key, BulkStatusRequest)


class PollSchedule:
    """
    Poll schedule of all waits on one connection.

    Equal requests are sent once. Runs that one request shows are polled together (:mod:`.bulk_status`). If the service
    fails or limits the rate of requests, all polls pause (:mod:`~airflow_provider_datapipe.runs.backoff`).

    The caller sends the request that :meth:`next` returns, and passes its result to :meth:`answered` or :meth:`failed`,
    which return the ended waits.

    :param most: the most requests at a time.
    :param jitter: function that returns a number from 0 to 1.
    """

    def __init__(self, most: int = 1, jitter: Callable[[], float] = random.random) -> None:
        self.backoff = ConnectionBackoff(most, jitter)
        self._jitter = jitter
        self._sources: dict[BulkStatusRequest | Request[Any], _Source] = {}
        self._scheduled: dict[RunWait, _ScheduledWait] = {}
        # Direct and bulk requests alternate, so that neither kind waits behind a long queue of the other.
        self._queues: tuple[_Queue, _Queue] = ([], [])
        self._turn = 0
        self._numbers = itertools.count()
        self._next_pages: deque[PollRequest] = deque()
        self._active_requests = 0
        self._sweep_at = 0.0
        #: Time of the last successful direct poll.
        self._direct_answer_at = 0.0

    def __len__(self) -> int:
        """Return the number of waits."""
        return len(self._scheduled)

    def add(self, run_wait: RunWait) -> None:
        """
        Add the wait for a run.

        :raises DatapipeError: if the run cannot be polled, for example because its ID is empty.
        """
        # Build the direct request also for a bulk status, which may not show the run.
        direct = _direct(run_wait.reference)
        source = self._source(bulk_status_for(run_wait.reference) or direct)
        self._scheduled[run_wait] = _ScheduledWait(source)
        self._join(source, run_wait)

    def discard(self, run_wait: RunWait) -> None:
        """Remove a wait. The answer to a request that is being sent does not change it."""
        scheduled = self._scheduled.pop(run_wait, None)
        if scheduled is not None:
            self._leave(scheduled.source, run_wait)

    def next(self, now: float) -> PollRequest | None:
        """Return the poll to send now, None if there is none. The caller must report the result of each poll."""
        if self._active_requests >= self.backoff.allowed or now < self.backoff.paused_until:
            return None
        poll = self._next_page(now) or self._next_due(now)
        if poll is not None:
            self._active_requests += 1
        return poll

    def is_due(self, now: float) -> bool:
        """Return True if :meth:`next` may return a poll, or the check for overdue waits is due."""
        return self._active_requests < self.backoff.allowed and self.wake_at(now) <= now

    def wake_at(self, now: float) -> float:
        """Return the time at which to call :meth:`next` and :meth:`overdue` again, unless an answer arrives before."""
        sweep = self._sweep_at
        if self._active_requests >= self.backoff.allowed:
            return sweep
        for queue in self._queues:
            _drop_stale(queue)
        due = now if self._next_pages else min((queue[0][0] for queue in self._queues if queue), default=math.inf)
        return min(sweep, max(due, self.backoff.paused_until))

    def answered(self, poll: PollRequest, answer: Any, now: float) -> WaitOutcomes:
        """Process the answer to a poll, and return the waits that have ended."""
        self.backoff.answered(now)
        source = poll.source
        if isinstance(source.key, BulkStatusRequest):
            ends = self._read_shared(source.key, poll, answer, now)
        else:
            self._direct_answer_at = now
            ends = self._read_direct(poll, answer, now)
        self._finish(poll, now)
        return ends

    def failed(self, poll: PollRequest, error: DatapipeError, now: float) -> WaitOutcomes:
        """Process a failed poll, and return the waits that have ended."""
        of_connection = is_of_connection(error)
        if of_connection:
            self.backoff.failed(error, now)
        else:
            # The failure concerns this request only: the service can be reached.
            self.backoff.answered(now)
        if isinstance(poll.source.key, BulkStatusRequest):
            ends = self._failed_shared(poll, error, now, is_specific=not of_connection)
        else:
            results = (
                (run_wait, run_wait.failed(error, now, slow_down=not of_connection)) for run_wait in self._waiting(poll)
            )
            ends = self._gather(results)
        self._finish(poll, now)
        return ends

    def overdue(self, now: float) -> WaitOutcomes:
        """Return the waits that end without an answer: their deadline has passed, or contact is lost."""
        if now < self._sweep_at:
            return []
        self._sweep_at = now + _SWEEP
        error = self.backoff.error
        # If polls are allowed, a last one decides. Do not wait for one that hangs.
        tolerance = 0.0 if now < self.backoff.paused_until else _SWEEP
        return self._gather(
            (run_wait, run_wait.expired(now) or (run_wait.unreachable(error, now - tolerance) if error else None))
            for run_wait in self._scheduled
            # The other waits are not due: a poll has not failed, even if the last answer is old.
            if run_wait.due <= now
        )

    def _next_page(self, now: float) -> PollRequest | None:
        while self._next_pages:
            poll = self._next_pages.popleft()
            if self._waiting(poll):
                return poll
            self._release(poll.source, now)
        return None

    def _next_due(self, now: float) -> PollRequest | None:
        while True:
            popped = self._pop_due(now)
            if popped is None:
                return None
            due, source = popped
            key = source.key
            if not isinstance(key, BulkStatusRequest):
                if all(run_wait.expired(now) for run_wait in source.run_waits):
                    # None of these waits polls again: end them with overdue().
                    self._sweep_at = now
                    self._schedule(source, now + _SWEEP)
                    return None
                source.busy = True
                return PollRequest(key, list(source.run_waits), source, due)
            if len(source.run_waits) >= key.WORTHWHILE:
                source.busy = True
                return PollRequest(key.request(), list(source.run_waits), source, due)
            for run_wait in list(source.run_waits):
                self._move(run_wait, _direct(run_wait.reference))

    def _pop_due(self, now: float) -> tuple[float, _Source] | None:
        for _ in self._queues:
            self._turn = 1 - self._turn
            queue = self._queues[self._turn]
            _drop_stale(queue)
            if queue and queue[0][0] <= now:
                due, _, source = heapq.heappop(queue)
                source.due = math.inf
                return due, source
        return None

    def _read_direct(self, poll: PollRequest, answer: Any, now: float) -> WaitOutcomes:
        ends: WaitOutcomes = []
        for run_wait in self._waiting(poll):
            try:
                state = KINDS[run_wait.reference.kind].read(run_wait.reference, answer)
                # Raise for an active run that cannot be polled, for example because its ID is empty.
                direct = poll.request if state.is_final else _direct(state.reference)
                end = run_wait.seen(state, now, poll.due)
            except Exception as error:  # noqa: BLE001 - an invalid answer concerns only the runs in it
                failure = error if isinstance(error, DatapipeError) else _unreadable(poll, error)
                # Poll the run directly until its answer is valid: a list could show it as unchanged forever.
                if end := run_wait.failed(failure, now):
                    ends.append((run_wait, end))
                continue
            if end:
                ends.append((run_wait, end))
                continue
            scheduled = self._scheduled[run_wait]
            scheduled.confirmations_left = _CONFIRMATIONS
            scheduled.confirm_at = now + _CONFIRM_SECONDS * (1 + self._jitter())
            if scheduled.seems_over and run_wait.outcome is Outcome.RUNNING:
                # The bulk status or the direct answer is out of date: treat the next bulk status as a change.
                scheduled.fingerprint = ()
            scheduled.seems_over = False
            alone = scheduled.strikes >= _STRIKES or now < scheduled.alone_until
            self._move(run_wait, (None if alone else bulk_status_for(run_wait.reference)) or direct)
        return self._gather(ends)

    def _read_shared(self, shared: BulkStatusRequest, poll: PollRequest, answer: Any, now: float) -> WaitOutcomes:
        try:
            shown = shared.index(answer)
        except Exception as error:  # noqa: BLE001 - as in _read_direct
            return self._failed_shared(poll, _unreadable(poll, error), now, is_specific=True)
        poll.source.failures = 0
        ends: WaitOutcomes = []
        missing: list[RunWait] = []
        for run_wait in self._waiting(poll):
            scheduled = self._scheduled[run_wait]
            scheduled.failures = 0
            try:
                item = shared.find(run_wait.reference, shown)
                fingerprint = None if item is None else shared.fingerprint(item)
                is_active = item is not None and shared.is_active(item)
            except Exception as error:  # noqa: BLE001 - as in _read_direct
                scheduled.strikes += 1
                _unreadable(poll, error)
                self._poll_directly(run_wait, now)
                continue
            if fingerprint is None:
                missing.append(run_wait)
                continue
            if fingerprint == scheduled.fingerprint and (
                shared.IS_COMPLETE or scheduled.confirmations_left > 0 or now < scheduled.confirm_at
            ):
                scheduled.strikes = 0
                scheduled.confirmations_left -= 1
                end = run_wait.unchanged(now, poll.due)
            else:
                # A confirmation without a change does not count against the bulk status.
                scheduled.strikes += fingerprint != scheduled.fingerprint
                scheduled.seems_over = scheduled.fingerprint not in (None, fingerprint) and not is_active
                scheduled.fingerprint = fingerprint
                try:
                    seen = shared.read(run_wait.reference, item)
                    end = None if seen is NeedsDirectPoll.UNCLEAR else run_wait.seen(seen, now, poll.due)
                except Exception as error:  # noqa: BLE001 - as in _read_direct
                    _unreadable(poll, error)
                    seen, end = NeedsDirectPoll.UNCLEAR, None
                if seen is NeedsDirectPoll.UNCLEAR:
                    self._poll_directly(run_wait, now)
                    continue
            if end:
                ends.append((run_wait, end))
        self._poll_missing(shared, poll, answer, missing, now)
        return self._gather(ends)

    def _failed_shared(self, poll: PollRequest, error: DatapipeError, now: float, *, is_specific: bool) -> WaitOutcomes:
        source = poll.source
        ends = self._gather((run_wait, run_wait.unreachable(error, now)) for run_wait in self._waiting(poll))
        source.failures += 1
        # A gateway can reject only this request, while direct polls succeed.
        is_specific |= source.failures > _STRIKES and self._direct_answer_at > source.failed_at
        source.failed_at = now
        run_waits = self._waiting(poll)
        if is_specific:
            retry_after = requested_delay(error)
            for run_wait in run_waits:
                scheduled = self._scheduled[run_wait]
                scheduled.failures += 1
                hold = backoff_delay(
                    scheduled.failures, first=_FIRST_HOLD, longest=_LONGEST_HOLD, jitter=self._jitter()
                )
                scheduled.alone_until = now + max(hold, retry_after or 0.0)
                self._poll_directly(run_wait, now)
        elif source.failures >= _STRIKES and run_waits:
            # Test with one run if direct polls succeed.
            self._poll_directly(run_waits[0], now)
        return ends

    def _poll_missing(
        self, shared: BulkStatusRequest, poll: PollRequest, answer: Any, missing: list[RunWait], now: float
    ) -> None:
        """Poll the runs that an answer did not show: with the next page, or directly."""
        try:
            following = shared.following(answer, missing=len(missing), pages=poll.pages) if missing else None
        except Exception as error:  # noqa: BLE001 - as in _read_direct
            _unreadable(poll, error)
            following = None
        if following is not None:
            self._next_pages.append(PollRequest(following, missing, poll.source, poll.due, poll.pages + 1))
            return
        for run_wait in missing:
            self._scheduled[run_wait].strikes += 1
            self._poll_directly(run_wait, now)

    def _waiting(self, poll: PollRequest) -> list[RunWait]:
        """Return the waits of a poll that still need its answer."""
        return [
            run_wait
            for run_wait in poll.run_waits
            if (scheduled := self._scheduled.get(run_wait)) is not None and scheduled.source is poll.source
        ]

    def _poll_directly(self, run_wait: RunWait, now: float) -> None:
        run_wait.due = now
        self._move(run_wait, _direct(run_wait.reference))

    def _move(self, run_wait: RunWait, key: BulkStatusRequest | Request[Any]) -> None:
        scheduled = self._scheduled[run_wait]
        if scheduled.source.key == key:
            return
        self._leave(scheduled.source, run_wait)
        scheduled.source = self._source(key)
        self._join(scheduled.source, run_wait)

    def _gather(self, results: Iterable[tuple[RunWait, WaitOutcome | None]]) -> WaitOutcomes:
        ends = [(run_wait, end) for run_wait, end in results if end is not None]
        for run_wait, _ in ends:
            self.discard(run_wait)
        return ends

    def _source(self, key: BulkStatusRequest | Request[Any]) -> _Source:
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _Source(key)
        return source

    def _join(self, source: _Source, run_wait: RunWait) -> None:
        source.run_waits[run_wait] = None
        self._schedule(source, run_wait.due)

    def _leave(self, source: _Source, run_wait: RunWait) -> None:
        del source.run_waits[run_wait]
        if not source.run_waits and not source.busy:
            del self._sources[source.key]

    def _finish(self, poll: PollRequest, now: float) -> None:
        self._active_requests -= 1
        if not any(more.source is poll.source for more in self._next_pages):
            self._release(poll.source, now)

    def _release(self, source: _Source, now: float) -> None:
        """Schedule the next request of a source, or remove it if no wait needs it."""
        source.busy = False
        if not source.run_waits:
            self._sources.pop(source.key, None)
            return
        if isinstance(source.key, BulkStatusRequest):
            source.not_before = max(source.not_before, now + _SHARED_PAUSE)
        source.due = math.inf
        self._schedule(source, min(run_wait.due for run_wait in source.run_waits))

    def _schedule(self, source: _Source, due: float) -> None:
        due = max(due, source.not_before)
        if due < source.due and not source.busy:
            source.due = due
            queue = self._queues[isinstance(source.key, BulkStatusRequest)]
            heapq.heappush(queue, (due, next(self._numbers), source))


def _drop_stale(queue: _Queue) -> None:
    """Remove outdated entries from the front of a queue."""
    while queue and (queue[0][2].due != queue[0][0] or queue[0][2].busy or not queue[0][2].run_waits):
        heapq.heappop(queue)


def _unreadable(poll: PollRequest, error: Exception) -> ProtocolError:
    """Return the error for an invalid answer, and log its cause."""
    unreadable = ProtocolError(f"{poll.request.label}: the answer could not be read ({type(error).__name__}).")
    log.warning("%s\nReport this as a defect of the provider.", unreadable, exc_info=error)
    return unreadable


def _direct(reference: RunRef) -> Request[Any]:
    """Return the request that polls one run directly."""
    # The wait repeats the poll. Retries of the client would delay the other waits.
    return replace(KINDS[reference.kind].poll_request(reference), once=True)
