"""
Simulated waits for runs: number of polls and delay of detection of each poll interval.

``python -m tests.support.simulated_waits`` prints the tables of ``docs/polling.md``.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from airflow_provider_datapipe.runs.models import KEPT_DURATIONS
from airflow_provider_datapipe.runs.poll_interval import RunDurations, next_poll

FASTEST, SLOWEST = 1.0, 60.0
#: Price of a poll in seconds of delay, and the duration from which it applies. It is proportionally lower for shorter
#: runs. The same values as in the code, but independent of it.
PRICE, FULL_PRICE_AFTER = 0.25, 300.0
#: Percentage of runs that end early, like failures.
FAILING = 5
#: Factor of the recorded durations, which are those of small loads: a second counts as ten minutes.
STRETCH = 600.0

#: Function from the age of a run to the seconds until its next poll.
PollInterval = Callable[[float], float]
#: Factors of the durations of consecutive runs, relative to the typical duration.
Family = Callable[[random.Random, int], list[float]]


@dataclass(frozen=True, slots=True)
class Case:
    """
    Run to wait for.

    :param duration: duration in seconds.
    :param earlier: durations of earlier runs in seconds, newest first.
    """

    duration: float
    earlier: Sequence[float]


@dataclass(frozen=True, slots=True)
class Measured:
    """
    Results of a poll interval.

    :param polls: average number of polls per run.
    :param delays: seconds from the end of each run to its detection, ascending.
    :param shares: the same as shares of the durations.
    :param cost: average of the delay in seconds plus the price of the polls. Lower is better.
    """

    polls: float
    delays: Sequence[float]
    shares: Sequence[float]
    cost: float


def alike(chance: random.Random, count: int) -> list[float]:
    """Return durations that differ little."""
    return [chance.lognormvariate(0, 0.05) for _ in range(count)]


def spread(chance: random.Random, count: int) -> list[float]:
    """Return durations that differ a lot."""
    return [chance.lognormvariate(0, 0.4) for _ in range(count)]


def two_sizes(chance: random.Random, count: int) -> list[float]:
    """Return durations of small runs and occasional full loads."""
    return [(8 if chance.random() < 1 / 6 else 1) * chance.lognormvariate(0, 0.1) for _ in range(count)]


def growing(chance: random.Random, count: int) -> list[float]:
    """Return durations that grow by 2% from run to run."""
    return [1.02 ** (run - count) * chance.lognormvariate(0, 0.05) for run in range(count)]


def changed(chance: random.Random, count: int) -> list[float]:
    """Return durations that change once at a random run."""
    day, factor = chance.randrange(count), chance.choice([0.4, 2.5])
    return [(factor if run >= day else 1) * chance.lognormvariate(0, 0.1) for run in range(count)]


def heavy_tailed(chance: random.Random, count: int) -> list[float]:
    """Return durations, some of which are much longer than most."""
    return [0.6 * chance.paretovariate(1.5) for _ in range(count)]


FAMILIES: tuple[Family, ...] = (alike, spread, two_sizes, growing, changed, heavy_tailed)


def drawn(family: Family, typical: float, count: int, *, failing: int = FAILING, seed: int = 1) -> list[Case]:
    """
    Draw runs, each of a different resource.

    :param family: distribution of the durations.
    :param typical: typical duration in seconds.
    :param failing: percentage of runs that end early.
    :param seed: random seed.
    """
    chance = random.Random(f"{family.__name__} {typical} {seed}")  # noqa: S311 - no secret
    cases = []
    for _ in range(count):
        *earlier, last = (typical * factor for factor in family(chance, KEPT_DURATIONS + 1))
        fails = chance.randrange(100) < failing
        cases.append(Case(last * chance.random() if fails else last, earlier[::-1]))
    return cases


def recorded() -> list[Case]:
    """Return the recorded runs that have enough earlier runs of their series."""
    series: dict[str, list[float]] = {}
    with Path(__file__).with_name("recorded_durations.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            series.setdefault(row["series"], []).append(float(row["seconds"]) * STRETCH)
    return [
        Case(durations[run], durations[run - KEPT_DURATIONS : run][::-1])
        for durations in series.values()
        for run in range(KEPT_DURATIONS, len(durations))
    ]


def poll_ages(duration: float, interval: PollInterval) -> Iterator[float]:
    """Yield the ages at which a run is polled. The last poll detects its end."""
    age = 0.0
    while age < duration:
        age += interval(age)
        yield age


def fixed(interval: float) -> Callable[[Case], PollInterval]:
    """Poll at a fixed interval."""
    return lambda _: lambda _: interval


def adaptive(known: int) -> Callable[[Case], PollInterval]:
    """Poll like the provider with this number of known earlier runs."""

    def of(case: Case) -> PollInterval:
        history = RunDurations.of(case.earlier[:known])
        return lambda age: next_poll(age, history, fastest=FASTEST, slowest=SLOWEST)

    return of


#: Compared poll intervals, by their names in the tables.
INTERVALS: dict[str, Callable[[Case], PollInterval]] = {
    "every 5 s": fixed(5),
    "every 15 s": fixed(15),
    "every 60 s": fixed(60),
    "adaptive, no earlier run": adaptive(0),
    "adaptive, 1 earlier run": adaptive(1),
    "adaptive, 5 earlier runs": adaptive(5),
    "adaptive, 20 earlier runs": adaptive(20),
}


def measure(cases: Sequence[Case], interval_of: Callable[[Case], PollInterval]) -> Measured:
    """Simulate the waits for all cases."""
    polls, delays, shares, cost = 0, [], [], 0.0
    for case in cases:
        *before, last = poll_ages(case.duration, interval_of(case))
        polls += len(before) + 1
        delays.append(last - case.duration)
        shares.append((last - case.duration) / case.duration)
        cost += delays[-1] + (len(before) + 1) * PRICE * min(1.0, case.duration / FULL_PRICE_AFTER)
    return Measured(polls / len(cases), sorted(delays), sorted(shares), cost / len(cases))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile of ascending values."""
    return values[min(len(values) - 1, int(share * len(values)))]


def mixed(typical: float, count: int = 150) -> list[Case]:
    """Return the same number of runs of each family."""
    return [case for family in FAMILIES for case in drawn(family, typical, count)]


def groups() -> dict[str, list[Case]]:
    """Return the runs of the tables by name."""
    return {
        "Runs of about a minute": mixed(60),
        "Runs of about 10 minutes": mixed(600),
        "Runs of about an hour": mixed(3600),
        "Runs of about 10 minutes with similar durations": drawn(alike, 600, 900, failing=0),
        "Recorded runs": recorded(),
    }


@cache
def results() -> dict[str, dict[str, Measured]]:
    """Return the results of each group and poll interval."""
    return {
        group: {name: measure(cases, interval_of) for name, interval_of in INTERVALS.items()}
        for group, cases in groups().items()
    }


def table() -> str:
    """Return the tables of the docs."""
    return "\n".join(_rows(group, ways) for group, ways in results().items())


def _rows(group: str, ways: Mapping[str, Measured]) -> str:
    lines = [f"| {group} | Polls per run | Median delay | 95th percentile of the delay |", "|---|---|---|---|"]
    for name, seen in ways.items():
        delays = [f"{quantile(seen.delays, share):.1f} s ({quantile(seen.shares, share):.1%})" for share in (0.5, 0.95)]
        lines.append(f"| {name} | {seen.polls:.0f} | {' | '.join(delays)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
