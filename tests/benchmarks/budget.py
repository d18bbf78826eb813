"""Budgets, and their comparison with measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.adapters import ADAPTERS
from tests.benchmarks.adapters.ours import Orchestrations, StreamsAlone, StreamsOfSyncs
from tests.benchmarks.figures import times
from tests.benchmarks.imports import OURS
from tests.benchmarks.results import Results
from tests.benchmarks.table import number, table
from tests.benchmarks.waits import Waited

#: Function that returns a value of a measurement, in the unit of its budget.
Figure = Callable[[Waited], float | None]
_COALESCING = (StreamsOfSyncs.name, Orchestrations.name)
_ALONE = (StreamsAlone.name,)
_EACH = (*_COALESCING, *_ALONE)


@dataclass(frozen=True, slots=True)
class Line:
    """
    One budget of waits.

    :param what: description.
    :param unit: unit of the value.
    :param limit: maximum of the value, or minimum with ``is_least``.
    :param figure: returns the value of a measurement.
    :param adapters: names of the adapters. The worst one counts.
    :param count: number of waits, with a poll interval of one second.
    :param latency: latency of the service in seconds.
    :param is_least: ``limit`` is a minimum.
    :param is_worst: the worst of several measurements counts, because single ones vary by chance. Otherwise the median.
    :param digits: decimal places.
    """

    what: str
    unit: str
    limit: float
    figure: Figure
    adapters: Sequence[str] = _EACH
    count: int = 1000
    latency: float = 0.0
    is_least: bool = False
    is_worst: bool = False
    digits: int = 1


LINES: tuple[Line, ...] = (
    Line(
        "CPU time per check of a run, with shared requests",
        "ms",
        0.02,
        lambda one: times(1e3, one.cpu_per_check),
        _COALESCING,
        digits=3,
    ),
    Line(
        "CPU time per check of a run, with one request per run",
        "ms",
        0.4,
        lambda one: times(1e3, one.cpu_per_check),
        _ALONE,
        digits=3,
    ),
    Line(
        "share of due polls that are done",
        "%",
        99.9,
        lambda one: times(100, one.done_of_due),
        is_least=True,
    ),
    Line("event-loop lag, p99", "ms", 5, lambda one: times(1e3, one.lag and one.lag.p99)),
    Line("detection delay of the end of a run, p99", "s", 1.1, lambda one: one.delay_p99, is_worst=True, digits=2),
    Line("memory per waiting trigger", "KB", 15, lambda one: one.memory_per_trigger / 1024),
    Line("opened connections", "", 16, lambda one: float(one.connections_in_all), digits=0),
    Line("start of 500 triggers, latency of 50 ms", "s", 1.5, lambda one: one.start, count=500, latency=0.05, digits=2),
)
#: Limits of imports: milliseconds, and number of modules outside of Airflow.
IMPORT_LIMITS = (10.0, 15)


def budget_table(results: Results) -> str:
    """Return the budgets with the measured values, the worst of several."""
    rows = [*_import_rows(results), *(_row(line, results) for line in LINES)]
    return table(["Value", "Limit", "Measured", "Within the limit", "Best other provider"], rows)


def _row(line: Line, results: Results) -> list[str]:
    fitting = [one for one in results.waited if (one.count, one.latency, one.poll) == (line.count, line.latency, 1.0)]
    ours = {name: _typical(line, fitting, name) for name in line.adapters}
    peers = [_typical(line, fitting, name) for name, adapter in ADAPTERS.items() if not adapter.is_ours]
    known = [value for value in ours.values() if value is not None]
    others = [value for value in peers if value is not None]
    is_whole = len(known) == len(ours)
    worst, best = (min, max) if line.is_least else (max, min)
    kept = "?"
    if is_whole:
        measured = worst(known)
        kept = "yes" if (measured >= line.limit if line.is_least else measured <= line.limit) else "**no**"
    bound = "≥" if line.is_least else "≤"
    unit = f" {line.unit}" if line.unit else ""
    return [
        f"{line.what}; N = {line.count:,}",
        f"{bound} {line.limit:g}{unit}",
        f"{number(worst(known), line.digits)}{unit}" if is_whole else "not measured",
        kept,
        f"{number(best(others), line.digits)}{unit}" if others else "-",
    ]


def _typical(line: Line, waited: Sequence[Waited], adapter: str) -> float | None:
    values = [value for one in waited if one.adapter == adapter and (value := line.figure(one)) is not None]
    return (max(values) if line.is_worst else median(values)) if values else None


def _import_rows(results: Results) -> Iterator[list[str]]:
    milliseconds, modules = IMPORT_LIMITS
    ours = [one for one in results.imported if one.name == OURS.name]
    if not ours:
        yield [
            "imports in addition to Airflow",
            f"≤ {milliseconds:g} ms, ≤ {modules} modules",
            "not measured",
            "?",
            "-",
        ]
        return
    cpu, others = 1e3 * median(one.cpu for one in ours), median(one.others for one in ours)
    names = {one.name for one in results.imported} - {OURS.name}
    peers = [
        (1e3 * median(one.cpu for one in results.imported if one.name == name), name)
        for name in names
        if not name.startswith("Airflow")
    ]
    yield [
        "imports in addition to Airflow: CPU time, and modules that are not Airflow's",
        f"≤ {milliseconds:g} ms, ≤ {modules}",
        f"{number(cpu)} ms, {others:g}",
        "yes" if cpu <= milliseconds and others <= modules else "**no**",
        f"{number(min(peers)[0])} ms" if peers else "-",
    ]
