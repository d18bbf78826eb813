"""First run after a time: it does not depend on the time of the poll, and is never an earlier run."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.flows import run_blocking
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.run_history import RunFilter, RunRecord, RunTime, first_after, parse_time
from tests.support.examples import scaled
from tests.unit.runs.history_service import HistoryService, PastRun, at

TARGET = RunTarget("s", "orders")
MOMENTS_OF = st.sampled_from(RunTime)
OVER = ["COMPLETED", "COMPLETED", "FAILED", "CHUNK_COMPLETED"]


@st.composite
def stream_histories(draw: st.DrawFn) -> list[PastRun]:
    """Draw consecutive runs. The last one may be active."""
    runs: list[PastRun] = []
    minute = 0.0
    for number in range(draw(st.integers(0, 40))):
        minute += draw(st.integers(0, 3))
        end = minute + draw(st.integers(0, 3))
        runs.append(PastRun(f"r{number}", minute, end, draw(st.sampled_from(OVER))))
        # Starts are unique, as in the service.
        minute = max(end, minute + 1)
    is_going: bool = draw(st.booleans())
    if runs and is_going:
        runs[-1] = PastRun(runs[-1].id, runs[-1].start, None, "RUNNING")
    return runs


@st.composite
def orchestration_histories(draw: st.DrawFn) -> list[PastRun]:
    """Draw runs in the order of their start that may overlap."""
    starts = sorted(draw(st.sets(st.integers(0, 60), max_size=20)))
    runs = []
    for number, start in enumerate(starts):
        end = draw(st.none() | st.integers(start, start + 9))
        status = "RUNNING" if end is None else draw(st.sampled_from(["COMPLETED", "FAILED", "CANCELED"]))
        runs.append(PastRun(f"o{number}", start, end, status))
    return [*runs, PastRun("next", None, None, "NOT_STARTED")] if draw(st.booleans()) else runs


def expected(runs: list[PastRun], rule: RunFilter) -> str | None:
    """Return the run that the documentation specifies: the last one of the matching load."""
    groups: list[list[PastRun]] = [[]]
    for run in runs:
        groups[-1].append(run)
        if not run.is_slice:
            groups.append([])
    counting: list[tuple[float, str]] = []
    for group in filter(None, groups):
        last = group[-1]
        begun = math.inf if group[0].start is None else group[0].start
        ended = math.inf if last.end is None or last.is_slice else last.end
        time = begun if rule.moment_of is RunTime.START else ended
        passed_over = rule.succeeded and ended < math.inf and last.status != "COMPLETED"
        if (time == math.inf or at(time) >= rule.moment) and not passed_over:
            counting.append((time, last.id))
    return min(counting, key=lambda each: each[0])[1] if counting else None


def find(
    service: HistoryService, rule: RunFilter, kind: str = "elt_stream"
) -> tuple[RunRecord | None, RunRecord | None]:
    def never(_: float) -> None:
        raise AssertionError("nothing is waited for")

    return run_blocking(first_after(KINDS[kind], TARGET, rule), service.send, never)


def run_id(record: RunRecord | None) -> str | None:
    return None if record is None else record.run_id


@given(
    runs=stream_histories(),
    minute=st.integers(-1, 130),
    moment_of=MOMENTS_OF,
    good=st.booleans(),
    size=st.integers(1, 9) | st.just(100),
)
def test_first_matching_run_is_found_for_any_page_size(
    runs: list[PastRun], minute: int, moment_of: RunTime, good: bool, size: int
) -> None:
    rule = RunFilter(at(minute), moment_of, succeeded=good)
    service = HistoryService({"s": runs}, page_size=size)
    found, newest = find(service, rule)
    assert run_id(found) == expected(runs, rule)
    assert run_id(newest) == (runs[-1].id if runs else None)


@given(runs=orchestration_histories(), minute=st.integers(-1, 70), moment_of=MOMENTS_OF, good=st.booleans())
def test_overlapping_runs_are_distinguished_by_their_times(
    runs: list[PastRun], minute: int, moment_of: RunTime, good: bool
) -> None:
    rule = RunFilter(at(minute), moment_of, succeeded=good)
    found, _ = find(HistoryService({"s": runs}), rule, "orchestration")
    assert run_id(found) == expected(runs, rule)


@settings(max_examples=scaled(30))
@given(count=st.integers(1, 1500), position=st.floats(0, 1), size=st.sampled_from([20, 100]))
def test_only_the_pages_from_the_nearer_end_are_read(count: int, position: float, size: int) -> None:
    runs = [PastRun(f"r{number}", number, number + 0.5) for number in range(count)]
    place = int(position * (count - 1))
    service = HistoryService({"s": runs}, page_size=size)
    found, _ = find(service, RunFilter(at(place)))
    assert run_id(found) == f"r{place}"
    from_start, from_end = place // size + 1, (count - place) // size + 1
    assert len(service.asked) <= 2 * min(from_start, from_end) + 2


def test_search_from_both_ends_covers_the_whole_history() -> None:
    runs = [PastRun(f"r{number}", number, number + 0.5, "FAILED") for number in range(40)]
    service = HistoryService({"s": [*runs, PastRun("good", 50, 51)]}, page_size=20)
    assert run_id(find(service, RunFilter(at(0), succeeded=True))[0]) == "good"


def test_recent_run_costs_one_request() -> None:
    runs = [PastRun(f"r{number}", number, number + 0.5) for number in range(5000)]
    service = HistoryService({"s": runs})
    assert run_id(find(service, RunFilter(at(4990)))[0]) == "r4990"
    assert run_id(find(service, RunFilter(at(9999)))[0]) is None
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01 00:00:00+00:00",
        " 2026-01-01T01:00:00+01:00 ",
        datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_times_are_parsed_in_any_time_zone(value: Any) -> None:
    assert parse_time("after", value) == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2026-01-01", "after has no time zone"),
        ("2026-01-01T00:00:00", "after has no time zone"),
        (datetime(2026, 1, 1), "after has no time zone"),  # noqa: DTZ001 - the rejected value
        ("None", "after is not a time"),
        ("", "after is not a time"),
        ("{{ ds }}", "after is not a time"),
        (None, "after must be a time"),
        (5, "after must be a time"),
    ],
)
def test_invalid_time_is_rejected_with_the_field_name(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_time("after", value)
