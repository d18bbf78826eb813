"""When to look at a run again, and when to give up: decisions, apart from I/O and clocks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Observation, Reference, RunResult


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """
    How patient a wait is.

    :param poll_interval: seconds between two looks at a run.
    :param deadline: when waiting ends, as seconds since the epoch; None for never.
    :param contact_limit: seconds without an answer of the service after which contact counts as lost.
    :param schedule_limit: seconds in which a requested run has to appear (interface: up to an hour for some sources).
    """

    poll_interval: float = 15.0
    deadline: float | None = None
    contact_limit: float = 1800.0
    schedule_limit: float = 7200.0

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
    #: The service no longer knows the run.
    VANISHED = "vanished"
    #: The service refused the request for a run.
    NOT_STARTED = "not_started"
    #: Another run was going, and this one was not asked for.
    SKIPPED = "skipped"

    @property
    def leaves_run_open(self) -> bool:
        """Whether the run may still be going, so that a later try goes on with it."""
        return self in (EndReason.TIMEOUT, EndReason.NOT_SCHEDULED, EndReason.LOST_CONTACT)


@dataclass(frozen=True, slots=True)
class End:
    """
    How the wait for one run ended.

    :param reason: why it is over.
    :param reference: which run.
    :param outcome: where the run stood.
    :param result: what is known of the run, None if it never appeared.
    :param detail: what else is known, for people.
    """

    reason: EndReason
    reference: Reference
    outcome: Outcome
    result: RunResult | None = None
    detail: str | None = None

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
        )


class Watch:
    """
    The wait for one run: is told what was seen, and says when to look again.

    :param reference: which run.
    :param policy: how patient to be.
    :param now: seconds since the epoch.
    """

    def __init__(self, reference: Reference, policy: WaitPolicy, now: float) -> None:
        self.reference = reference
        #: When to look next.
        self.due = now
        self._policy = policy
        self._contact = now
        #: Since when a run that was asked for has not appeared.
        self._absent: float | None = None
        self._last: Observation | None = None

    def seen(self, observation: Observation, now: float) -> End | None:
        """Take an answer; give the end, or None when there is more to wait for."""
        self._contact = now
        self._last = observation
        self.reference = observation.reference
        if observation.outcome.is_over:
            return self._end(EndReason.RUN_OVER)
        if observation.result is not None:
            self._absent = None
        elif self._absent is None:
            self._absent = now
        elif now >= self._absent + self._policy.schedule_limit:
            return self._end(EndReason.NOT_SCHEDULED, f"for {now - self._absent:.0f} s")
        return self._again(now)

    def failed(self, error: DatapipeError, now: float) -> End | None:
        """Take a look that failed; give the end, or None when it is to be tried again."""
        if isinstance(error, NotFoundError | InvalidRequestError):
            return self._end(EndReason.VANISHED, str(error))
        if now >= self._contact + self._policy.contact_limit:
            return self._end(EndReason.LOST_CONTACT, f"for {now - self._contact:.0f} s: {error}")
        return self._again(now)

    def _again(self, now: float) -> End | None:
        deadline = self._policy.deadline
        if deadline is not None and now >= deadline:
            return self._end(EndReason.TIMEOUT)
        self.due = now + self._policy.poll_interval
        if deadline is not None:
            self.due = min(self.due, deadline)
        return None

    def _end(self, reason: EndReason, detail: str | None = None) -> End:
        last = self._last
        return End(
            reason,
            self.reference,
            last.outcome if last else Outcome.SCHEDULED,
            last.result if last else None,
            detail,
        )
