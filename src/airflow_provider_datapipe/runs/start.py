"""
Start of a run exactly once, for blocking and deferred tasks.

The service has no idempotency key, and can execute a request although its response is lost. Therefore a task stores the
known runs before it sends a request (:class:`~.task_state.KnownRuns`). After an ambiguous response, it searches for a
new run before it sends another request, as long as the service may still execute the first one. :mod:`.conflicts`
handles refused requests.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from airflow_provider_datapipe.api.errors import (
    ApiError,
    ConflictError,
    DatapipeError,
    ProtocolError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.flows import send, sleep
from airflow_provider_datapipe.runs.conflicts import ActiveRunConflict, ConflictResolver, IfRunning
from airflow_provider_datapipe.runs.kinds import Kind
from airflow_provider_datapipe.runs.missing_runs import GRACE, is_missing
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome, is_success
from airflow_provider_datapipe.runs.task_state import StartRecord, TaskState, task_state_key

log = logging.getLogger(__name__)

#: A larger difference between the service's clock and ours, in seconds, is an invalid ``Date`` header.
_LARGEST_OFFSET = 86_400.0


@dataclass(frozen=True, slots=True)
class StartPolicy:
    """
    Policy for starting runs.

    :param if_running: policy for a run that is already active.
    :param lost_response_timeout: seconds to search for a run after a request whose response was lost, before the
        request is sent again. It must exceed the time in which the service executes a request. Also the longest time in
        seconds in which a request is repeated that the service refuses because of a run that is not active.
    :param search_interval: seconds between two such polls.
    :param attempts: the most requests whose responses may be lost.
    :param missing_grace: seconds in which the service has to deny a stored run before the run counts as missing. A
        lagging replica, or a connection that temporarily points to another account, also denies it.
    :param max_failed_rows: the most rows that may have failed in a run of an earlier try for the task to use the run.
    """

    if_running: IfRunning = IfRunning.ATTACH
    lost_response_timeout: float = 120.0
    search_interval: float = 5.0
    attempts: int = 3
    max_failed_rows: int = 0
    missing_grace: float = GRACE


async def start(
    kind: Kind, target: RunTarget, task_state: TaskState, policy: StartPolicy, clock: Callable[[], float] = time.time
) -> RunState:
    """
    Start a run, attach to an active one, or continue with the run that an earlier try started.

    :param kind: the kind of run.
    :param target: the resource to run.
    :param task_state: stored state of earlier tries of the task.
    :param policy: policy for starting runs.
    :param clock: function that returns the current time in seconds since the epoch.
    :return: the run, as far as it is known.
    :raises ActiveRunConflict: if another run has to end first.
    :raises RunSkipped: if another run is active, and ``if_running`` is ``skip``.
    :raises RunConflictError: if another run is active, and ``if_running`` is ``fail``, or the service keeps refusing.
    :raises DatapipeError: if the service refuses the request, or cannot be reached.
    """
    return await _Start(kind, target, task_state, policy, clock).run()


async def resumable_first(kind: Kind, targets: Sequence[RunTarget], task_state: TaskState) -> list[RunTarget]:
    """
    Sort targets so that those whose runs of an earlier try may be active come first.

    Otherwise the task could exceed its limit of active runs by starting others before it counts these.

    :param kind: the kind of run.
    :param targets: the resources to run, in order.
    :param task_state: stored state of earlier tries of the task.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    active: list[RunTarget] = []
    others: list[RunTarget] = []
    for target in targets:
        stored = task_state.get(task_state_key(kind.name, target))
        record = StartRecord.from_dict(stored) if stored else None
        may_be_active = record is not None
        if record is not None and record.reference is not None:
            try:
                answer = await send(kind.poll_request(record.reference))
                may_be_active = not kind.read(record.reference, answer).is_final
            except ApiError as error:
                # A lagging replica denies a run that is active.
                if not is_missing(error):
                    raise
        (active if may_be_active else others).append(target)
    return active + others


