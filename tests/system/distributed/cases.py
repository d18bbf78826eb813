"""Tasks of the chaos test: kinds, modes, retries, and the requests during which their workers are killed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

from tests.support.hostile import Faults, Plan, Service
from tests.support.hostile import Kind as ResourceKind
from tests.system.distributed.held_service import Moment, Rival

#: Kinds of tasks that start runs, with their argument and the kind of their resources.
RUN_KINDS: dict[str, tuple[str, ResourceKind]] = {
    "elt_stream": ("stream_id", "elt_stream"),
    "elt_sync": ("sync_id", "elt_stream"),
    "orchestration": ("orchestration_id", "orchestration"),
    "reverse_etl": ("reverse_etl_sync_id", "reverse_etl"),
    "transform": ("transform_id", "transform"),
}
#: Sensors, which wait for a run of another client.
SENSOR_KINDS: dict[str, tuple[str, ResourceKind]] = {
    "stream_sensor": ("stream_id", "elt_stream"),
    "orchestration_sensor": ("orchestration_id", "orchestration"),
    "reverse_etl_sensor": ("reverse_etl_sync_id", "reverse_etl"),
}
KINDS = {**RUN_KINDS, **SENSOR_KINDS}
#: Kinds whose requests the service refuses with 409 while a run is active.
REFUSED_KINDS = ("elt_stream", "reverse_etl")
STREAMS_OF_A_SYNC = 2
#: Streams of different tasks in one sync: their triggers share polls.
STREAMS_TOGETHER = 10
RETRIES = (0, 2)
#: Seconds that the runs take.
DURATIONS = (4.0, 10.0, 20.0)
#: Seconds for which a rival's run continues after the first request of the task, and the run of a sensor.
RIVAL_SECONDS, SENSED_SECONDS = 15.0, 45.0
#: Of so many tasks without a held request, one has a first run that fails.
FAILING = 8
CONN_ID = "datapipe_distributed"


@dataclass(frozen=True)
class Case:
    """
    Task with separate resources.

    :param number: a unique number.
    :param kind: one of :data:`KINDS`.
    :param mode: ``deferred``, ``blocking``, or ``reschedule`` for a sensor.
    :param retries: the retries of the task.
    :param hold: the request during which its worker is killed; None for no such kill.
    :param if_running: the policy of the task for a run of another client.
    :param has_rival: True if another client starts a run before the first request of the task.
    :param named: True if the 409 contains the ID of the active run.
    :param first_fails: True if the first run of its first resource fails.
    :param duration: the seconds that its runs take.
    """

    number: int
    kind: str
    mode: str
    retries: int
    hold: Moment | None = None
    if_running: str = "attach"
    has_rival: bool = False
    named: bool = True
    first_fails: bool = False
    duration: float = 10.0

    @property
    def task_id(self) -> str:
        """ID of the task, and the prefix of the IDs of its resources."""
        return f"t{self.number:04}_{self.kind}_{self.mode}_r{self.retries}"

    @property
    def is_sensor(self) -> bool:
        return self.kind in SENSOR_KINDS

    @property
    def resources(self) -> list[str]:
        if self.kind == "elt_sync":
            return [f"{self.task_id}_{number}" for number in range(STREAMS_OF_A_SYNC)]
        return [self.task_id]

    @property
    def sync_id(self) -> str:
        return self.task_id if self.kind == "elt_sync" else f"sync_{self.number // STREAMS_TOGETHER:03}"

    def task(self) -> dict[str, Any]:
        """Return the description of the task for the DAG file."""
        arguments: dict[str, Any] = {KINDS[self.kind][0]: self.task_id, "retries": self.retries}
        if self.is_sensor:
            arguments |= {"newest": True, "poke_interval": 2, "timeout": 900}
            arguments |= {"deferrable": True} if self.mode == "deferred" else {"mode": self.mode}
        else:
            arguments |= {"deferrable": self.mode == "deferred", "if_running": self.if_running, "poll_interval": 2}
        return {"task_id": self.task_id, "kind": self.kind, "arguments": arguments}

    def add_to(self, service: Service) -> None:
        """Add the resources of the task to the service."""
        for position, resource_id in enumerate(self.resources):
            resource = service.add(KINDS[self.kind][1], resource_id, **self._fields(position))
            service.add_history(resource, 3_600.0, plan=Plan(duration=self.duration))
            if self.is_sensor:
                service.add_history(resource, -SENSED_SECONDS, plan=Plan(duration=SENSED_SECONDS + 60))

    def _fields(self, position: int) -> dict[str, Any]:
        plan = Plan(duration=self.duration)
        fails = self.first_fails and position == 0
        fields: dict[str, Any] = {"plans": (Plan(duration=self.duration, outcome="FAILED"), plan) if fails else (plan,)}
        if KINDS[self.kind][1] == "elt_stream":
            fields["parent_id"] = self.sync_id
        if not self.named:
            fields["faults"] = Faults(conflict="unnamed")
        return fields

    def rival(self) -> dict[str, Rival]:
        """Return the run of the other client, by resource."""
        return {self.resources[0]: Rival(RIVAL_SECONDS)} if self.has_rival else {}

    def holds(self) -> dict[str, Moment]:
        """Return the held request, by resource."""
        return {} if self.hold is None else {self.resources[-1]: self.hold}


def cases(
    count: int, post_kills: int, conflict_kills: int, seed: int, durations: Sequence[float] = DURATIONS
) -> list[Case]:
    """
    Return the tasks in a random order.

    :param count: the number of tasks.
    :param post_kills: the number of tasks whose worker is killed during a POST.
    :param conflict_kills: the number of tasks whose worker is killed during the decision about a 409.
    :param seed: selects the order.
    :param durations: seconds that the runs take, in turn.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    if post_kills + conflict_kills > count:
        raise ValueError(f"{count} tasks are not enough for {post_kills + conflict_kills} kills during their requests")
    found = list(held_cases(post_kills, conflict_kills))
    found += _others(count - len(found), len(found))
    rng.shuffle(found)
    return [replace(case, duration=duration) for case, duration in zip(found, cycle(durations), strict=False)]


