"""Batches of runs of one kind that a task starts and waits for together. A single run is a batch of one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.runs.conflicts import Blocked, RunSkipped
from airflow_provider_datapipe.runs.contact_lines import ContactLog, LogLine
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

#: The shortest pause of a wait in seconds, so that rounding does not cause a busy loop.
_SHORTEST_PAUSE = 0.001
#: The most seconds until the first poll of a run that is in the way.
_BLOCKED_PAUSE = 5.0
#: The most seconds for which the first polls in a triggerer wait, if the clocks of worker and triggerer differ.
_LONGEST_DELAY = 300.0


@dataclass(frozen=True, slots=True)
class Hindered:
    """
    A run that cannot start before another run has ended.

    :param by: the other run.
    :param target: the resource to run afterwards.
    """

    by: Reference
    target: Target


@dataclass(slots=True)
class Batch:
    """
    State of a batch. It can be serialized to JSON, to pass it to a trigger and back.

    :param kind: name of the kind of run.
    :param queued: resources whose runs are not started yet, in order.
    :param waiting: active runs.
    :param hindered: resources whose runs start when another run has ended.
    :param ended: outcomes of the runs that have ended, in the order in which they ended.
    :param at_a_time: the most runs that are active at a time; None for no limit.
    :param note: further state of the task, as JSON.
    :param lost_since: time of a loss of contact that was logged, as seconds since the epoch; None if there is contact.
    :param poll_after: time before which the service does not want to be polled, in seconds since the epoch; None for no
        limit.
    """

    kind: str
    queued: list[Target] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)
    hindered: list[Hindered] = field(default_factory=list)
    ended: list[End] = field(default_factory=list)
    at_a_time: int | None = None
    note: dict[str, Any] = field(default_factory=dict)
    lost_since: float | None = None
    poll_after: float | None = None

    @property
    def references(self) -> list[Reference]:
        """The started runs: the active ones, then those that have ended."""
        return [*self.waiting, *(end.reference for end in self.ended)]

    @property
    def resources(self) -> list[Reference | Target]:
        """The resources whose runs have started, then the other ones."""
        return [*self.references, *self.queued, *(hindered.target for hindered in self.hindered)]

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
        return len(self.waiting) + len(self.hindered)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "queued": [target.as_dict() for target in self.queued],
            "waiting": [reference.as_dict() for reference in self.waiting],
            "hindered": [{"by": each.by.as_dict(), "target": each.target.as_dict()} for each in self.hindered],
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
            [Target.from_dict(target) for target in data["queued"]],
            [Reference.from_dict(reference) for reference in data["waiting"]],
            [Hindered(Reference.from_dict(each["by"]), Target.from_dict(each["target"])) for each in data["hindered"]],
            [End.from_dict(end) for end in data["ended"]],
            data["at_a_time"],
            # A trigger of an earlier version does not store these.
            data.get("note", {}),
            data.get("lost_since"),
            data.get("poll_after"),
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
    Start queued runs, up to the limit of the batch.

    :param batch: the batch, which is changed in place.
    :param records: stored state of earlier tries of the task.
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
                # The other requests would fail as well. Wait for the runs that were started.
                _give_up_queue(batch, batch.queued[1:], "the one before it could not be started")
        except RunSkipped as skipped:
            if alone:
                raise
            batch.ended.append(End(EndReason.SKIPPED, reference, Outcome.SKIPPED, detail=str(skipped)))
        else:
            _sort_in(batch, seen)
        # Remove the target last: if the code above raises, a retry finds it in the queue.
        batch.queued.pop(0)


def _give_up_queue(batch: Batch, targets: list[Target], reason: str) -> None:
    """Record the outcome "not started" for targets that were not requested, and remove them from the queue."""
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
    The wait for runs of a batch: until a queued run can be started, or, with an empty queue, until all have ended.

    :param batch: the batch, which is changed in place.
    :param policy: poll interval and time limits.
    :param now: current time in seconds since the epoch.
    """

    __slots__ = ("_batch", "_contact_log", "_targets", "_was_answered", "size")

    def __init__(self, batch: Batch, policy: WaitPolicy, now: float) -> None:
        self._batch = batch
        self._contact_log = ContactLog(batch.lost_since)
        #: True if the wait for the last run ended with an answer of the service.
        self._was_answered = False
        #: Number of all runs of the batch.
        self.size = len(batch.queued) + len(batch.waiting) + len(batch.hindered) + len(batch.ended)
        #: Target to start when the run has ended; None for the batch's own runs.
        self._targets: dict[Watch, Target | None] = {Watch(reference, policy, now): None for reference in batch.waiting}
        for each in batch.hindered:
            watch = Watch(each.by, policy, now)
            # This run was polled when the start was refused. Replicas that disagree must not cause a busy loop.
            watch.was_just_read(now, _BLOCKED_PAUSE)
            self._targets[watch] = each.target
        if batch.poll_after is not None:
            for watch in self._targets:
                watch.postpone(min(batch.poll_after, now + _LONGEST_DELAY))

    @property
    def watches(self) -> list[Watch]:
        """The waits for the single runs."""
        return list(self._targets)

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""
        return len(self._batch.ended)

    @property
    def queued(self) -> int:
        """Number of queued runs."""
        return len(self._batch.queued)

    @property
    def is_over(self) -> bool:
        """True if a queued run can be started, or no run is left to wait for."""
        # The batch lists ended runs as active until settle() is called.
        return not self._targets or self._batch.has_room_beside(len(self._targets))

    def take(self, watch: Watch, end: End) -> list[Watch]:
        """Process the outcome of the wait for one run. Return the other waits that end because of it."""
        if watch not in self._targets:
            return []
        batch, hindered = self._batch, self._targets.pop(watch)
        in_vain = end.reason in (EndReason.TIMEOUT, EndReason.LOST_CONTACT)
        self._was_answered = not in_vain
        if hindered is None:
            batch.ended.append(end)
        elif in_vain:
            reference = Reference.to(batch.kind, hindered)
            detail = f"the run before it, {end.reference.run_id}, was waited for in vain ({end.reason})"
            batch.ended.append(End(EndReason.NOT_STARTED, reference, Outcome.FAILED, detail=detail))
        else:
            # The run in the way has ended, with any outcome.
            batch.queued.insert(0, hindered)
        if not in_vain:
            return []
        # The service cannot be reached or the deadline has passed: do not start further runs.
        others = {watch: target for watch, target in self._targets.items() if target}
        reason = f"another run was waited for in vain ({end.reason})"
        _give_up_queue(batch, [*batch.queued, *others.values()], reason)
        for other in others:
            del self._targets[other]
        return list(others)

    @property
    def is_lost(self) -> bool:
        """True if a loss of contact was logged, but not its end."""
        return self._contact_log.lost_since is not None

    def contact_line(self, lost: DatapipeError | None, now: float) -> LogLine | None:
        """
        Return the log line for a loss of contact or for its end, None if there is nothing new.

        :param lost: the failure while contact with the service is lost, None while there is contact.
        :param now: current time in seconds since the epoch.
        """
        error = lost or next((watch.lost for watch in self._targets if watch.lost), None)
        if error is not None:
            return self._contact_log.failed(error, now)
        if not self.is_lost:
            return None
        # Another process may have logged the loss. Then this process has to poll before it can log the end.
        is_answered = all(watch.was_seen for watch in self._targets) if self._targets else self._was_answered
        return self._contact_log.answered(now) if is_answered else None

    def settle(self, asked_until: float = 0.0) -> None:
        """
        Write the state of the unfinished runs into the batch.

        :param asked_until: time before which the service does not want to be polled, in seconds since the epoch.
        """
        batch = self._batch
        batch.lost_since = self._contact_log.lost_since
        batch.waiting = [watch.reference for watch, target in self._targets.items() if target is None]
        batch.hindered = [Hindered(watch.reference, target) for watch, target in self._targets.items() if target]
        batch.poll_after = max([asked_until, *(watch.poll_after or 0.0 for watch in self._targets)]) or None


