"""Several runs of one kind, started and waited for together. One run is a batch of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.runs.conflicts import Blocked, RunSkipped
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.looks import Looks
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.progress import Progress, Tell
from airflow_provider_datapipe.runs.records import Record, Records, key_of
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target
from airflow_provider_datapipe.runs.start import StartPolicy, start
from airflow_provider_datapipe.runs.steps import Pause, Steps, ask
from airflow_provider_datapipe.runs.wait import End, EndReason, WaitPolicy, Watch

#: Seconds that a wait pauses at the least, so that no rounding makes it spin.
_SHORTEST_PAUSE = 0.001
#: Seconds until the first poll of a run that is in the way.
_BLOCKED_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Hindered:
    """
    A run that can't be started before another one has ended.

    :param by: that other run.
    :param target: what is to be run then.
    """

    by: Reference
    target: Target


@dataclass(slots=True)
class Batch:
    """
    Where a batch stands; fits into JSON, so that it can go through a trigger and back.

    :param kind: name of the kind of run.
    :param queued: what is not started yet, in order.
    :param waiting: the runs that are waited for.
    :param hindered: what is started when another run has ended.
    :param ended: the runs that have ended, in the order in which they did.
    :param at_a_time: the most runs that are waited for at a time; None for all.
    :param note: what else the task has to know when it goes on; JSON.
    """

    kind: str
    queued: list[Target] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)
    hindered: list[Hindered] = field(default_factory=list)
    ended: list[End] = field(default_factory=list)
    at_a_time: int | None = None
    note: dict[str, Any] = field(default_factory=dict)

    @property
    def has_room(self) -> bool:
        """Whether something is queued and may be started."""
        return self.has_room_beside(self._under_way)

    def has_room_beside(self, under_way: int) -> bool:
        """Tell whether something is queued and may be started while so many runs are waited for."""
        return bool(self.queued) and (self.at_a_time is None or under_way < self.at_a_time)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to start or to wait for."""
        return not self.queued and not self._under_way

    @property
    def _under_way(self) -> int:
        return len(self.waiting) + len(self.hindered)

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return {
            "kind": self.kind,
            "queued": [target.as_dict() for target in self.queued],
            "waiting": [reference.as_dict() for reference in self.waiting],
            "hindered": [{"by": each.by.as_dict(), "target": each.target.as_dict()} for each in self.hindered],
            "ended": [end.as_dict() for end in self.ended],
            "at_a_time": self.at_a_time,
            "note": self.note,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Batch:
        """Read what :meth:`as_dict` gave."""
        return cls(
            data["kind"],
            [Target(**target) for target in data["queued"]],
            [Reference(**reference) for reference in data["waiting"]],
            [Hindered(Reference(**each["by"]), Target(**each["target"])) for each in data["hindered"]],
            [End.from_dict(end) for end in data["ended"]],
            data["at_a_time"],
            # A trigger of an earlier version has none.
            data.get("note", {}),
        )


def start_queued(
    batch: Batch,
    records: Records,
    policy: StartPolicy,
    *,
    alone: bool,
    clock: Callable[[], float] = time.time,
) -> Steps[None]:
    """
    Start what is queued, as far as there is room.

    :param batch: is changed in place.
    :param records: what earlier tries of this task have left.
    :param policy: how runs are started.
    :param alone: whether the batch stands for one run: what prevents it is raised then. Otherwise a run that the
        service refuses is an end among others.
    :param clock: gives seconds since the epoch.
    :raises RunSkipped: another run is going, and the task is to be skipped.
    :raises DatapipeError: the service could not be reached, or does not accept the key.
    """
    kind = KINDS[batch.kind]
    while batch.has_room:
        target = batch.queued[0]
        reference = Reference.to(batch.kind, target)
        try:
            seen = yield from start(kind, target, records, policy, clock)
        except Blocked as blocked:
            batch.hindered.append(Hindered(blocked.observation.reference, target))
        except DatapipeError as error:
            about_others = not isinstance(error, InvalidRequestError | NotFoundError | RunConflictError)
            if alone or (about_others and not batch.waiting and not batch.ended):
                raise
            batch.ended.append(End(EndReason.NOT_STARTED, reference, Outcome.FAILED, detail=str(error)))
            if about_others:
                # A service that is down, or refuses the key, does so for the rest. What was started is waited for.
                _give_up_queue(batch, batch.queued[1:], "the one before it could not be started")
        except RunSkipped as skipped:
            if alone:
                raise
            batch.ended.append(End(EndReason.SKIPPED, reference, Outcome.SKIPPED, detail=str(skipped)))
        else:
            _sort_in(batch, seen)
        # Only now: a failure above leaves the target where a retry finds it.
        batch.queued.pop(0)


def _give_up_queue(batch: Batch, targets: list[Target], reason: str) -> None:
    """End what was not started: nothing was asked of the service for it."""
    for target in targets:
        reference = Reference.to(batch.kind, target)
        batch.ended.append(End(EndReason.NOT_STARTED, reference, Outcome.SCHEDULED, detail=f"not asked for: {reason}"))
    batch.queued = [target for target in batch.queued if target not in targets]


def _sort_in(batch: Batch, seen: Observation) -> None:
    if seen.is_final:
        batch.ended.append(End(EndReason.RUN_OVER, seen.reference, seen.outcome, seen.result))
    else:
        batch.waiting.append(seen.reference)


class BatchWait:
    """
    The wait for some of the runs of a batch: until more can be started, or, with nothing queued, for all.

    :param batch: is changed in place.
    :param policy: how patient to be.
    :param now: seconds since the epoch.
    """

    __slots__ = ("_batch", "_targets", "size")

    def __init__(self, batch: Batch, policy: WaitPolicy, now: float) -> None:
        self._batch = batch
        #: How many runs there are in all.
        self.size = len(batch.queued) + len(batch.waiting) + len(batch.hindered) + len(batch.ended)
        #: What is started when a run has ended that is in its way; None for the batch's own runs.
        self._targets: dict[Watch, Target | None] = {Watch(reference, policy, now): None for reference in batch.waiting}
        for each in batch.hindered:
            watch = Watch(each.by, policy, now)
            # The start has just read it. Replicas that disagree must not cause a loop without a pause.
            watch.due = now + (_BLOCKED_PAUSE if policy.poll_interval is None else policy.poll_interval)
            self._targets[watch] = each.target

    @property
    def watches(self) -> list[Watch]:
        """The runs that are waited for."""
        return list(self._targets)

    @property
    def ended(self) -> int:
        """How many runs have ended."""
        return len(self._batch.ended)

    @property
    def queued(self) -> int:
        """How many runs are started later."""
        return len(self._batch.queued)

    @property
    def is_over(self) -> bool:
        """Whether there is something else to do than to wait."""
        # The batch itself knows of those that have ended only when it is settled.
        return not self._targets or self._batch.has_room_beside(len(self._targets))

    def take(self, watch: Watch, end: End) -> list[Watch]:
        """Take the end of the wait for one run, and give those that are then waited for no longer."""
        if watch not in self._targets:
            return []
        batch, hindered = self._batch, self._targets.pop(watch)
        in_vain = end.reason in (EndReason.TIMEOUT, EndReason.LOST_CONTACT)
        if hindered is None:
            batch.ended.append(end)
        elif in_vain:
            reference = Reference.to(batch.kind, hindered)
            detail = f"the run before it, {end.reference.run_id}, was waited for in vain ({end.reason})"
            batch.ended.append(End(EndReason.NOT_STARTED, reference, Outcome.FAILED, detail=detail))
        else:
            # However that run has ended: the way is free.
            batch.queued.insert(0, hindered)
        if not in_vain:
            return []
        # Whatever is started now would not be waited for.
        others = {watch: target for watch, target in self._targets.items() if target}
        reason = f"another run was waited for in vain ({end.reason})"
        _give_up_queue(batch, [*batch.queued, *others.values()], reason)
        for other in others:
            del self._targets[other]
        return list(others)

    def settle(self) -> None:
        """Write into the batch what is known of the runs that have not ended."""
        batch = self._batch
        batch.waiting = [watch.reference for watch, target in self._targets.items() if target is None]
        batch.hindered = [Hindered(watch.reference, target) for watch, target in self._targets.items() if target]


def wait_for_some(
    batch: Batch, policy: WaitPolicy, clock: Callable[[], float] = time.time, tell: Tell | None = None
) -> Steps[None]:
    """
    Wait until something more can be started, or, with nothing queued, until every run has ended.

    :param batch: is changed in place.
    :param policy: how patient to be.
    :param clock: gives seconds since the epoch.
    :param tell: is told now and then how far it is.
    """
    wait = BatchWait(batch, policy, clock())
    progress = Progress(wait, clock(), 0.0)
    looks = Looks()
    for watch in wait.watches:
        looks.add(watch)
    while not wait.is_over:
        ends = looks.overdue(clock())
        look = None if ends else looks.next(clock())
        if look is not None:
            try:
                answer = yield from ask(look.request)
            except DatapipeError as error:
                ends = looks.failed(look, error, clock())
            else:
                ends = looks.answered(look, answer, clock())
        elif not ends:
            yield Pause(max(looks.wake_at(clock()) - clock(), _SHORTEST_PAUSE))
        for watch, end in ends:
            for gone in wait.take(watch, end):
                looks.discard(gone)
        wait.settle()
        if tell is not None and clock() >= progress.due and not wait.is_over:
            tell(progress.line(clock()))


def run_batch(
    batch: Batch,
    records: Records,
    start_policy: StartPolicy,
    wait_policy: WaitPolicy,
    *,
    alone: bool,
    clock: Callable[[], float] = time.time,
    tell: Tell | None = None,
) -> Steps[None]:
    """
    Start and wait until everything has ended.

    :param batch: is changed in place.
    :param records: what earlier tries of this task have left.
    :param start_policy: how runs are started.
    :param wait_policy: how patient to be.
    :param alone: see :func:`start_queued`.
    :param clock: gives seconds since the epoch.
    :param tell: is told now and then how far it is.
    """
    while not batch.is_over:
        yield from start_queued(batch, records, start_policy, alone=alone, clock=clock)
        yield from wait_for_some(batch, wait_policy, clock, tell)


def settle_records(batch: Batch, records: Records, failed: list[End], *, succeeded: bool) -> None:
    """
    Leave what a later try of the task has to go on with, and nothing else.

    A task that succeeds closes its records: clearing it runs it again, a retry after a kill at this moment does not.
    One that fails keeps the runs that may still be going, those that have succeeded, and the intents whose requests may
    have been carried out, so that a retry starts only what did not. A run that the service no longer knows is kept as
    well: the retry verifies it.

    :param batch: is over.
    :param failed: the ends that the task counts as failures.
    :param succeeded: whether the task succeeds.
    """
    for end in batch.ended:
        key = key_of(batch.kind, Target(end.reference.resource_id, end.reference.name))
        if succeeded:
            records.close(key)
        elif end in failed and end.reason is EndReason.RUN_OVER:
            records.delete(key)
        elif end.reason is EndReason.NOT_SCHEDULED and (kept := records.get(key)):
            # The retry looks once whether it has been scheduled since, then requests a run.
            records.set(key, replace(Record.from_dict(kept), reference=None).as_dict())
