"""Many runs waited for at once: what it costs while they go on, and how soon each end is seen."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.figures import Lag, Sample, cpu_at, lag, part
from tests.benchmarks.plan import Plan
from tests.benchmarks.session import Session
from tests.support.processes import ProgramError

#: Seconds of calm between the start and the time that is measured.
_CALM = 1.0
#: Seconds in which a client that is told to stop does so; one that is blocked hears of it late.
_STOP_LIMIT = 60.0
#: Seconds between two looks at how far the start is.
_LOOK = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the parts of a measurement last."""

    window: float = 8.0
    start: float = 30.0
    finish: float = 30.0


@dataclass(frozen=True, slots=True)
class Waited:
    """
    What was measured. Seconds and bytes; None for what could not be.

    :param adapter: what waited, for ``count`` runs, looking every ``poll`` seconds at what answers after ``latency``.
    :param window: seconds that were measured, in which there were so many ``requests``, ``checks`` of a run, and
        ``connections`` opened.
    :param cpu: that the waiting took in these seconds.
    :param due: how many checks the interval asks for; None for adaptive waits.
    :param lag: of the event loop in these seconds; ``lag_start`` and ``lag_end`` while triggers start, and end.
    :param memory: of all triggers.
    :param start: until each trigger had an answer to a request that was made after it had started; of ``started``.
    :param start_cpu: that it took.
    :param delay_p50: from the end of the runs until half of the events; ``delay_p99`` and ``delay_most`` alike.
    :param events: that said that a run succeeded; ``bad`` said something else.
    :param connections_in_all: from the first trigger on; ``requests_in_all`` alike.
    :param first: what the first trigger took: ``wall``, ``cpu`` and ``rss``.
    :param stub_load: the share of a core that the stub needed.
    """

    adapter: str
    count: int
    poll: float
    latency: float
    window: float
    requests: int
    checks: int
    connections: int
    cpu: float
    due: float | None
    lag: Lag | None
    lag_start: Lag | None
    lag_end: Lag | None
    memory: int
    start: float | None
    started: int
    start_cpu: float
    delay_p50: float | None
    delay_p99: float | None
    delay_most: float | None
    events: int
    bad: int
    said: Sequence[str]
    connections_in_all: int
    connections_open: int
    requests_in_all: int
    not_found: int
    first: Mapping[str, float]
    stub_load: float

    @property
    def cpu_per_check(self) -> float | None:
        """CPU for one run's status seen once."""
        return self.cpu / self.checks if self.checks else None

    @property
    def cpu_per_trigger(self) -> float:
        """CPU for each second that a trigger waits."""
        return self.cpu / self.window / self.count

    @property
    def done_of_due(self) -> float | None:
        """The share of the checks that the interval asks for."""
        return None if self.due is None else self.checks / self.due

    @property
    def memory_per_trigger(self) -> float:
        """Bytes; triggers that have not started need none."""
        return self.memory / max(self.started, 1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Waited:
        lags = {name: None if data[name] is None else Lag(*data[name]) for name in ("lag", "lag_start", "lag_end")}
        return cls(**{**data, **lags})


def measure_waits(plan: Plan, limits: Limits, python: str = sys.executable) -> Waited:
    """
    Wait for runs that go on, and then all end at once.

    Adaptive waits are not asked to see the end, which may take them a minute: :mod:`.by_history` measures that.

    :raises ProgramError: the stub or the client broke down.
    """
    adapter = plan.make()
    with Session(plan, python) as session:
        before, _ = session.ask_stub()
        memory = session.client_memory()
        began = time.monotonic()
        session.tell_client("go")
        _await_start(session, plan.count, began + limits.start)
        time.sleep(_CALM)
        session.ask_stub("started")
        first, _ = session.ask_stub()
        time.sleep(limits.window)
        last, _ = session.ask_stub()
        memory = session.client_memory() - memory
        ended_at = last.at
        if not adapter.is_adaptive:
            # The ends fall anywhere between two looks.
            time.sleep(random.random() * plan.poll)  # noqa: S311 - no secret
            ended_at = session.ask_stub("end")[1]["ended_at"]
        reported = _await_end(session, 0.0 if adapter.is_adaptive else limits.finish)
        schedule = session.ask_stub("looks")[1]["looks"]
        at_last, _ = session.ask_stub()
    samples = [Sample(*sample) for sample in reported["samples"]]
    seconds = last.at - first.at
    cpu = cpu_at(samples, last.at) - cpu_at(samples, first.at) - reported["idle"] * seconds
    starts = first_answers(dict(reported["started"]), dict(schedule))
    said = [what for _, _, what in reported["events"] if what is not None]
    delays = [at - ended_at for _, at, what in reported["events"] if what is None]
    return Waited(
        adapter=plan.adapter,
        count=plan.count,
        poll=plan.poll,
        latency=plan.latency,
        window=seconds,
        requests=last.requests - first.requests,
        checks=last.checks - first.checks,
        connections=last.connections - first.connections,
        cpu=cpu,
        due=None if adapter.is_adaptive else plan.count * seconds / plan.poll,
        lag=lag(samples, first.at, last.at),
        lag_start=lag(samples, began, first.at),
        lag_end=None if adapter.is_adaptive else lag(samples, ended_at, reported["ended_at"]),
        memory=memory,
        start=max(starts) - began if starts else None,
        started=len(starts),
        start_cpu=cpu_at(samples, first.at) - cpu_at(samples, began),
        delay_p50=part(delays, 0.5),
        delay_p99=part(delays, 0.99),
        delay_most=max(delays, default=None),
        events=len(delays),
        bad=len(said),
        said=[*said, *reported["errors"]][:3],
        connections_in_all=at_last.connections - before.connections,
        connections_open=last.open,
        requests_in_all=at_last.requests - before.requests,
        not_found=at_last.not_found,
        first=reported["first"],
        stub_load=(last.cpu - first.cpu) / seconds,
    )


def _await_start(session: Session, count: int, deadline: float) -> None:
    """Wait until all triggers are there, and all runs were shown; or until it takes too long."""
    is_created = False
    while time.monotonic() < deadline:
        if not is_created:
            is_created = session.hear_client(_LOOK) is not None
        elif session.ask_stub()[0].seen >= count:
            return
        else:
            time.sleep(_LOOK)


def _await_end(session: Session, limit: float) -> dict[str, Any]:
    """Return the last message of the client, which ends by itself or is stopped."""
    deadline = time.monotonic() + limit
    reported = session.hear_client(limit)
    if reported is not None and reported["what"] == "created":
        # It was late.
        reported = session.hear_client(max(0.0, deadline - time.monotonic()))
    if reported is None:
        session.tell_client("stop")
        reported = session.hear_client(_STOP_LIMIT)
    while reported is not None and reported["what"] != "done":
        reported = session.hear_client(_STOP_LIMIT)
    if reported is None:
        raise ProgramError("The client does not stop.")
    return reported


def first_answers(started: Mapping[int, float], schedule: Mapping[int, Sequence[Sequence[float]]]) -> list[float]:
    """Return the time of the first response to each trigger, for requests after its start."""
    firsts = (
        next((answered for asked, answered in schedule.get(run, ()) if asked >= at), None)
        for run, at in started.items()
    )
    return [first for first in firsts if first is not None]
