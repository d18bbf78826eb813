"""``make latency``: its options, the plan of its runs, and its tables."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter

import pytest

from tests.benchmarks.environment import ROOT
from tests.benchmarks.table import TABLE_END as END
from tests.benchmarks.table import with_table
from tests.system.latency.__main__ import durations, executors, missing
from tests.system.latency.figures import BEGIN, Measurement, Results
from tests.system.latency.plan import COMPONENTS_OVERHEAD, GAP, MODES, WAVE_OVERHEAD, estimated_seconds, waves_of


def test_executors_and_durations_are_lists_without_duplicates() -> None:
    assert executors("celery,local,celery") == ["celery", "local"]
    assert durations("10,0.5,1,10") == [0.5, 1, 10]


def test_an_unknown_executor_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="'kubernetes' is not one of local, celery"):
        executors("local,kubernetes")


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1,3601", "1,", "x"])
def test_a_duration_that_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        durations(text)


def test_each_missing_program_and_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.postgresql.programs", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr("tests.system.latency.__main__.distributions", list)
    local = missing(["local"])
    assert local == [
        "PostgreSQL is missing: apt-get install postgresql",
        "Not installed: asyncpg, psycopg2-binary. make latency installs them into .venv-celery.",
    ]
    celery = missing(["local", "celery"])
    assert celery[:2] == [local[0], "Redis is missing: apt-get install redis-server"]
    assert "apache-airflow-providers-celery, asyncpg, psycopg2-binary, redis." in celery[2]


@pytest.mark.parametrize("duration", [0.5, 1, 5, 10, 60])
@pytest.mark.parametrize("runs", [1, 2, 3, 10])
def test_a_plan_has_a_warm_up_and_the_requested_runs(duration: float, runs: int) -> None:
    waves = list(waves_of(duration, runs))
    measured = [lane for wave in waves if not wave.warm_up for lane in wave.lanes]
    assert Counter(lane.mode for lane in measured) == dict.fromkeys(MODES, runs)
    # Each lane has one run without history, before all others.
    warm_ups = [lane for wave in waves if wave.warm_up for lane in wave.lanes]
    assert len(set(warm_ups)) == len(warm_ups)
    assert set(warm_ups) == {lane for wave in waves for lane in wave.lanes}
    assert [wave.warm_up for wave in waves] == sorted((wave.warm_up for wave in waves), reverse=True)
    for wave in waves:
        assert len(set(wave.lanes)) == len(wave.lanes)
        # All tasks of a wave start before its first run ends.
        assert (len(wave.lanes) - 1) * GAP < duration or len(wave.lanes) == 1


@pytest.mark.parametrize("durations", [(1, 5, 10, 60), (0.5, 5)])
def test_every_lane_has_a_stream_of_its_own(durations: tuple[float, ...]) -> None:
    lanes = {lane for duration in durations for wave in waves_of(duration, 10) for lane in wave.lanes}
    ids = {lane.stream_id for lane in lanes}
    assert len(ids) == len(lanes)
    assert all(stream_id.replace("_", "").isalnum() for stream_id in ids)


def test_the_estimate_counts_runs_gaps_and_starts() -> None:
    # One lane for each of the four modes, a warm-up and a run each, one at a time.
    assert estimated_seconds(2, [1], 1) == 2 * (COMPONENTS_OVERHEAD + 8 * (1 + WAVE_OVERHEAD))
    # 10 s have room for two tasks in a wave.
    assert estimated_seconds(1, [10], 1) == COMPONENTS_OVERHEAD + 4 * (10 + GAP + WAVE_OVERHEAD)


def measurements(executor: str = "local", duration: float = 1, **latencies: list[float | None]) -> list[Measurement]:
    return [
        Measurement(executor, mode, duration, latency, warm_up=False)
        for mode in MODES
        for latency in latencies.get(mode, [2.0])
    ]


def test_a_cell_is_the_median_and_first_runs_have_a_table() -> None:
    first = Measurement("celery", "deferred", 5, 4.0, warm_up=True)
    results = Results([*measurements("celery", 5, blocking=[1.0, 9.0, 1.25]), first])
    measured, first_runs = results.tables().split("without history:")
    assert "| CeleryExecutor | 5 s | 1.2 | 2.0 | 2.0 | 2.0 |" in measured
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
    replaced = with_table(page, BEGIN, "new\n")
    assert replaced == f"before\n{BEGIN}\nnew\n\n{END}after\n"
    assert with_table(with_table(page, BEGIN, "other\n"), BEGIN, "new\n") == replaced
    performance = (ROOT / "docs" / "performance.md").read_text()
    assert "new tables" in with_table(performance, BEGIN, "new tables\n")


@pytest.mark.parametrize("page", ["", BEGIN, END + BEGIN, f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_pair_of_markers_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="one pair of markers"):
        with_table(page, BEGIN, "new\n")
