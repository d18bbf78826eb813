"""When to look at a run again, and when to give up: decisions, apart from I/O and clocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.retry import honored
from airflow_provider_datapipe.runs.missing import GRACE, Missing, is_missing
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.pace import History, next_look
from airflow_provider_datapipe.runs.reference import Observation, Reference, RunResult

#: The most seconds between two looks at a service that fails.
_LONGEST_BACKOFF = 300.0
_NOTHING_KNOWN = History()
#: Seconds after the deadline in which runs still get their last look.
_GRACE = 10.0
#: Seconds from which a look that is late was held up.
_HELD_UP = 30.0
#: Seconds for which an outcome is not taken as final that may be the one before the request: a replica may lag.
_STALE_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """
    How patient a wait is.

    :param poll_interval: seconds between two looks at a run; None for what its history says (:mod:`.pace`).
    :param deadline: when waiting ends, as seconds since the epoch; None for never.
    :param contact_limit: seconds without an answer of the service after which contact counts as lost.
    :param schedule_limit: seconds in which a requested run has to appear (interface: up to an hour for some sources).
    :param fastest: the least seconds between two looks, where there is no fixed interval.
    :param slowest: the most.
    :param missing_grace: seconds in which the service has to answer repeatedly that a run does not exist before the
        wait ends. A lagging replica, or a connection that names another account for a moment, answers so, too.
    """

    poll_interval: float | None = None
    deadline: float | None = None
    contact_limit: float = 1800.0
    schedule_limit: float = 7200.0
    fastest: float = 2.0
    slowest: float = 60.0
    missing_grace: float = GRACE

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)


class EndReason(StrEnum):
    """Why a wait is over."""

    #: The run ended.
    RUN_OVER = "run_over"
    #: The deadline passed.
    TIMEOUT = "timeout"
    #: The run never appeared.
    NOT_SCHEDULED = "not_scheduled"
    #: The service could not be asked.
    LOST_CONTACT = "lost_contact"
    #: The service answered for the whole grace period that the run does not exist.
    VANISHED = "vanished"
    #: The service refused the request for a run.
    NOT_STARTED = "not_started"
    #: Another run was going, and this one was not asked for.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class End:
    """
    How the wait for one run ended.

    :param reason: why it is over.
    :param reference: which run.
    :param outcome: where the run stood.
    :param result: what is known of the run, None if it never appeared.
    :param detail: what else is known, for people.
    :param records: some of the records that failed: ``record_id`` and ``error`` of each.
    """

    reason: EndReason
    reference: Reference
    outcome: Outcome
    result: RunResult | None = None
    detail: str | None = None
    records: list[dict[str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> End:
        """Read what :meth:`as_dict` gave."""
        return cls(
            EndReason(data["reason"]),
            Reference(**data["reference"]),
            Outcome(data["outcome"]),
            data["result"],
            data["detail"],
            # A trigger of an earlier version has none.
            data.get("records", []),
        )


class Watch:
    """
    The wait for one run: is told what was seen, and says when to look again.

    One that stays still for long is cheap: thousands of them wait in a triggerer.

    :param reference: which run.
    :param policy: how patient to be.
    :param now: seconds since the epoch.
    :param jitter: gives a number from 0 to 1, which spreads the looks of many watches at a service that fails.
    """

    __slots__ = (
        "_began",
        "_contact",
        "_failures",
        "_history",
        "_jitter",
        "_last",
        "_missing",
        "_not_before",
        "_policy",
        "_refusal",
        "_stale_until",
        "due",
        "reference",
    )

    def __init__(
        self, reference: Reference, policy: WaitPolicy, now: float, jitter: Callable[[], float] = random.random
    ) -> None:
        self.reference = reference
        #: When to look next.
        self.due = now
        self._policy = policy
        self._jitter = jitter
        self._contact = now
        self._stale_until = now + _STALE_LIMIT
        self._failures = 0
        #: Answers that the run does not exist, None once an answer shows it.
        self._missing: Missing | None = None
        #: Before this time the service does not want to be asked; and what it said.
        self._not_before, self._refusal = now, ""
        self._last: Observation | None = None
        # When the run began, as far as that is known.
        self._began = now if reference.absent_since is None else reference.absent_since
        self._history = None if policy.poll_interval is not None else History.from_json(reference.durations)

    @property
    def was_seen(self) -> bool:
        """Whether the service has answered so far."""
        return self._last is not None

    @property
    def lost_at(self) -> float:
        """When contact counts as lost, if no look succeeds until then."""
        return self._contact + self._policy.contact_limit

    @property
    def outcome(self) -> Outcome:
        """Where the run stood at the last look."""
        return self._last.outcome if self._last else Outcome.SCHEDULED

    @property
    def result(self) -> RunResult | None:
        """What the last look showed of the run."""
        return self._last.result if self._last else None

    @property
    def began(self) -> float:
        """When the run began, or, as long as that is not known, the wait for it."""
        return self._began

    def silence(self, now: float) -> float:
        """Give the seconds for which looks have failed, or were due and not made."""
        return now - self._contact if self._failures or now > self.due + _HELD_UP else 0.0

    def seen(self, observation: Observation, now: float, was_due: float | None = None) -> End | None:
        """
        Take an answer; give the end, or None when there is more to wait for.

        :param observation: what the answer shows.
        :param now: seconds since the epoch.
        :param was_due: when the look was to be made, from which the next one is counted; None for now.
        """
        self._note_shown(now)
        # A slice of a load that goes on is known, while the run after it is not yet.
        known = observation.result or (self._last.result if self._last else None)
        self._last = replace(observation, result=known)
        absent = observation.result is None
        since = self.reference.absent_since
        self.reference = replace(
            observation.reference, absent_since=None if not absent else now if since is None else since
        )
        started = known and known["started_at"]
        if started:
            self._began = datetime.fromisoformat(started).timestamp()
        if observation.outcome.is_over:
            if observation.is_final or now >= self._stale_until:
                return self._end(EndReason.RUN_OVER)
            self._last = replace(self._last, outcome=Outcome.RUNNING)
        if absent and since is not None and now >= since + self._policy.schedule_limit:
            return self._not_scheduled(now - since)
        return self._again(now, self._next_look(now, was_due))

    def unchanged(self, now: float, was_due: float | None = None) -> End | None:
        """Take word that the run stands where it stood when it was last seen: :meth:`seen`, for less."""
        self._note_shown(now)
        since = self.reference.absent_since
        if since is not None and now >= since + self._policy.schedule_limit:
            return self._not_scheduled(now - since)
        return self._again(now, self._next_look(now, was_due))

    def failed(self, error: DatapipeError, now: float, *, rarer: bool = True) -> End | None:
        """
        Take a look that failed; give the end, or None when it is to be tried again.

        :param error: why.
        :param now: seconds since the epoch.
        :param rarer: whether to look ever more rarely; not where the whole connection is slowed down already.
        """
        if is_missing(error):
            return self._not_found(error, now)
        if end := self.unreachable(error, now):
            return end
        delay = interval = self._interval(now)
        if rarer:
            self._failures += 1
            backoff = min(_LONGEST_BACKOFF, interval * 2 ** min(self._failures - 1, 10))
            delay = max(interval, backoff * (0.5 + self._jitter() / 2))
        asked = honored(error)
        if asked is not None:
            # Never earlier than the service asks for.
            delay = max(delay, asked)
            self._not_before, self._refusal = now + asked, str(error)
        end = self._again(now, delay)
        self.due = min(self.due, self.lost_at)
        return end

    def _note_shown(self, now: float) -> None:
        self._contact = now
        self._failures = 0
        self._missing = None

    def _not_found(self, error: DatapipeError, now: float) -> End | None:
        """Count an answer that the run does not exist. Return the end after the grace period."""
        # The service can be reached, so this is no loss of contact.
        self._contact = now
        self._failures = 0
        missing = self._missing = self._missing or Missing(self._policy.missing_grace, now)
        if missing.is_final(now):
            return self._end(EndReason.VANISHED, f"{missing.summary(now)}, the last: {error}")
        return self._again(now, missing.pause(now, self._jitter()))

    def unreachable(self, error: DatapipeError, now: float) -> End | None:
        """Take word that no run of this connection can be looked at; give the end when that has lasted too long."""
        if now < self.lost_at:
            return None
        return self._end(EndReason.LOST_CONTACT, f"for {now - self._contact:.0f} s: {error}")

    def expired(self, now: float) -> End | None:
        """
        Give the end of a watch that is due but gets no last look.

        It is past its deadline by too much, or the service asked for more patience than a limit leaves.
        """
        deadline = self._policy.deadline
        if deadline is not None and now >= deadline + _GRACE:
            return self._end(EndReason.TIMEOUT)
        if self._not_before <= max(self.due, now):
            return None
        if deadline is not None and self.due >= deadline:
            return self._end(EndReason.TIMEOUT)
        return self._end(EndReason.LOST_CONTACT, f"for {now - self._contact:.0f} s: {self._refusal}")

    def _next_look(self, now: float, was_due: float | None) -> float:
        """Give the seconds until the next look."""
        # A list is due when its first run is: this run may have been due later, or not yet.
        late = 0.0 if was_due is None else max(0.0, now - max(was_due, self.due))
        if late > _HELD_UP:
            # Not a slow answer: all were held up, and need not be looked at twice for it.
            late = 0.0
        return max(self._interval(now) - late, 0.0)

    def _interval(self, now: float) -> float:
        policy = self._policy
        if policy.poll_interval is not None:
            return policy.poll_interval
        # What earlier runs took says nothing of how long it takes until a run begins.
        history = self._history if self._history and self.reference.absent_since is None else _NOTHING_KNOWN
        return next_look(now - self._began, history, fastest=policy.fastest, slowest=policy.slowest)

    def _again(self, now: float, delay: float) -> End | None:
        deadline = self._policy.deadline
        if deadline is not None and now >= deadline:
            return self._end(EndReason.TIMEOUT)
        self.due = now + delay
        if deadline is not None:
            self.due = min(self.due, deadline)
        return None

    def _not_scheduled(self, waited: float) -> End:
        return self._end(EndReason.NOT_SCHEDULED, f"for {waited:.0f} s")

    def _end(self, reason: EndReason, detail: str | None = None) -> End:
        last = self._last
        return End(
            reason,
            self.reference,
            last.outcome if last else Outcome.SCHEDULED,
            last.result if last else None,
            detail,
        )
