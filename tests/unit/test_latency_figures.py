"""Tables of ``make latency``."""

from __future__ import annotations

import pytest

from tests.benchmarks.environment import ROOT
from tests.system.latency.figures import BEGIN, END, Measurement, Results, with_tables
from tests.system.latency.plan import MODES


def measurements(executor: str = "local", duration: float = 1, **latencies: list[float | None]) -> list[Measurement]:
    return [
        Measurement(executor, mode, duration, latency, warm_up=False)
        for mode in MODES
        for latency in latencies.get(mode, [2.0])
    ]


def test_a_cell_is_the_median() -> None:
    results = Results(measurements(blocking=[1.0, 9.0, 1.25]))
    assert "| LocalExecutor | 1 s | 1.2 | 2.0 | 2.0 | 2.0 |" in results.tables()


def test_first_runs_have_a_table_of_their_own() -> None:
    first = Measurement("celery", "deferred", 5, 4.0, warm_up=True)
    results = Results([*measurements("celery", 5), first])
    measured, first_runs = results.tables().split("without history:")
    assert "| CeleryExecutor | 5 s | 2.0 | 2.0 | 2.0 | 2.0 |" in measured
    assert "| CeleryExecutor | 5 s | - | 4.0 | - |" in first_runs


def test_rows_are_ordered_by_executor_and_duration() -> None:
    results = Results([*measurements("celery", 1), *measurements("local", 10), *measurements("local", 1)])
    rows = [line.split(" | ")[:2] for line in results.tables().splitlines() if "Executor |" in line]
    assert rows[1:4] == [["| LocalExecutor", "1 s"], ["| LocalExecutor", "10 s"], ["| CeleryExecutor", "1 s"]]


def test_a_failed_task_is_reported_and_not_counted() -> None:
    results = Results(measurements(baseline=[None, 3.0, 4.0], blocking=[1.0, 1.0], deferred=[1.0, 1.0]))
    assert len(results.failed) == 1
    assert results.median("local", "baseline", 1) == 3.5
    assert "Medians of 1 to 2 runs, in seconds: 1 tasks failed and are not counted." in results.tables()


@pytest.mark.parametrize(
    ("duration", "reference", "verdict"),
    [(1, "blocking", "over"), (5, "blocking", "over"), (10, "baseline", "within"), (60, "baseline", "within")],
)
def test_short_runs_are_compared_with_blocking(duration: float, reference: str, verdict: str) -> None:
    results = Results(measurements(duration=duration, blocking=[1.0], deferred=[2.5], baseline=[2.0]))
    (line,) = results.comparisons()
    assert reference in line
    assert f", {verdict} the limit" in line


def test_new_tables_replace_old_ones_between_the_markers() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    assert with_tables(page, "new\n") == f"before\n{BEGIN}\nnew\n\n{END}after\n"
    assert with_tables(with_tables(page, "other\n"), "new\n") == with_tables(page, "new\n")


@pytest.mark.parametrize("page", ["", BEGIN, END + BEGIN, f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_pair_of_markers_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="one pair of markers"):
        with_tables(page, "new\n")


def test_the_page_about_performance_has_the_markers() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert "new tables" in with_tables(page, "new tables\n")
