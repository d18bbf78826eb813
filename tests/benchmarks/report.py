"""Tables of ``docs/performance.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from tests.benchmarks.adapters import ADAPTERS
from tests.benchmarks.budget import budget_table
from tests.benchmarks.environment import ROOT
from tests.benchmarks.figures import part, times
from tests.benchmarks.imports import IMPORTABLE, OURS, Imported
from tests.benchmarks.results import Results
from tests.benchmarks.table import TABLE_END, beside, number, table, with_table
from tests.benchmarks.waits import Waited

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- table: python -m tests.benchmarks report -->\n", TABLE_END

#: Column: header, value, decimal places.
_Column = tuple[str, Callable[[Waited], float | None], int]


_STEADY: tuple[_Column, ...] = (
    ("CPU per check, ms", lambda one: times(1e3, one.cpu_per_check), 3),
    ("CPU per trigger and second, ms", lambda one: 1e3 * one.cpu_per_trigger, 3),
    ("Polls done of due, %", lambda one: times(100, one.done_of_due), 0),
    ("Requests per second", lambda one: one.requests / one.window, 1),
    ("Loop lag p99, ms", lambda one: times(1e3, one.lag and one.lag.p99), 1),
    ("Detection delay p50, s", lambda one: one.delay_p50, 2),
    ("p99, s", lambda one: one.delay_p99, 2),
    ("Memory per trigger, KB", lambda one: one.memory_per_trigger / 1024, 1),
)
_EDGES: tuple[_Column, ...] = (
    ("Started, s", lambda one: one.start, 2),
    ("CPU time of the start, s", lambda one: one.start_cpu, 2),
    ("Maximum loop lag at the start, ms", lambda one: one.lag_start and 1e3 * one.lag_start.most, 0),
    ("Maximum loop lag at the end, ms", lambda one: one.lag_end and 1e3 * one.lag_end.most, 0),
    ("Connections", lambda one: float(one.connections_in_all), 0),
    ("Requests", lambda one: float(one.requests_in_all), 0),
)
_ADAPTIVE: tuple[_Column, ...] = (
    ("CPU per trigger and second, ms", lambda one: 1e3 * one.cpu_per_trigger, 4),
    ("Requests per second", lambda one: one.requests / one.window, 1),
    ("Checks per second", lambda one: one.checks / one.window, 1),
    ("Loop lag p99, ms", lambda one: times(1e3, one.lag and one.lag.p99), 1),
    ("Memory per trigger, KB", lambda one: one.memory_per_trigger / 1024, 1),
    ("Started, s", lambda one: one.start, 2),
)
#: Share of due polls, because a wait that skips polls needs less CPU time.
_NOT_COMPARED = frozenset({"CPU per trigger and second, ms", "Polls done of due, %", "Requests per second", "Requests"})


def report(results: Results) -> str:
    """Return all tables for which results exist."""
    parts = [_machines(results), "## Limits\n\n" + budget_table(results)]
    if results.imported:
        parts.append("## Imports\n\n" + _imports(results.imported))
    scenarios = sorted({(one.latency, one.poll) for one in results.waited if not ADAPTERS[one.adapter].is_adaptive})
    for latency, poll in scenarios:
        waited = [
            one
            for one in results.waited
            if (one.latency, one.poll) == (latency, poll) and not ADAPTERS[one.adapter].is_adaptive
        ]
        parts.append(
            f"## Waits with a poll every {poll:g} s and a latency of {1e3 * latency:.0f} ms\n\n"
            + _waits(waited, _STEADY)
            + "\nStart and end of these waits:\n\n"
            + _waits(waited, _EDGES)
        )
    adaptive = [one for one in results.waited if ADAPTERS[one.adapter].is_adaptive]
    if adaptive:
        parts.append("## Waits with adaptive intervals, during runs of ten minutes\n\n" + _waits(adaptive, _ADAPTIVE))
    parts += _followed(results)
    if notes := list(_notes(results)):
        parts.append("## Notes\n\n" + "".join(f"- {note}\n" for note in notes))
    return "\n".join(parts)


def write(text: str, page: Path = PAGE) -> None:
    """Write the tables between the markers of the page."""
    page.write_text(with_table(page.read_text(encoding="utf-8"), BEGIN, text), encoding="utf-8")


def _machines(results: Results) -> str:
    days = sorted({machine.day for machine in results.machines})
    lines = []
    machines = {(m.processor, m.cores, m.memory_gb, m.system): m for m in results.machines}
    for key, machine in machines.items():
        # Some measurements were made without all other providers.
        there = [m.versions for m in results.machines if (m.processor, m.cores, m.memory_gb, m.system) == key]
        named = sorted({one for versions in there for one in versions.items()})
        versions = ", ".join(f"{name} {version}" for name, version in named)
        lines.append(
            f"Measured on {' and '.join(days)}: {machine.processor}, {machine.cores} cores, {machine.memory_gb:g} GB, "
            f"{machine.system}. Versions: {versions}.\n"
        )
    return "\n".join(lines)


def _imports(imported: Sequence[Imported]) -> str:
    rows = []
    for name in (each.name for each in IMPORTABLE):
        these = [one for one in imported if one.name == name]
        if not these:
            continue
        cpu = 1e3 * median(one.cpu for one in these)
        ratio = ""
        if name == OURS.name:
            peers = {one.name for one in imported} - {OURS.name, IMPORTABLE[-1].name}
            ratio = beside(cpu, [1e3 * median(one.cpu for one in imported if one.name == peer) for peer in peers])
        largest = ", ".join(f"{package} {count}" for package, count in these[0].largest.items())
        rows.append(
            [
                name,
                number(1e3 * median(one.wall for one in these)),
                number(cpu) + ratio,
                f"{median(one.modules for one in these):g}",
                f"{median(one.others for one in these):g}",
                number(median(one.memory for one in these) / 2**20),
                largest,
            ]
        )
    head = [
        "Operator module of",
        "Wall time, ms",
        "CPU time, ms",
        "New modules",
        "Without Airflow's",
        "Memory, MB",
        "Largest packages (modules)",
    ]
    return table(head, rows)


def _waits(waited: Sequence[Waited], columns: Sequence[_Column]) -> str:
    rows = []
    for count in sorted({one.count for one in waited}):
        these = [one for one in waited if one.count == count]
        figures = {
            name: [_median(figure, [one for one in these if one.adapter == name]) for _, figure, _ in columns]
            for name in ADAPTERS
            if any(one.adapter == name for one in these)
        }
        peers = [values for name, values in figures.items() if not ADAPTERS[name].is_ours]
        for name, values in figures.items():
            cells = [f"{count:,}", name]
            for place, ((head, _, digits), value) in enumerate(zip(columns, values, strict=True)):
                is_compared = ADAPTERS[name].is_ours and head not in _NOT_COMPARED
                ratio = beside(value, [peer[place] for peer in peers]) if is_compared else ""
                cells.append(number(value, digits) + ratio)
            rows.append(cells)
    return table(["N", "Trigger", *(head for head, _, _ in columns)], rows)


def _median(figure: Callable[[Waited], float | None], waited: Sequence[Waited]) -> float | None:
    values = [value for one in waited if (value := figure(one)) is not None]
    return median(values) if values else None


def _followed(results: Results) -> Iterator[str]:
    for typical in sorted({one.typical for one in results.followed}):
        rows = []
        these = [one for one in results.followed if one.typical == typical]
        for is_shared in (False, True):
            for interval in sorted({one.interval for one in these}, key=lambda value: value or 1e9):
                ways = [one for one in these if (one.is_shared, one.interval) == (is_shared, interval)]
                if not ways:
                    continue
                delays = [delay for one in ways for delay in one.delays]
                count = sum(one.count for one in ways)
                rows.append(
                    [
                        "streams of one sync" if is_shared else "one request per run",
                        "adaptive" if interval is None else f"every {interval:g} s",
                        f"{count}",
                        number(sum(one.requests for one in ways) / count, 1),
                        *(number(part(delays, share), 1) for share in (0.5, 0.95)),
                        number(max(delays, default=None), 1),
                    ]
                )
        head = ["Runs", "Poll interval", "N", "Requests per run", "Detection delay p50, s", "p95, s", "maximum, s"]
        yield f"## Runs of about {typical:g} s with earlier runs\n\n" + table(head, rows)


def _notes(results: Results) -> Iterator[str]:
    for one in results.waited:
        what = f"{one.adapter}, N = {one.count:,}, {1e3 * one.latency:.0f} ms"
        if one.started < one.count:
            yield f"{what}: only {one.started:,} of the triggers had started when the measured time began."
        if not ADAPTERS[one.adapter].is_adaptive and one.events < one.count:
            yield f"{what}: {one.events:,} ends were detected, {one.bad} events had another result."
        if one.not_found:
            yield f"{what}: {one.not_found} requests had an unknown path."
    for followed in results.followed:
        if len(followed.delays) < followed.count:
            yield f"Runs of {followed.typical:g} s: {len(followed.delays)} of {followed.count} ends were detected."
    for failure in results.failures:
        yield (
            f"{failure['what']}, N = {failure['count']:,}, {1e3 * failure['latency']:.0f} ms: not measured "
            f"({failure['why'].splitlines()[0][:200]})."
        )
