"""
Starting a run exactly once: one decision, for blocking and deferred tasks alike.

The service has no idempotency key, and a request may be carried out while its answer is lost. So the newest run is
noted before the request (the cursor), and whoever is not sure what became of a request looks for a run after the cursor
before anything is sent again, for as long as a request may take to be carried out. A run that is going, or scheduled,
turns a second request away (409) where the interface has conflicts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from airflow_provider_datapipe.api.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import Kind
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.records import Record, Records, key_of
from airflow_provider_datapipe.runs.reference import Observation, Target
from airflow_provider_datapipe.runs.steps import Pause, Steps, ask

log = logging.getLogger(__name__)


class IfRunning(StrEnum):
    """What happens when a run is going already that this task did not start."""

    #: Wait for that run, and take its result.
    ATTACH = "attach"
    #: Let that run end, then start one's own.
    WAIT = "wait"
    #: Fail the task.
    FAIL = "fail"
    #: Skip the task.
    SKIP = "skip"


class RunSkipped(Exception):  # noqa: N818 - no error: the DAG's author chose it
    """A run is going already, and ``if_running`` says to skip."""


@dataclass(frozen=True, slots=True)
class StartPolicy:
    """
    How runs are started.

    :param if_running: what happens when a run is going already.
    :param settle: seconds for which a run is looked for after a request whose answer was lost, before it is sent again:
        longer than the service takes to carry a request out.
    :param look_interval: seconds between two such looks.
    :param attempts: how often a request is sent at the most.
    :param max_failed_rows: how many rows may fail in a run that an earlier try started, for it to be gone on with.
    """

    if_running: IfRunning = IfRunning.ATTACH
    settle: float = 120.0
    look_interval: float = 5.0
    attempts: int = 3
    max_failed_rows: int = 0


class Blocked(Exception):  # noqa: N818 - no error: a run has to end first
    """
    Another run has to end before one's own can be started.

    :param observation: that run.
    """

    def __init__(self, observation: Observation) -> None:
        super().__init__()
        self.observation = observation


def start(
    kind: Kind, target: Target, records: Records, policy: StartPolicy, clock: Callable[[], float] = time.time
) -> Steps[Observation]:
    """
    Ask for a run, or attach to the one that is going already, or go on with the one that an earlier try started.

    :param kind: the kind of run.
    :param target: what is to be run.
    :param records: what earlier tries of this task have left.
    :param policy: how runs are started.
    :param clock: gives seconds since the epoch.
    :return: the run, as far as it is known at once.
    :raises Blocked: another run has to end first.
    :raises RunSkipped: another run is going, and the task is to be skipped.
    :raises RunConflictError: another run is going, and the task is to fail.
    :raises DatapipeError: the service refused, or could not be reached.
    """
    return (yield from _Start(kind, target, records, policy, clock).run())


def going_first(kind: Kind, targets: Sequence[Target], records: Records) -> Steps[list[Target]]:
    """
    Order what is to be run so that runs which an earlier try has left going, or may have, come first.

    Whatever is started before they are counted could be one too many, where there is a limit.

    :param kind: the kind of run.
    :param targets: what is to be run, in order.
    :param records: what earlier tries of this task have left.
    :raises DatapipeError: the service refused, or could not be reached.
    """
    going: list[Target] = []
    others: list[Target] = []
    for target in targets:
        kept = records.get(key_of(kind.name, target))
        record = Record.from_dict(kept) if kept else None
        may_be_going = record is not None
        if record is not None and record.reference is not None:
            try:
                answer = yield from ask(kind.look(record.reference))
                may_be_going = not kind.read(record.reference, answer).outcome.is_over
            except NotFoundError:
                may_be_going = False
        (going if may_be_going else others).append(target)
    return going + others


class _Start:
    """One start, and what is known of it: whether a request may have been carried out that no run shows yet."""

    def __init__(
        self, kind: Kind, target: Target, records: Records, policy: StartPolicy, clock: Callable[[], float]
    ) -> None:
        self._kind = kind
        self._target = target
        self._records = records
        self._policy = policy
        self._clock = clock
        self._key = key_of(kind.name, target)
        #: Set before a request is sent, and taken back only when that very request surely started nothing.
        self._in_doubt = False
        #: How long earlier runs took.
        self._durations: list[float] = []

    def run(self) -> Steps[Observation]:
        kept = self._records.get(self._key)
        record = Record.from_dict(kept) if kept else None
        if record is not None:
            seen = yield from self._resume(record)
            if seen is not None and _is_good(seen, self._policy):
                log.info("Going on with the run of %s that an earlier try of this task started.", self._target.name)
                return self._note(record, seen)
            if seen is not None or record.reference is not None:
                # That run has ended, and not well, or is gone: this is a fresh start.
                self._records.delete(self._key)
                record = None
        # An intent without a reference: an earlier try may have sent a request that no run shows yet.
        self._in_doubt = record is not None
        for request in self._kind.prepare(self._target):
            yield from ask(request)
        if record is None:
            newest = yield from ask(self._kind.newest(self._target.resource_id))
            record = Record(self._kind.cursor(newest), self._clock())
            self._durations = self._kind.durations(newest)
        try:
            seen = yield from self._request(record)
        except Exception:
            # Whatever it was: a record without a doubt would make a later try look for nothing.
            if not self._in_doubt:
                self._records.delete(self._key)
            raise
        return self._note(record, seen)

    def _note(self, record: Record, seen: Observation) -> Observation:
        if self._durations:
            seen = replace(seen, reference=replace(seen.reference, durations=self._durations))
        self._records.set(self._key, replace(record, reference=seen.reference).as_dict())
        return seen

    def _resume(self, record: Record) -> Steps[Observation | None]:
        """Give the run that an earlier try of the task started, if there is one."""
        if record.reference is None:
            # The earlier try ended between its intent and the answer: its request may have been carried out, or be yet.
            return (yield from self._look_for_lost(record))
        try:
            return self._kind.read(record.reference, (yield from ask(self._kind.look(record.reference))))
        except NotFoundError:
            return None

    def _request(self, record: Record) -> Steps[Observation]:
        """Send the request, and find out what became of it where the answer is lost."""
        for attempt in range(1, self._policy.attempts + 1):
            doubt_before = self._in_doubt
            # Noted before each request: from now on it may be carried out, at once or late.
            record = replace(record, intended_at=self._clock())
            self._records.set(self._key, record.as_dict())
            self._in_doubt = True
            try:
                answer = yield from ask(self._kind.request(self._target))
            except (ApiError, TransportError, ProtocolError) as error:
                if _surely_not(error):
                    self._in_doubt = doubt_before
                    if not isinstance(error, ConflictError):
                        raise
                    idle_by_now = attempt == 1 and not doubt_before and not error.active_run_id
                    if idle_by_now and (yield from self._is_idle()):
                        # Scheduled, or over by now: only asking again tells, and is turned away if it is scheduled.
                        continue
                    return (yield from self._conflict(record, error))
                # Noted again: a try after this one looks as long, though no answer came for a while.
                record = replace(record, intended_at=self._clock())
                self._records.set(self._key, record.as_dict())
                found = yield from self._look_for_lost(record)
                if found is not None:
                    return found
                if attempt == self._policy.attempts:
                    raise
            else:
                return (yield from self._accepted(record, answer))
        raise AssertionError("the last attempt returns or raises")

    def _accepted(self, record: Record, answer: Any) -> Steps[Observation]:
        """Read the answer to the request; where it says the run will appear is looked at once if that is in doubt."""
        try:
            seen = self._kind.accepted(self._target, answer)
            if seen.reference.status_url and "//" in seen.reference.status_url:
                # A whole URL may lead to another origin, which the client refuses.
                seen = self._kind.read(seen.reference, (yield from ask(self._kind.look(seen.reference))))
        except ProtocolError as error:
            # The run was asked for; it is still the first after the cursor.
            lost = self._kind.awaited(self._target, record.cursor)
            if lost is None:
                raise
            log.warning("%s The run is looked for in the list.", error)
            return Observation(lost, Outcome.SCHEDULED)
        return seen

    def _is_idle(self) -> Steps[bool]:
        """Tell whether the newest run, if there is one, is over."""
        newest = yield from ask(self._kind.newest(self._target.resource_id))
        last = self._kind.first_after(self._target, None, newest)
        return last is None or last.outcome.is_over

    def _look_for_lost(self, record: Record) -> Steps[Observation | None]:
        """
        Look for a run after the cursor, until a request would have been carried out that was sent when it was noted.

        Also where the service turns a second request away: the run of a request that is carried out late may meet a
        second one that is over by then.
        """
        until = record.intended_at + self._policy.settle
        while True:
            try:
                answer = yield from ask(self._kind.after(self._target.resource_id, record.cursor))
            except (ServerError, TransportError):
                # Not knowing is no reason to send again: what was lost may be there.
                if self._clock() >= until + self._policy.settle:
                    raise
            else:
                found = self._kind.first_after(self._target, record.cursor, answer)
                if found is not None:
                    return found
                if self._clock() >= until:
                    return None
            yield Pause(self._policy.look_interval)

    def _conflict(self, record: Record, error: ConflictError) -> Steps[Observation]:
        """Deal with a run that is going, or scheduled, already."""
        kind, target, policy = self._kind, self._target, self._policy
        if self._in_doubt and error.active_run_id:
            # After the cursor it is this task's own; before it, it is somebody else's.
            answer = yield from ask(kind.after(target.resource_id, record.cursor))
            own = kind.first_after(target, record.cursor, answer)
            if own is not None:
                return own
        newest = None if error.active_run_id else (yield from ask(kind.newest(target.resource_id)))
        reference = kind.conflict(target, error, newest)
        other = Observation(reference, Outcome.SCHEDULED)
        if self._in_doubt and not error.active_run_id:
            # Scheduled, and not to be seen yet: the request whose answer was lost was carried out.
            return replace(other, reference=replace(reference, attached=False))
        if policy.if_running is IfRunning.SKIP:
            raise RunSkipped(f"{kind.noun} {target.name} is running already ({_named(reference.run_id)}); skipped.")
        if policy.if_running is IfRunning.FAIL:
            raise RunConflictError(
                f"{kind.noun} {target.name} is running already ({_named(reference.run_id)}), and if_running says to "
                "fail. Wait for that run to end, or choose another policy."
            )
        if policy.if_running is IfRunning.WAIT or kind.needs_own_run(target):
            # A run that began before a full refresh, or a retry of records, was asked for does not do it.
            raise Blocked(other)
        return other


def _surely_not(error: ApiError | TransportError | ProtocolError) -> bool:
    """Tell whether a request that failed so surely started nothing."""
    if isinstance(error, TransportError):
        return not error.sent
    # An answer that can't be read says as little as none.
    return isinstance(error, ApiError) and not isinstance(error, ServerError)


def _is_good(seen: Observation, policy: StartPolicy) -> bool:
    """Tell whether a run is going, or has ended as well as the task wants it to."""
    if not seen.outcome.is_over or seen.outcome is Outcome.SUCCEEDED:
        return True
    failed = seen.result["rows_failed"] if seen.result and seen.outcome is Outcome.PARTIAL else None
    return failed is not None and failed <= policy.max_failed_rows


def _named(run_id: str | None) -> str:
    return f"run {run_id}" if run_id else "scheduled"
