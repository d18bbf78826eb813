"""
Batches of runs of one kind that a task starts and waits for together. A single run is a batch of one.

:mod:`.batch_wait` waits for the started runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.runs.conflicts import ActiveRunConflict, RunSkipped
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.start import StartPolicy, start
from airflow_provider_datapipe.runs.task_state import StartRecord, TaskState, task_state_key
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
    :param note: additional state of the task, as JSON.
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
        return self.has_room_for(self._active_count)

    def has_room_for(self, active: int) -> bool:
        """Return True if a queued run may be started in addition to a number of active runs."""
        return bool(self.queued) and (self.at_a_time is None or active + self.lost < self.at_a_time)

    @property
    def lost(self) -> int:
        """Number of runs that may be active, although the wait for them has ended."""
        return sum(end.reason is WaitOutcomeReason.LOST_CONTACT for end in self.ended)

    @property
    def is_over(self) -> bool:
        """True if no run is left to start or to wait for."""
        return not self.queued and not self._active_count

    @property
    def _active_count(self) -> int:
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

    def mark_not_started(self, targets: list[RunTarget], reason: str) -> None:
        """
        Record the outcome "not started" for targets that were not requested, and remove them from the queue.

        :param targets: the targets.
        :param reason: reason for messages.
        """
        detail = f"not requested: {reason}"
        self.ended += [
            _not_started(self, target, WaitOutcomeReason.NOT_STARTED, Outcome.SCHEDULED, detail) for target in targets
        ]
        self.queued = [target for target in self.queued if target not in targets]


async def start_queued(
    batch: Batch, task_state: TaskState, policy: StartPolicy, *, alone: bool, clock: Callable[[], float] = time.time
) -> None:
    """
    Start queued runs, up to the limit of the batch.

    :param batch: the batch, which is changed in place.
    :param task_state: stored state of earlier tries of the task.
    :param policy: policy for starting runs.
    :param alone: True if the batch is a single run: errors and skips are raised. False to store the refusal of a run
        as the outcome of this run.
    :param clock: function that returns the current time in seconds since the epoch.
    :raises RunSkipped: if another run is active, and ``if_running`` is ``skip``.
    :raises DatapipeError: if the service cannot be reached, or does not accept the key.
    """
    kind = KINDS[batch.kind]
    while batch.has_room:
        target = batch.queued[0]
        try:
            state = await start(kind, target, task_state, policy, clock)
        except ActiveRunConflict as blocked:
            batch.blocked.append(WaitingForOtherRun(blocked.run_state.reference, target))
        except DatapipeError as error:
            affects_others = not isinstance(error, InvalidRequestError | NotFoundError | RunConflictError)
            if alone or (affects_others and not batch.waiting and not batch.ended):
                raise
            batch.ended.append(_not_started(batch, target, WaitOutcomeReason.NOT_STARTED, Outcome.FAILED, str(error)))
            if affects_others:
                # The other requests would fail as well. Wait for the runs that were started.
                batch.mark_not_started(batch.queued[1:], "the one before it could not be started")
        except RunSkipped as skipped:
            if alone:
                raise
            batch.ended.append(_not_started(batch, target, WaitOutcomeReason.SKIPPED, Outcome.SKIPPED, str(skipped)))
        else:
            batch.add(state)
        # Remove the target last: if the code above raises, a retry finds it in the queue.
        batch.queued.pop(0)


def _not_started(
    batch: Batch, target: RunTarget, reason: WaitOutcomeReason, outcome: Outcome, detail: str
) -> WaitOutcome:
    return WaitOutcome(reason, RunRef.to(batch.kind, target), outcome, detail=detail)


def finalize_task_state(batch: Batch, task_state: TaskState, failed: list[WaitOutcome], *, succeeded: bool) -> None:
    """
    Update the stored state of the task for later tries.

    A task that succeeds closes its records. If it is cleared, it runs again; if it is killed before Airflow stores its
    success, the retry continues with the finished runs. A task that fails keeps the records of runs that may be active,
    of runs that have succeeded, and of requests whose result is not known, so that a retry starts only the failed runs.
    It also keeps the record of a run that the service no longer knows: the retry verifies it.

    :param batch: the batch, in which all runs have ended.
    :param failed: outcomes that the task counts as failures.
    :param succeeded: True if the task succeeds.
    """
    for end in batch.ended:
        key = task_state_key(batch.kind, RunTarget(end.reference.resource_id, end.reference.name))
        if succeeded:
            task_state.close(key)
        elif end in failed and end.reason is WaitOutcomeReason.RUN_OVER:
            task_state.delete(key)
        elif end.reason is WaitOutcomeReason.NOT_SCHEDULED and (kept := task_state.get(key)):
            # The retry checks once if the run was scheduled since. If not, it requests a run.
            task_state.set(key, replace(StartRecord.from_dict(kept), reference=None).as_dict())