class _Start:
    """State of the start of one run."""

    def __init__(
        self, kind: Kind, target: RunTarget, task_state: TaskState, policy: StartPolicy, clock: Callable[[], float]
    ) -> None:
        self._kind = kind
        self._target = target
        self._task_state = task_state
        self._policy = policy
        self._clock = clock
        self._key = task_state_key(kind.name, target)
        #: True if the service may have executed a request whose run is not visible yet. Set before each request, and
        #: reset only if this request definitely started nothing.
        self._may_have_started = False
        self._is_prepared = False
        #: Seconds by which the service's clock is ahead of ours.
        self._offset = 0.0
        #: Runs that were listed before the request, to derive the durations of earlier runs from; None for no list.
        self._listed: Any = None

    @cached_property
    def _conflicts(self) -> ConflictResolver:
        return ConflictResolver(
            kind=self._kind,
            target=self._target,
            if_running=self._policy.if_running,
            time_limit=self._policy.lost_response_timeout,
            first_pause=self._policy.search_interval,
            newest=self._newest,
            clock=self._clock,
            service_time=self._now,
        )

    async def run(self) -> RunState:
        stored = self._task_state.get(self._key)
        record = StartRecord.from_dict(stored) if stored else None
        if record is not None and record.options not in (None, self._target.options):
            # The task was changed and cleared: a run without a full refresh, for example, is not its run.
            log.info("The options of %s have changed: the run of an earlier try is not used.", self._target.name)
            record = None
        if record is not None:
            state = await self._resume(record)
            if state is not None and _can_continue(state, self._policy):
                log.info("Continuing with the run of %s that an earlier try of this task started.", self._target.name)
                return self._store(record, state)
            if state is not None or record.reference is not None:
                # That run has failed or no longer exists: start another one.
                record = None
        # A record without a run: an earlier try may have sent a request whose run is not visible yet.
        self._may_have_started = record is not None
        newest = await self._newest()
        if record is None:
            now = self._now()
            record = StartRecord(self._kind.baseline(self._target, newest, now), now, options=self._target.options)
        self._listed = newest
        try:
            await self._prepare(newest)
            state = await self._request(record)
        except Exception as error:
            if isinstance(error, ActiveRunConflict):
                error.run_state = self._with_history(error.run_state)
            # Do not store a request that started nothing: a later try would search for its run.
            if not self._may_have_started:
                await self._undo_prepare()
                if stored:
                    self._task_state.set(self._key, stored)
                else:
                    self._task_state.delete(self._key)
            raise
        return self._store(record, state)

    def _store(self, record: StartRecord, state: RunState) -> RunState:
        state = self._with_history(state)
        self._task_state.set(self._key, replace(record, reference=state.reference).as_dict())
        return state

    def _with_history(self, state: RunState) -> RunState:
        durations = [] if self._listed is None else self._kind.durations(self._listed)
        return replace(state, reference=replace(state.reference, durations=durations)) if durations else state

    def _now(self) -> float:
        """Return the current time by the service's clock, in seconds since the epoch."""
        return self._clock() + self._offset

    async def _newest(self) -> Any:
        """Return the newest runs, and compare the service's clock with ours."""
        newest = await send(self._kind.newest(self._target.resource_id))
        answered_at = getattr(newest, "answered_at", None)
        if answered_at is not None and abs(answered_at - self._clock()) < _LARGEST_OFFSET:
            self._offset = answered_at - self._clock()
        return newest

    async def _prepare(self, newest: Any) -> None:
        """
        Send the requests that precede a run, such as that for a full refresh.

        :raises: if a run is active that the task cannot attach to, see :meth:`ConflictResolver.check_active`.
        """
        # If a request may have been sent, the earlier try has sent these requests before.
        requests = [] if self._may_have_started else list(self._kind.prepare(self._target))
        if requests:
            self._conflicts.check_active(newest)
        for request in requests:
            self._is_prepared = True
            await send(request)

    async def _undo_prepare(self) -> None:
        """Undo the requests that precede a run, because no run was started."""
        for request in self._kind.undo_prepare(self._target) if self._is_prepared else ():
            try:
                await send(request)
            except DatapipeError as error:
                log.warning(
                    "%s %s: no run was started, but its preparation (%s) remains: %s",
                    self._kind.noun,
                    self._target.name,
                    ", ".join(self._target.options),
                    error,
                )

    async def _resume(self, record: StartRecord) -> RunState | None:
        """Return the run that an earlier try of the task started, or None."""
        reference = record.reference
        if reference is None:
            # The earlier try ended before the response: the service may have executed its request, or may do so later.
            return await self._find_lost(record)
        until = self._clock() + self._policy.missing_grace
        while True:
            try:
                return self._kind.read(reference, await send(self._kind.poll_request(reference)))
            except ApiError as error:
                if not is_missing(error):
                    raise
                denied = error
            # The list may come from another replica, which knows the run.
            listed = await self._find_listed(reference)
            if listed is not None:
                return listed
            if self._clock() >= until:
                break
            await sleep(self._policy.search_interval)
        log.warning(
            "The service does not know the run of %s that an earlier try of this task started: %s",
            self._target.name,
            denied,
        )
        # This raises if the service does not know the resource either. Then do not start another run.
        newest = await self._newest()
        return self._kind.find_new(self._target, record.baseline, newest, self._now())

    async def _find_listed(self, reference: RunRef) -> RunState | None:
        try:
            return self._kind.find_run(reference, await self._newest())
        except ApiError as error:
            if not is_missing(error):
                raise
            return None

    async def _request(self, record: StartRecord) -> RunState:
        """Send the request until its result is known."""
        lost = 0
        while True:
            was_uncertain = self._may_have_started
            # Store the record before each request, because the service may execute it at any time afterwards.
            record = replace(record, intended_at=self._now())
            self._task_state.set(self._key, record.as_dict())
            self._may_have_started = True
            try:
                answer = await send(self._kind.request(self._target))
            except (ApiError, TransportError, ProtocolError) as error:
                if _definitely_not_started(error):
                    self._may_have_started = was_uncertain
                    if not isinstance(error, ConflictError):
                        raise
                    found = await self._conflicts.resolve(record.baseline, error, may_have_started=was_uncertain)
                else:
                    # Update the time, so that the search of a later try does not end early after a slow failure.
                    record = replace(record, intended_at=self._now())
                    self._task_state.set(self._key, record.as_dict())
                    found = await self._find_lost(record)
                    lost += 1
                    if found is None and lost == self._policy.attempts:
                        raise
            else:
                found = await self._accepted(record, answer)
            if found is not None:
                return found

    async def _accepted(self, record: StartRecord, answer: Any) -> RunState:
        """Read the answer to the request, and check a status URL that may not be usable."""
        try:
            state = self._kind.accepted(self._target, answer, record.baseline)
            if state.reference.status_url and "//" in state.reference.status_url:
                # The client refuses an absolute URL with another origin.
                with suppress(ApiError, TransportError):
                    state = self._kind.read(state.reference, await send(self._kind.poll_request(state.reference)))
        except ProtocolError as error:
            # The run was requested, so it is the first new run of the list.
            expected = self._kind.expected(self._target, record.baseline)
            if expected is None:
                raise
            log.warning("%s\nSearching the list for the run.", error)
            return RunState(expected, Outcome.SCHEDULED)
        return state

    async def _find_lost(self, record: StartRecord) -> RunState | None:
        """
        Search for a new run until the service must have executed a request that was sent at ``intended_at``.

        The search is also necessary if the service would refuse a second request: the run of the first request can end
        before the second request arrives, which would then start another run.
        """
        until: float | None = None
        while True:
            newest = None
            try:
                newest = await self._newest()
            except (ServerError, TransportError, ProtocolError):
                # Without an answer, do not send the request again: its run may exist.
                if until is not None and self._now() >= until + self._policy.lost_response_timeout:
                    raise
            now = self._now()
            if until is None:
                # The stored time is in the future if the clock of the earlier worker was ahead.
                until = min(record.intended_at, now) + self._policy.lost_response_timeout
            if newest is not None:
                found = self._kind.find_new(self._target, record.baseline, newest, now)
                if found is not None:
                    return found
                if now >= until:
                    return None
            await sleep(self._policy.search_interval)


def _definitely_not_started(error: ApiError | TransportError | ProtocolError) -> bool:
    """Return True if a request with this failure started nothing."""
    if isinstance(error, TransportError):
        return not error.sent
    # An unreadable response is as ambiguous as a lost one.
    return isinstance(error, ApiError) and not isinstance(error, ServerError)


def _can_continue(state: RunState, policy: StartPolicy) -> bool:
    """Return True if a run is active, or has ended successfully as defined by the task."""
    failed_rows = state.result["rows_failed"] if state.result else None
    return not state.is_final or is_success(state.outcome, failed_rows, max_failed_rows=policy.max_failed_rows)
