"""The arithmetic of the benchmarks."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.budget import LINES, budget_table
from tests.benchmarks.figures import TICK, Lag, Sample, cpu_at, lag, part
from tests.benchmarks.report import BEGIN, END, report, write
from tests.benchmarks.results import Keeper, Results
from tests.benchmarks.table import beside, number
from tests.benchmarks.waits import Waited, first_answers


def waited(adapter: str, *, count: int = 1000, cpu: float = 0.1, checks: int = 8000) -> Waited:
    """Return a measurement within all limits."""
    values: dict[str, Any] = dict.fromkeys((field.name for field in fields(Waited)), 0)
    values |= {"adapter": adapter, "count": count, "started": count, "events": count, "cpu": cpu, "checks": checks}
    values |= {"poll": 1.0, "window": 8.0, "due": 8000.0, "start": 1.0, "delay_p99": 1.0, "memory": 1 << 20}
    values |= {"lag": Lag(0.001, 0.002, 0.003), "lag_start": None, "lag_end": None, "said": [], "first": {}}
    return Waited(**values)


def test_cpu_between_two_ticks() -> None:
    samples = [Sample(1.0, 0.0, 10.0), Sample(2.0, 0.0, 11.0), Sample(4.0, 0.0, 15.0)]
    assert [cpu_at(samples, moment) for moment in (0.0, 1.0, 1.5, 3.0, 9.0)] == [10.0, 10.0, 10.5, 13.0, 15.0]


def test_late_tick_counts_for_the_ticks_that_it_prevented() -> None:
    calm = [Sample(TICK * tick, 0.001, 0.0) for tick in range(1, 101)]
    assert lag(calm, 0.0, 2.0) == Lag(0.001, 0.001, 0.001)
    # Blocked for a second: of two hundred ticks half would have been late, by half a second on average.
    blocked = lag([*calm, Sample(2.0, 1.0, 0.0)], 0.0, 2.0)
    assert blocked is not None
    assert blocked.most == 1.0
    assert blocked.p99 > 0.9
    assert lag([*calm, Sample(9.0, 0.001, 0.0)], 3.0, 4.0) is None


def test_block_counts_for_the_span_in_which_it_began() -> None:
    assert lag([Sample(9.0, 6.0, 0.0)], 2.0, 4.0) is not None


def test_quantiles() -> None:
    assert part([], 0.5) is None
    assert part([3.0, 1.0, 2.0], 0.5) == 2.0
    assert part([float(value) for value in range(100)], 0.99) == 99.0


def test_only_responses_to_requests_after_the_start_count() -> None:
    schedule = {1: [(0.5, 0.9), (1.5, 1.6), (2.5, 2.6)], 2: [(0.5, 3.0)]}
    assert first_answers({1: 1.0, 2: 1.0, 3: 1.0}, schedule) == [1.6]


@pytest.mark.parametrize(
    ("ours", "others", "text"),
    [
        (1.0, [58.4, 90.0], " (1/58)"),
        (2.0, [5.0, None], " (1/2.5)"),
        (2.0, [1.0], " (2.0 times)"),
        (0.0, [1.0], ""),
        (None, [1.0], ""),
        (1.0, [], ""),
    ],
)
def test_a_ratio_is_to_the_best_of_the_others(ours: float | None, others: list[float | None], text: str) -> None:
    assert beside(ours, others) == text


def test_numbers() -> None:
    assert [number(value, 2) for value in (None, 0.005, 3.14159, 1234.5)] == ["-", "0.01", "3.14", "1,234"]


def kept(results: Results, what: str) -> str:
    (row,) = [line for line in budget_table(results).splitlines() if line.startswith(f"| {what}")]
    return row.split(" | ")[3]


def test_worst_adapter_counts_and_none_may_be_missing() -> None:
    coalescing = [waited("streams-of-syncs"), waited("orchestrations")]
    assert kept(Results(waited=coalescing[:1]), "CPU time per check of a run, with shared requests") == "?"
    assert kept(Results(waited=coalescing), "CPU time per check of a run, with shared requests") == "yes"
    worse = [coalescing[0], waited("orchestrations", cpu=0.5)]
    assert kept(Results(waited=worse), "CPU time per check of a run, with shared requests") == "**no**"
    every = [*coalescing, waited("streams-alone", checks=7000)]
    assert kept(Results(waited=every), "share of due polls") == "**no**"
    assert kept(Results(waited=every), "memory") == "yes"


def test_triggers_that_did_not_start_are_reported_without_memory() -> None:
    late = replace(waited("airbyte"), started=500)
    assert late.memory_per_trigger == 2 * waited("airbyte").memory_per_trigger
    assert "airbyte, N = 1,000, 0 ms: only 500 of the triggers had started" in report(Results(waited=[late]))


def test_other_numbers_of_waits_do_not_count_for_the_budget() -> None:
    fewer = [waited(name, count=500) for name in ("streams-of-syncs", "orchestrations", "streams-alone")]
    assert {kept(Results(waited=fewer), line.what) for line in LINES} == {"?"}


def test_report_replaces_the_tables_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    keeper = Keeper(file)
    for one in (waited("streams-of-syncs"), waited("fivetran", cpu=1.0)):
        keeper.keep(one)
    keeper.keep_failure("airbyte", 1000, 0.05, "it did not start\nat all")
    text = report(Results.read(file))
    assert "| 1,000 | streams-of-syncs | 0.013 (1/10) |" in text
    assert "airbyte, N = 1,000, 50 ms: not measured (it did not start)." in text
    page = tmp_path / "page.md"
    page.write_text(f"Before\n{BEGIN}old\n{END}After\n")
    write(text, page)
    assert page.read_text() == f"Before\n{BEGIN}\n{text}\n{END}After\n"


def test_worst_repetition_of_the_delay_counts() -> None:
    lucky = [waited(name) for name in ("streams-of-syncs", "orchestrations", "streams-alone")]
    assert kept(Results(waited=lucky), "detection delay") == "yes"
    unlucky = replace(lucky[0], delay_p99=1.2)
    assert kept(Results(waited=[*lucky, lucky[0], unlucky]), "detection delay") == "**no**"