def held_cases(post_kills: int, conflict_kills: int, first: int = 0) -> Iterator[Case]:
    """
    Return the tasks with a held request, with each combination of kind, mode and retries in turn.

    :param post_kills: the number of tasks whose worker is killed during a POST.
    :param conflict_kills: the number of tasks whose worker is killed during the decision about a 409.
    :param first: the number of the first task.
    """
    turns = _combinations(tuple(RUN_KINDS))
    for number in range(post_kills):
        kind, mode, retries = next(turns)
        moment = (Moment.RESPONSE, Moment.REQUEST)[number % 2]
        yield Case(first + number, kind, mode, retries, moment)
    turns = _combinations(REFUSED_KINDS)
    for number in range(conflict_kills):
        kind, mode, retries = next(turns)
        yield Case(
            first + post_kills + number,
            kind,
            mode,
            retries,
            Moment.CONFLICT,
            if_running=("attach", "wait")[number // 2 % 2],
            has_rival=True,
            named=number % 3 != 0,
        )


def _others(count: int, first: int) -> Iterator[Case]:
    """Return the tasks without a held request: each fourth is a sensor."""
    turns, sensors = _combinations(tuple(RUN_KINDS)), _sensors()
    for number in range(first, first + count):
        if number % 4 == 3:
            kind, mode, retries = next(sensors)
            yield Case(number, kind, mode, retries)
            continue
        kind, mode, retries = next(turns)
        has_rival = kind in REFUSED_KINDS and number % 3 == 0
        yield Case(
            number,
            kind,
            mode,
            retries,
            if_running=("attach", "wait")[number // 2 % 2],
            has_rival=has_rival,
            named=number % 2 == 0,
            first_fails=number % FAILING == 0 and not has_rival,
        )


def _combinations(kinds: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    # Three of four tasks can be retried.
    retries = (RETRIES[1], RETRIES[1], RETRIES[0], RETRIES[1])
    return cycle([(kind, mode, tries) for tries in retries for mode in ("deferred", "blocking") for kind in kinds])


def _sensors() -> Iterator[tuple[str, str, int]]:
    modes = ("deferred", "reschedule", "poke")
    return cycle([(kind, mode, tries) for tries in RETRIES for mode in modes for kind in SENSOR_KINDS])


def waves_of(all_cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Return the tasks in groups, each of which becomes one DAG run."""
    for begin in range(0, len(all_cases), size):
        yield list(all_cases[begin : begin + size])
