"""Several runs of one kind, started and waited for together. One run is a batch of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError, InvalidRequestError, NotFoundError
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target
from airflow_provider_datapipe.runs.start import start
from airflow_provider_datapipe.runs.steps import Pause, Steps, ask
from airflow_provider_datapipe.runs.wait import End, EndReason, WaitPolicy, Watch


@dataclass(slots=True)
class Batch:
    """
    Where a batch stands; fits into JSON, so that it can go through a trigger and back.

    :param kind: name of the kind of run.
    :param queued: what is not started yet, in order.
    :param waiting: the runs that are waited for.
    :param ended: the runs that have ended, in the order in which they did.
    :param at_a_time: the most runs that are waited for at a time; None for all.
    """

    kind: str
    queued: list[Target] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)
    ended: list[End] = field(default_factory=list)
    at_a_time: int | None = None

    @property
    def has_room(self) -> bool:
        """Whether something is queued and may be started."""
        return bool(self.queued) and (self.at_a_time is None or len(self.waiting) < self.at_a_time)

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return {
            "kind": self.kind,
            "queued": [target.as_dict() for target in self.queued],
            "waiting": [reference.as_dict() for reference in self.waiting],
            "ended": [end.as_dict() for end in self.ended],
            "at_a_time": self.at_a_time,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Batch:
        """Read what :meth:`as_dict` gave."""
        return cls(
            data["kind"],
            [Target(**target) for target in data["queued"]],
            [Reference(**reference) for reference in data["waiting"]],
            [End.from_dict(end) for end in data["ended"]],
            data["at_a_time"],
        )


def start_queued(batch: Batch, *, alone: bool) -> Steps[None]:
    """
    Start what is queued, as far as there is room.

    :param batch: is changed in place.
    :param alone: whether the batch stands for one run: what prevents it is raised then. Otherwise a run that the
        service refuses is an end among others.
    :raises DatapipeError: the service could not be reached, or does not accept the key.
    """
    kind = KINDS[batch.kind]
    while batch.has_room:
        target = batch.queued[0]
        try:
            seen = yield from start(kind, target)
        except (InvalidRequestError, NotFoundError, RunConflictError) as error:
            if alone:
                raise
            reference = Reference(batch.kind, target.resource_id, target.name)
            batch.ended.append(End(EndReason.NOT_STARTED, reference, Outcome.FAILED, detail=str(error)))
        else:
            _sort_in(batch, seen)
        # Only now: a failure above leaves the target where a retry finds it.
        batch.queued.pop(0)


def _sort_in(batch: Batch, seen: Observation) -> None:
    if seen.outcome.is_over:
        batch.ended.append(End(EndReason.RUN_OVER, seen.reference, seen.outcome, seen.result))
    else:
        batch.waiting.append(seen.reference)


def wait_for_some(batch: Batch, policy: WaitPolicy, clock: Callable[[], float] = time.time) -> Steps[None]:
    """
    Wait until something more can be started, or, with nothing queued, until every run has ended.

    :param batch: is changed in place.
    :param policy: how patient to be.
    :param clock: gives seconds since the epoch.
    """
    kind = KINDS[batch.kind]
    watches = [Watch(reference, policy, clock()) for reference in batch.waiting]
    while watches and not batch.has_room:
        watch = min(watches, key=lambda watch: watch.due)
        if watch.due > clock():
            yield Pause(watch.due - clock())
        try:
            answer = yield from ask(kind.look(watch.reference))
            end = watch.seen(kind.read(watch.reference, answer), clock())
        except DatapipeError as error:
            end = watch.failed(error, clock())
        if end:
            watches.remove(watch)
            batch.ended.append(end)
        batch.waiting = [watch.reference for watch in watches]


def run_batch(batch: Batch, policy: WaitPolicy, *, alone: bool, clock: Callable[[], float] = time.time) -> Steps[None]:
    """
    Start and wait until everything has ended.

    :param batch: is changed in place.
    :param policy: how patient to be.
    :param alone: see :func:`start_queued`.
    :param clock: gives seconds since the epoch.
    """
    while batch.queued or batch.waiting:
        yield from start_queued(batch, alone=alone)
        yield from wait_for_some(batch, policy, clock)
