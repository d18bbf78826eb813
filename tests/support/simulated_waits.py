"""
Waits for runs, simulated: how often each way of pacing looks, and how late it sees the end.

``python -m tests.support.simulated_waits`` prints the tables of ``docs/polling.md``.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from airflow_provider_datapipe.runs.pace import KEPT, History, next_look

FASTEST, SLOWEST = 1.0, 60.0
#: What a look costs, in seconds of delay, and from which duration; less in shorter runs, in proportion. As in the code,
#: apart from it.
PRICE, FULL_PRICE_AFTER = 0.25, 300.0
#: How many runs of a hundred end early, as failures do.
FAILING = 5
#: Recorded durations are those of small loads: each second of them counts as ten minutes.
STRETCH = 600.0

#: Seconds until the next look at a run of an age.
Pace = Callable[[float], float]
#: Factors by which the durations of consecutive runs differ from what is typical.
Family = Callable[[random.Random, int], list[float]]


@dataclass(frozen=True, slots=True)
class Case:
    """
    A run to wait for.

    :param duration: how many seconds it takes.
    :param earlier: how many those before it took, newest first.
    """

    duration: float
    earlier: Sequence[float]


@dataclass(frozen=True, slots=True)
class Measured:
    """
    How a way of pacing did.

    :param looks: how many looks a run took, on average.
    :param delays: how many seconds after its end each run was seen to be over, in ascending order.
    :param shares: the same, as a share of its duration.
    :param cost: what is to be small: seconds of delay and the price of the looks, on average.
    """

    looks: float
    delays: Sequence[float]
    shares: Sequence[float]
    cost: float


def alike(chance: random.Random, count: int) -> list[float]:
    """Give runs that differ little."""
    return [chance.lognormvariate(0, 0.05) for _ in range(count)]


def spread(chance: random.Random, count: int) -> list[float]:
    """Give runs that differ a lot."""
    return [chance.lognormvariate(0, 0.4) for _ in range(count)]


def two_sizes(chance: random.Random, count: int) -> list[float]:
    """Give small runs, and now and then one that loads all."""
    return [(8 if chance.random() < 1 / 6 else 1) * chance.lognormvariate(0, 0.1) for _ in range(count)]


def growing(chance: random.Random, count: int) -> list[float]:
    """Give runs of which each takes 2% more than the one before."""
    return [1.02 ** (run - count) * chance.lognormvariate(0, 0.05) for run in range(count)]


def changed(chance: random.Random, count: int) -> list[float]:
    """Give runs that take another time from some day on."""
    day, factor = chance.randrange(count), chance.choice([0.4, 2.5])
    return [(factor if run >= day else 1) * chance.lognormvariate(0, 0.1) for run in range(count)]


def heavy_tailed(chance: random.Random, count: int) -> list[float]:
    """Give runs some of which take very much longer than most."""
    return [0.6 * chance.paretovariate(1.5) for _ in range(count)]


FAMILIES: tuple[Family, ...] = (alike, spread, two_sizes, growing, changed, heavy_tailed)


def drawn(family: Family, typical: float, count: int, *, failing: int = FAILING, seed: int = 1) -> list[Case]:
    """
    Draw runs, each of another resource.

    :param family: how runs differ.
    :param typical: how many seconds they take, more or less.
    :param count: how many to draw.
    :param failing: how many of a hundred end early.
    :param seed: of chance.
    """
    chance = random.Random(f"{family.__name__} {typical} {seed}")  # noqa: S311 - no secret
    cases = []
    for _ in range(count):
        *earlier, last = (typical * factor for factor in family(chance, KEPT + 1))
        fails = chance.randrange(100) < failing
        cases.append(Case(last * chance.random() if fails else last, earlier[::-1]))
    return cases


def recorded() -> list[Case]:
    """Give the runs that were recorded, each that has enough of its own before it."""
    series: dict[str, list[float]] = {}
    with Path(__file__).with_name("recorded_durations.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            series.setdefault(row["series"], []).append(float(row["seconds"]) * STRETCH)
    return [
        Case(durations[run], durations[run - KEPT : run][::-1])
        for durations in series.values()
        for run in range(KEPT, len(durations))
    ]


def looks_at(duration: float, pace: Pace) -> Iterator[float]:
    """Give the ages at which a run is looked at, the last of which sees its end."""
    age = 0.0
    while age < duration:
        age += pace(age)
        yield age


def fixed(interval: float) -> Callable[[Case], Pace]:
    """Look at a fixed interval."""
    return lambda _: lambda _: interval


def adaptive(known: int) -> Callable[[Case], Pace]:
    """Look as the product does that knows so many earlier runs."""

    def of(case: Case) -> Pace:
        history = History.of(case.earlier[:known])
        return lambda age: next_look(age, history, fastest=FASTEST, slowest=SLOWEST)

    return of


#: The ways that are compared, by their name in the tables.
WAYS: dict[str, Callable[[Case], Pace]] = {
    "every 5 s": fixed(5),
    "every 15 s": fixed(15),
    "every 60 s": fixed(60),
    "adaptive, no earlier run": adaptive(0),
    "adaptive, 1 earlier run": adaptive(1),
    "adaptive, 5 earlier runs": adaptive(5),
    "adaptive, 20 earlier runs": adaptive(20),
}


def measure(cases: Sequence[Case], way: Callable[[Case], Pace]) -> Measured:
    """Wait for all of these."""
    looks, delays, shares, cost = 0, [], [], 0.0
    for case in cases:
        *before, last = looks_at(case.duration, way(case))
        looks += len(before) + 1
        delays.append(last - case.duration)
        shares.append((last - case.duration) / case.duration)
        cost += delays[-1] + (len(before) + 1) * PRICE * min(1.0, case.duration / FULL_PRICE_AFTER)
    return Measured(looks / len(cases), sorted(delays), sorted(shares), cost / len(cases))


def part(values: Sequence[float], share: float) -> float:
    """Give the value that a share of these, in ascending order, is not above."""
    return values[min(len(values) - 1, int(share * len(values)))]


def mixed(typical: float, count: int = 150) -> list[Case]:
    """Give as many runs of each family."""
    return [case for family in FAMILIES for case in drawn(family, typical, count)]


def groups() -> dict[str, list[Case]]:
    """Give the runs of the tables, by their name in it."""
    return {
        "Runs of about a minute": mixed(60),
        "Runs of about 10 minutes": mixed(600),
        "Runs of about an hour": mixed(3600),
        "Runs of about 10 minutes that are alike": drawn(alike, 600, 900, failing=0),
        "Recorded runs": recorded(),
    }


@cache
def results() -> dict[str, dict[str, Measured]]:
    """Give what was measured of each group and way."""
    return {group: {name: measure(cases, way) for name, way in WAYS.items()} for group, cases in groups().items()}


def table() -> str:
    """Give the tables of the docs."""
    return "\n".join(_rows(group, ways) for group, ways in results().items())


def _rows(group: str, ways: Mapping[str, Measured]) -> str:
    lines = [f"| {group} | Polls per run | Delay: half within | 95% within |", "|---|---|---|---|"]
    for name, seen in ways.items():
        delays = [f"{part(seen.delays, share):.1f} s ({part(seen.shares, share):.1%})" for share in (0.5, 0.95)]
        lines.append(f"| {name} | {seen.looks:.0f} | {' | '.join(delays)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
