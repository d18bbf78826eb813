"""State of the wait for one run: time of the next poll, timeouts, outcome. Pure: no I/O, and no clock of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.retry import requested_delay
from airflow_provider_datapipe.runs.backoff import counts_as_lost, delay_after
from airflow_provider_datapipe.runs.missing_runs import GRACE, MissingRun, is_missing
from airflow_provider_datapipe.runs.models import RunRef, RunResult, RunState
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.poll_interval import RunDurations, next_poll
from airflow_provider_datapipe.runs.serialization import JsonData
from airflow_provider_datapipe.runs.worker_wait import DENSE_SECONDS, is_short

#: Seconds in which a requested run, or the next slice of a load, has to appear.
SCHEDULE_LIMIT = 7200.0
_NO_HISTORY = RunDurations()
#: Seconds after the deadline in which a run still gets its last poll.
_GRACE = 10.0
#: Delay in seconds from which a poll counts as overdue (for example, because the event loop was blocked).
_OVERDUE = 30.0
#: Seconds in which an outcome equal to the state before the request is not final, because a replica can lag behind.
_STALE_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class WaitPolicy(JsonData):
    """
    Poll interval and time limits of a wait.

    :param poll_interval: fixed interval between two polls of a run, in seconds; None for an interval that depends on
        the durations of earlier runs (:mod:`.poll_interval`).
    :param deadline: time at which waiting ends, in seconds since the epoch; None for no deadline.
    :param contact_limit: seconds without an answer from the service after which the wait ends as lost contact.
    :param schedule_limit: seconds in which a requested run has to appear (interface: up to an hour for some sources).
    :param fastest: the shortest interval between two polls in seconds, if the interval is not fixed.
    :param slowest: the longest interval between two polls in seconds, if the interval is not fixed.
    :param first_interval: seconds between the first two polls of a run that may be short, doubled after each poll up to
        ``fastest``, for the first 15 s of a wait in a worker; None for no such polls.
    :param missing_grace: seconds in which the service has to answer repeatedly that a run does not exist before the
        wait ends. A lagging replica, or a connection that temporarily points to another account, answers the same.
    """

    poll_interval: float | None = None
    deadline: float | None = None
    contact_limit: float = 1800.0
    schedule_limit: float = SCHEDULE_LIMIT
    fastest: float = 1.0
    slowest: float = 60.0
    first_interval: float | None = None
    missing_grace: float = GRACE

    @property
    def last_poll_at(self) -> float | None:
        """Time of the last possible poll: shortly after the deadline, in seconds since the epoch; None for no limit."""
        return None if self.deadline is None else self.deadline + _GRACE


class WaitOutcomeReason(StrEnum):
    """Reason for the end of a wait."""

    #: The run ended.
    RUN_OVER = "run_over"
    #: The deadline passed.
    TIMEOUT = "timeout"
    #: The run did not appear within the limit.
    NOT_SCHEDULED = "not_scheduled"
    #: The service could not be reached.
    LOST_CONTACT = "lost_contact"
    #: The service answered for the whole grace period that the run does not exist.
    VANISHED = "vanished"
    #: The service refused the request for a run, or the run was not requested.
    NOT_STARTED = "not_started"
    #: Another run was active, so this one was not requested.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """
    Outcome of the wait for one run.

    :param reason: reason for the end of the wait.
    :param reference: the run.
    :param outcome: last known state of the run.
    :param result: result of the run, None if it never appeared.
    :param detail: further details for messages.
    :param records: some of the records that failed: ``record_id`` and ``error`` of each.
    :param cause: reason for which the wait for another run ended, if a run was not started because of it.
    """

    reason: WaitOutcomeReason
    reference: RunRef
    outcome: Outcome
    result: RunResult | None = None
    detail: str | None = None
    records: list[dict[str, str]] = field(default_factory=list)
    cause: WaitOutcomeReason | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"reference": self.reference.as_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> WaitOutcome:
        """Return the instance that :meth:`as_dict` serialized."""
        # A trigger of an earlier version stores neither records nor a cause.
        cause = data.get("cause")
        return cls(
            WaitOutcomeReason(data["reason"]),
            RunRef.from_dict(data["reference"]),
            Outcome(data["outcome"]),
            data["result"],
            data["detail"],
            data.get("records", []),
            None if cause is None else WaitOutcomeReason(cause),
        )


class RunWait:
    """
    The wait for one run. It takes the result of each poll and computes the time of the next one.

    Instances are small, because a triggerer can hold thousands of them.

    :param reference: the run.
    :param policy: poll interval and time limits.
    :param now: current time in seconds since the epoch.
    :param jitter: function that returns a number from 0 to 1. It spreads the polls of many waits while polls fail.
    """

    __slots__ = (
        "_early_interval",
        "_early_until",
        "_failures",
        "_history",
        "_jitter",
        "_last",
        "_missing",
        "_not_before",
        "_policy",
        "_refusal",
        "began",
        "due",
        "last_answer",
        "lost",
        "reference",
    )

    def __init__(
        self, reference: RunRef, policy: WaitPolicy, now: float, jitter: Callable[[], float] = random.random
    ) -> None:
        if reference.earlier_state is not None:
            # Keep the limit that the worker set, unless its clock is ahead.
            until = now + _STALE_LIMIT
            known = reference.stale_until
            reference = replace(reference, stale_until=until if known is None else min(known, until))
        self.reference = reference
        #: Time of the next poll, in seconds since the epoch.
        self.due = now
        self._policy = policy
        self._jitter = jitter
        #: Time of the last answer, or of the start of the wait, in seconds since the epoch.
        self.last_answer = now
        #: The failure while polls of this run alone fail, None otherwise.
        self.lost: DatapipeError | None = None
        self._failures = 0
        #: Answers that the run does not exist, None once an answer shows it.
        self._missing: MissingRun | None = None
        #: Time before which the service does not want to be polled, and the message of its refusal.
        self._not_before, self._refusal = now, ""
        self._last: RunState | None = None
        #: Start of the run, or of the wait if that is not known, in seconds since the epoch.
        self.began = now if reference.absent_since is None else reference.absent_since
        self._history = None if policy.poll_interval is not None else RunDurations.of(reference.durations)
        dense = policy.first_interval is not None and self._history is not None and is_short(reference.durations)
        #: Seconds until the next poll if the history asks for less frequent polls, and the time until which this holds.
        self._early_interval = policy.first_interval if dense else None
        self._early_until = now + DENSE_SECONDS

    @property
    def poll_after(self) -> float | None:
        """Time before which the service does not want to be polled, in seconds since the epoch; None for no limit."""
        return self._not_before if self._refusal else None

    @property
    def was_seen(self) -> bool:
        """True if a poll has returned the state of the run so far."""
        return self._last is not None

    @property
    def lost_at(self) -> float:
        """Time at which contact counts as lost unless a poll succeeds before, in seconds since the epoch."""
        return self.last_answer + self._policy.contact_limit

    @property
    def outcome(self) -> Outcome:
        """State of the run at the last poll."""
        return self._last.outcome if self._last else Outcome.SCHEDULED

    @property
    def result(self) -> RunResult | None:
        """Result of the run at the last poll, None if the run was not shown yet."""
        return self._last.result if self._last else None

    def delay_first_poll(self, now: float, longest: float) -> None:
        """
        Postpone the first poll of a run that was read when another run was requested.

        :param now: current time in seconds since the epoch.
        :param longest: the most seconds until the poll, unless the interval is fixed.
        """
        interval = self._interval(now)
        delay = interval if self._policy.poll_interval is not None else min(interval, longest)
        self.due = self._until_deadline(now + delay)

    def postpone(self, until: float) -> None:
        """
        Do not poll before the time that the service asked for. The limits of the wait apply in the meantime.

        :param until: time in seconds since the epoch.
        """
        if until <= self.due:
            return
        self._not_before = until
        self._refusal = "The service asked for a pause before the wait was resumed."
        self.due = self._until_deadline(min(until, self.lost_at))

    def silence(self, now: float) -> float:
        """Return the seconds since the last answer if polls have failed or are overdue, otherwise 0."""
        return now - self.last_answer if self._failures or now > self.due + _OVERDUE else 0.0

    def seen(self, state: RunState, now: float, was_due: float | None = None) -> WaitOutcome | None:
        """
        Process the answer to a poll. Return the outcome of the wait, or None if it continues.

        :param state: state of the run in the answer.
        :param now: current time in seconds since the epoch.
        :param was_due: time at which the poll was due, from which the next interval is counted; None for ``now``.
        """
        self._record_contact(now)
        # After a slice of a load, the next run may not be listed yet: keep the result of the slice.
        known = state.result or (self._last.result if self._last else None)
        self._last = replace(state, result=known)
        absent = state.result is None
        since = self.reference.absent_since
        self.reference = replace(state.reference, absent_since=None if not absent else now if since is None else since)
        started = known and known["started_at"]
        if started:
            self.began = datetime.fromisoformat(started).timestamp()
        if state.outcome.is_over:
            if state.is_final or now >= (self.reference.stale_until or 0.0):
                return self._end(WaitOutcomeReason.RUN_OVER)
            self._last = replace(self._last, outcome=Outcome.RUNNING)
        if absent and since is not None and now >= since + self._policy.schedule_limit:
            return self._not_scheduled(now - since)
        return self._schedule_poll(now, self._seconds_until_poll(now, was_due))

    def unchanged(self, now: float, was_due: float | None = None) -> WaitOutcome | None:
        """Process a poll without a change. Equivalent to :meth:`seen` with the last state, but cheaper."""
        self._record_contact(now)
        since = self.reference.absent_since
        if since is not None and now >= since + self._policy.schedule_limit:
            return self._not_scheduled(now - since)
        return self._schedule_poll(now, self._seconds_until_poll(now, was_due))

    def failed(self, error: DatapipeError, now: float, *, slow_down: bool = True) -> WaitOutcome | None:
        """
        Process a failed poll. Return the outcome of the wait, or None if it continues.

        :param error: the failure.
        :param now: current time in seconds since the epoch.
        :param slow_down: True to increase the interval with each failure. False if the backoff of the connection
            applies instead.
        """
        if is_missing(error):
            return self._not_found(error, now)
        if end := self.unreachable(error, now):
            return end
        delay = interval = self._interval(now)
        if slow_down:
            self._failures += 1
            if counts_as_lost(self._failures, self.last_answer if self.was_seen else None, now):
                self.lost = error
            delay = delay_after(self._failures, interval, self._jitter())
        retry_after = requested_delay(error)
        if retry_after is not None:
            # Do not poll before the time that the service asks for.
            delay = max(delay, retry_after)
            self._not_before, self._refusal = now + retry_after, str(error)
        end = self._schedule_poll(now, delay)
        self.due = min(self.due, self.lost_at)
        return end

    def _record_contact(self, now: float) -> None:
        self.last_answer = now
        self._failures, self.lost = 0, None
        self._missing = None

    def _not_found(self, error: DatapipeError, now: float) -> WaitOutcome | None:
        """Count an answer that the run does not exist. Return the outcome of the wait after the grace period."""
        # The service can be reached, so this is not a loss of contact.
        self.last_answer = now
        self._failures, self.lost = 0, None
        missing = self._missing = self._missing or MissingRun(self._policy.missing_grace, now)
        if missing.is_final(now):
            return self._end(WaitOutcomeReason.VANISHED, f"{missing.summary(now)}, the last: {error}")
        return self._schedule_poll(now, missing.pause(now, self._jitter()))

    def unreachable(self, error: DatapipeError, now: float) -> WaitOutcome | None:
        """Return the outcome of the wait if the service has been unreachable for longer than the limit, else None."""
        if now < self.lost_at:
            return None
        return self._end(WaitOutcomeReason.LOST_CONTACT, f"for {now - self.last_answer:.0f} s.\n{error}")

    def expired(self, now: float) -> WaitOutcome | None:
        """
        Return the outcome of a wait that is due but must not poll again, else None.

        The grace period after its deadline is over, or the service asked for a pause beyond one of its limits.
        """
        deadline, last_poll_at = self._policy.deadline, self._policy.last_poll_at
        if last_poll_at is not None and now >= last_poll_at:
            return self._end(WaitOutcomeReason.TIMEOUT)
        if self._not_before <= max(self.due, now):
            return None
        if deadline is not None and self.due >= deadline:
            return self._end(WaitOutcomeReason.TIMEOUT)
        return self._end(WaitOutcomeReason.LOST_CONTACT, f"for {now - self.last_answer:.0f} s.\n{self._refusal}")

    def _seconds_until_poll(self, now: float, was_due: float | None) -> float:
        """Return the seconds until the next poll."""
        # A list is polled when its first run is due. This run may have been due later, or is not due yet.
        late = 0.0 if was_due is None else max(0.0, now - max(was_due, self.due))
        if late > _OVERDUE:
            # All polls were late. Catching up would poll each run twice.
            late = 0.0
        interval = self._interval(now)
        if self._early_interval is not None and now < self._early_until:
            interval = min(interval, self._early_interval)
            self._early_interval = min(self._early_interval * 2, self._policy.fastest)
        return max(interval - late, 0.0)

    def _interval(self, now: float) -> float:
        policy = self._policy
        if policy.poll_interval is not None:
            return policy.poll_interval
        # The durations of earlier runs do not predict the time until a run begins.
        history = self._history if self._history and self.reference.absent_since is None else _NO_HISTORY
        return next_poll(now - self.began, history, fastest=policy.fastest, slowest=policy.slowest)

    def _schedule_poll(self, now: float, delay: float) -> WaitOutcome | None:
        deadline = self._policy.deadline
        if deadline is not None and now >= deadline:
            return self._end(WaitOutcomeReason.TIMEOUT)
        self.due = self._until_deadline(now + delay)
        return None

    def _until_deadline(self, due: float) -> float:
        """Return the time of a poll, at most the deadline."""
        return due if self._policy.deadline is None else min(due, self._policy.deadline)

    def _not_scheduled(self, waited: float) -> WaitOutcome:
        return self._end(WaitOutcomeReason.NOT_SCHEDULED, f"for {waited:.0f} s")

    def _end(self, reason: WaitOutcomeReason, detail: str | None = None) -> WaitOutcome:
        last = self._last
        return WaitOutcome(
            reason,
            self.reference,
            last.outcome if last else Outcome.SCHEDULED,
            last.result if last else None,
            detail,
        )
