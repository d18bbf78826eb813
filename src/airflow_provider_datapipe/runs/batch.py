"""Batches of runs of one kind that a task starts and waits for together. A single run is a batch of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason


@dataclass(frozen=True, slots=True)
class WaitingForOtherRun:
    """
    A run that cannot start before another run has ended.

    :param by: the other run.
    :param target: the resource to run afterwards.
    """

    by: RunRef
    target: RunTarget


@dataclass(slots=True)
class Batch:
    """
    State of a batch. It can be serialized to JSON, to pass it to a trigger and back.

    :param kind: name of the kind of run.
    :param queued: resources whose runs are not started yet, in order.
    :param waiting: active runs.
    :param blocked: resources whose runs start when another run has ended.
    :param ended: outcomes of the runs that have ended, in the order in which they ended.
    :param at_a_time: the most runs that are active at a time; None for no limit.
    :param note: further state of the task, as JSON.
    :param lost_since: time of a loss of contact that was logged, as seconds since the epoch; None if there is contact.
    :param poll_after: time before which the service does not want to be polled, in seconds since the epoch; None for no
        limit.
    """

    kind: str
    queued: list[RunTarget] = field(default_factory=list)
    waiting: list[RunRef] = field(default_factory=list)
    blocked: list[WaitingForOtherRun] = field(default_factory=list)
    ended: list[WaitOutcome] = field(default_factory=list)
    at_a_time: int | None = None
    note: dict[str, Any] = field(default_factory=dict)
    lost_since: float | None = None
    poll_after: float | None = None

    @property
    def references(self) -> list[RunRef]:
        """The started runs: the active ones, then those that have ended."""
        return [*self.waiting, *(end.reference for end in self.ended)]

    @property
    def resources(self) -> list[RunRef | RunTarget]:
        """The resources whose runs have started, then the other ones."""
        return [*self.references, *self.queued, *(blocked.target for blocked in self.blocked)]

    @property
    def has_room(self) -> bool:
        """True if a queued run may be started now."""
        return self.has_room_beside(self._under_way)

    def has_room_beside(self, under_way: int) -> bool:
        """Return True if a queued run may be started beside a number of active runs."""
        return bool(self.queued) and (self.at_a_time is None or under_way < self.at_a_time)

    @property
    def is_over(self) -> bool:
        """True if no run is left to start or to wait for."""
        return not self.queued and not self._under_way

    @property
    def _under_way(self) -> int:
        return len(self.waiting) + len(self.blocked)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "queued": [target.as_dict() for target in self.queued],
            "waiting": [reference.as_dict() for reference in self.waiting],
            "blocked": [{"by": each.by.as_dict(), "target": each.target.as_dict()} for each in self.blocked],
            "ended": [end.as_dict() for end in self.ended],
            "at_a_time": self.at_a_time,
            "note": self.note,
            "lost_since": self.lost_since,
            "poll_after": self.poll_after,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Batch:
        """Return the batch that :meth:`as_dict` serialized."""
        return cls(
            data["kind"],
            [RunTarget.from_dict(target) for target in data["queued"]],
            [RunRef.from_dict(reference) for reference in data["waiting"]],
            [
                WaitingForOtherRun(RunRef.from_dict(each["by"]), RunTarget.from_dict(each["target"]))
                for each in data["blocked"]
            ],
            [WaitOutcome.from_dict(end) for end in data["ended"]],
            data["at_a_time"],
            # A trigger of an earlier version does not store these.
            data.get("note", {}),
            data.get("lost_since"),
            data.get("poll_after"),
        )

    def add(self, state: RunState) -> None:
        """Add a run that was started."""
        if state.is_final:
            outcome = WaitOutcome(WaitOutcomeReason.RUN_OVER, state.reference, state.outcome, state.result)
            self.ended.append(outcome)
        else:
            self.waiting.append(state.reference)

    def give_up(self, targets: list[RunTarget], reason: str) -> None:
        """
        Record the outcome "not started" for targets that were not requested, and remove them from the queue.

        :param targets: the targets.
        :param reason: reason for messages.
        """
        for target in targets:
            reference = RunRef.to(self.kind, target)
            detail = f"not requested: {reason}"
            self.ended.append(WaitOutcome(WaitOutcomeReason.NOT_STARTED, reference, Outcome.SCHEDULED, detail=detail))
        self.queued = [target for target in self.queued if target not in targets]
