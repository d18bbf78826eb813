"""Many concurrent waits: cost while the runs are active, and detection delay of their ends."""

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

#: Seconds between the start of the triggers and the measured window.
_CALM = 1.0
#: Seconds within which a client must stop. A client with a blocked event loop receives the command late.
_STOP_LIMIT = 60.0
#: Seconds between two checks of the start phase.
_CHECK_INTERVAL = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """Durations of the phases of a measurement in seconds."""

    window: float = 8.0
    start: float = 30.0
    finish: float = 30.0


@dataclass(frozen=True, slots=True)
class Waited:
    """
    Measured values in seconds and bytes. None for values that could not be measured.

    :param adapter: name of the adapter, for ``count`` runs, with poll interval ``poll`` and ``latency`` of the service.
    :param window: duration of the measured window, with its ``requests``, ``checks`` of a run, and opened
        ``connections``.
    :param cpu: CPU time of the waits in the window.
    :param due: number of due checks in the window. None for adaptive waits.
    :param lag: lag of the event loop in the window. ``lag_start`` and ``lag_end``: while triggers start and end.
    :param memory: memory of all triggers.
    :param start: time until all ``started`` triggers had a response to a request from after their start.
    :param start_cpu: CPU time of the start.
    :param delay_p50: median time from the end of the runs to the events. Likewise ``delay_p99`` and ``delay_most``.
    :param events: number of events about a success. ``bad``: number of other events.
    :param connections_in_all: connections since the first trigger. Likewise ``requests_in_all``.
    :param first: cost of the first trigger: ``wall``, ``cpu`` and ``rss``.
    :param stub_load: share of a core that the stub used.
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
        """CPU time per check of a run."""
        return self.cpu / self.checks if self.checks else None

    @property
    def cpu_per_trigger(self) -> float:
        """CPU time per trigger and second."""
        return self.cpu / self.window / self.count

    @property
    def done_of_due(self) -> float | None:
        """Share of due checks that were done."""
        return None if self.due is None else self.checks / self.due

    @property
    def memory_per_trigger(self) -> float:
        """Bytes per started trigger."""
        return self.memory / max(self.started, 1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Waited:
        lags = {name: None if data[name] is None else Lag(*data[name]) for name in ("lag", "lag_start", "lag_end")}
        return cls(**{**data, **lags})


def measure_waits(plan: Plan, limits: Limits, python: str = sys.executable) -> Waited:
    """
    Wait for active runs that then end all at once.

    The detection delay of adaptive waits is not measured, because it can be a minute. :mod:`.by_history` measures it.

    :raises ProgramError: the stub or the client has failed.
    """
    adapter = plan.make()
    with Session(plan, python) as session:
        before, _ = session.ask_stub()
        memory = session.client_memory()
        began = time.monotonic()
        session.send_to_client("go")
        _await_start(session, plan.count, began + limits.start)
        time.sleep(_CALM)
        session.ask_stub("started")
        first, _ = session.ask_stub()
        time.sleep(limits.window)
        last, _ = session.ask_stub()
        memory = session.client_memory() - memory
        ended_at = last.at
        if not adapter.is_adaptive:
            # The runs end at a random time between two polls.
            time.sleep(random.random() * plan.poll)  # noqa: S311 - no secret
            ended_at = session.ask_stub("end")[1]["ended_at"]
        reported = _await_end(session, 0.0 if adapter.is_adaptive else limits.finish)
        polls = session.ask_stub("polls")[1]["polls"]
        at_last, _ = session.ask_stub()
    samples = [Sample(*sample) for sample in reported["samples"]]
    seconds = last.at - first.at
    cpu = cpu_at(samples, last.at) - cpu_at(samples, first.at) - reported["idle"] * seconds
    starts = first_answers(dict(reported["started"]), dict(polls))
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
    """Wait until all triggers have started and all runs were shown, or until the deadline."""
    is_created = False
    while time.monotonic() < deadline:
        if not is_created:
            is_created = session.receive_from_client(_CHECK_INTERVAL) is not None
        elif session.ask_stub()[0].seen >= count:
            return
        else:
            time.sleep(_CHECK_INTERVAL)


def _await_end(session: Session, limit: float) -> dict[str, Any]:
    """Return the last message of the client, which ends by itself or is stopped."""
    deadline = time.monotonic() + limit
    reported = session.receive_from_client(limit)
    if reported is not None and reported["what"] == "created":
        # The triggers were created late.
        reported = session.receive_from_client(max(0.0, deadline - time.monotonic()))
    if reported is None:
        session.send_to_client("stop")
        reported = session.receive_from_client(_STOP_LIMIT)
    while reported is not None and reported["what"] != "done":
        reported = session.receive_from_client(_STOP_LIMIT)
    if reported is None:
        raise ProgramError("The client does not stop.")
    return reported


def first_answers(started: Mapping[int, float], polls: Mapping[int, Sequence[Sequence[float]]]) -> list[float]:
    """Return the time of the first response to each trigger, for requests after its start."""
    firsts = (
        next((answered for asked, answered in polls.get(run, ()) if asked >= at), None) for run, at in started.items()
    )
    return [first for first in firsts if first is not None]