def wait_for_some(
    batch: Batch,
    policy: WaitPolicy,
    clock: Callable[[], float] = time.time,
    tell: Tell | None = None,
    until: float = inf,
) -> Steps[None]:
    """
    Wait until a queued run can be started, or, with an empty queue, until every run has ended.

    :param batch: the batch, which is changed in place.
    :param policy: poll interval and time limits.
    :param clock: function that returns the current time in seconds since the epoch.
    :param tell: function that logs progress; None for no log lines.
    :param until: time at which the wait is interrupted; the runs remain in ``batch.waiting``.
    """
    wait = BatchWait(batch, policy, clock())
    progress = Progress(wait, clock(), 0.0)
    looks = Looks()
    for watch in wait.watches:
        looks.add(watch)
    while not wait.is_over and clock() < until:
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
            yield Pause(max(min(looks.wake_at(clock()), until) - clock(), _SHORTEST_PAUSE))
        for watch, end in ends:
            for gone in wait.take(watch, end):
                looks.discard(gone)
        if tell is not None and (line := wait.contact_line(looks.contact.lost, clock())):
            tell(*line)
        wait.settle(looks.contact.asked_until)
        if tell is not None and clock() >= progress.due and not wait.is_over:
            tell(logging.INFO, progress.line(clock(), is_lost=looks.contact.lost is not None))


def run_batch(
    batch: Batch,
    records: Records,
    start_policy: StartPolicy,
    wait_policy: WaitPolicy,
    *,
    alone: bool,
    clock: Callable[[], float] = time.time,
    tell: Tell | None = None,
    limit: Callable[[Batch], float] | None = None,
) -> Steps[None]:
    """
    Start the runs of a batch and wait until all have ended, or until a wait exceeds a limit.

    :param batch: the batch, which is changed in place.
    :param records: stored state of earlier tries of the task.
    :param start_policy: policy for starting runs.
    :param wait_policy: poll interval and time limits.
    :param alone: see :func:`start_queued`.
    :param clock: function that returns the current time in seconds since the epoch.
    :param tell: function that logs progress; None for no log lines.
    :param limit: function that returns the longest wait, in seconds, until a queued run can be started or every run has
        ended; None for no limit.
    """
    while not batch.is_over:
        yield from start_queued(batch, records, start_policy, alone=alone, clock=clock)
        until = inf if limit is None else clock() + limit(batch)
        yield from wait_for_some(batch, wait_policy, clock, tell, until)
        if clock() >= until and not batch.has_room:
            return


def settle_records(batch: Batch, records: Records, failed: list[End], *, succeeded: bool) -> None:
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
        key = key_of(batch.kind, Target(end.reference.resource_id, end.reference.name))
        if succeeded:
            records.close(key)
        elif end in failed and end.reason is EndReason.RUN_OVER:
            records.delete(key)
        elif end.reason is EndReason.NOT_SCHEDULED and (kept := records.get(key)):
            # The retry checks once if the run was scheduled since. If not, it requests a run.
            records.set(key, replace(Record.from_dict(kept), reference=None).as_dict())
