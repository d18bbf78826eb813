"""Result table of the distributed tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.system.distributed.blocked_loop import Pause, unexplained
from tests.system.distributed.cases import RETRIES
from tests.system.distributed.chaos import ChaosResult
from tests.system.distributed.deferred import DeferredResult, percentile
from tests.system.distributed.held_service import Moment
from tests.system.distributed.kills import Killer
from tests.system.distributed.takeover import TakeoverResult

#: Kills of a worker during a POST, at both moments of it.
POST = (Moment.REQUEST, Moment.RESPONSE)
_LONGEST = 70


@dataclass(frozen=True)
class Row:
    """
    Line of the table.

    :param holds: the result of a check; None for a measurement.
    """

    name: str
    value: str
    holds: bool | None = None


@dataclass
class Report:
    """All lines of the table."""

    rows: list[Row] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return all(row.holds is not False for row in self.rows)

    def add(self, name: str, value: object, *, holds: bool | None = None) -> None:
        """Add a measurement, or a check."""
        self.rows.append(Row(name, str(value), holds))

    def add_chaos(self, result: ChaosResult, killer: Killer, post_kills: int, conflict_kills: int) -> None:
        """
        Add the outcomes under kills, and the kills by type.

        :param post_kills: the least number of kills during a POST.
        :param conflict_kills: the least number of kills during the decision about a 409.
        """
        self.add("tasks under chaos", f"{len(result.verdicts)}, of which {result.retried} were retried")
        for retries in RETRIES:
            states = ", ".join(f"{state} {number}" for state, number in sorted(result.states(retries).items()))
            self.add(f"tasks with {retries} retries", states)
        self.add("wrong outcomes", len(result.wrong), holds=not result.wrong)
        for cause, number in sorted(result.causes.items()):
            self.add(f"tries: {cause}"[:_LONGEST], number)
        duplicates = sum(verdict.is_duplicate for verdict in result.verdicts)
        runs = sum(verdict.own_runs for verdict in result.verdicts)
        self.add("duplicate runs", f"{duplicates} tasks, of {runs} runs", holds=not duplicates)
        posts, conflicts = killer.count(*POST), killer.count(Moment.CONFLICT)
        self.add("kills during a POST", f"{posts}, at least {post_kills}", holds=posts >= post_kills)
        self.add(
            "kills during a 409 decision", f"{conflicts}, at least {conflict_kills}", holds=conflicts >= conflict_kills
        )
        self.add("held requests without a kill", result.missed)
        if result.kills_left:
            self.add("kills of components without time", result.kills_left)
        for name, number in sorted(killer.counts.items()):
            self.add(f"SIGKILL {name}", number)
        self.add("seconds of the chaos", f"{result.seconds:.0f}")

    def add_deferred(self, result: DeferredResult) -> None:
        """Add the measurements of the deferred tasks."""
        self.add("deferred tasks", f"{result.tasks}, by triggerer {', '.join(map(str, result.by_triggerer))}")
        self.add("wrong outcomes of deferred tasks", _some(result.faults), holds=not result.faults)
        self.add("seconds until all were deferred", f"{result.deferring:.0f}")
        self.add("requests per second while all waited", f"{result.requests:.2f}")
        self.add("seconds from run to event, p50 and p99", _percentiles(result.to_event))
        self.add("seconds from run to success, p50 and p99", _percentiles(result.to_success))
        for phase, warnings in (("deferring", result.blocked_before), ("waiting", result.blocked)):
            self.add(f"warnings of a blocked loop, {phase}", _warnings(warnings))
            others = unexplained(warnings, result.collections)
            self.add("without a full garbage collection", _warnings(others), holds=not others)

    def add_takeover(self, result: TakeoverResult) -> None:
        """Add the measurements of the waits of a killed triggerer."""
        waits = len(result.detection)
        self.add("waits of the killed triggerer", f"{waits} of {result.tasks}", holds=0 < waits < result.tasks)
        self.add("wrong outcomes of these tasks", _some(result.faults), holds=not result.faults)
        self.add("seconds from kill to another triggerer, p50 and p99", _percentiles(result.detection))
        self.add("seconds from there to event, p50 and p99", _percentiles(result.to_event))

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows), default=0)
        marks = {True: "ok", False: "FAILED", None: ""}
        return "\n".join(f"{row.name:{width}}  {marks[row.holds]:6}  {row.value}".rstrip() for row in self.rows)


def _percentiles(values: Sequence[float]) -> str:
    if not values:
        return "none"
    return f"{percentile(values, 0.5):.1f} and {percentile(values, 0.99):.1f}"


def _some(faults: Sequence[str]) -> str:
    shown = "; ".join(faults[:5])
    return f"{len(faults)}{f': {shown}' if faults else ''}"


def _warnings(warnings: Sequence[Pause]) -> str:
    return f"{len(warnings)}: {', '.join(f'{each.seconds:.2f} s' for each in warnings)}" if warnings else "0"
