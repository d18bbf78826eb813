"""Seconds in the worker before a deferral."""

from __future__ import annotations

from itertools import islice

import pytest

from airflow_provider_datapipe.runs.worker_wait import (
    SHORT_RUN,
    WITHOUT_HISTORY,
    is_short,
    seconds_in_worker,
    sensor_intervals,
)

SHORT, LONG = [1.0] * 5, [600.0] * 5


def test_run_without_history_is_waited_for_a_few_seconds() -> None:
    assert seconds_in_worker([[]]) == WITHOUT_HISTORY


def test_long_run_is_deferred_at_once() -> None:
    assert seconds_in_worker([LONG]) == 0.0


@pytest.mark.parametrize("duration", [0.0, 1.0, 5.0, SHORT_RUN])
def test_short_run_is_waited_for_beyond_its_usual_end(duration: float) -> None:
    assert duration < seconds_in_worker([[duration] * 5]) <= 2 * SHORT_RUN


def test_one_slow_run_among_many_short_ones_changes_nothing() -> None:
    assert seconds_in_worker([[900.0, *[1.0] * 9]]) == seconds_in_worker([[1.0] * 10])


def test_several_slow_runs_count() -> None:
    assert seconds_in_worker([[900.0, 1.0, 900.0, 1.0]]) == 0.0


def test_one_long_run_of_several_defers_the_task() -> None:
    assert seconds_in_worker([SHORT, LONG]) == 0.0


def test_queued_runs_start_after_the_short_run_of_several() -> None:
    assert seconds_in_worker([SHORT, LONG], any_of_them=True) == seconds_in_worker([SHORT])


@pytest.mark.parametrize("setting", [0.0, 3.0, 120.0])
def test_setting_overrides_the_history(setting: float) -> None:
    assert seconds_in_worker([SHORT, LONG, []], defer_after=setting) == setting


def test_nothing_active_defers_at_once() -> None:
    assert seconds_in_worker([]) == 0.0


def test_run_without_history_may_be_short() -> None:
    assert is_short([])
    assert is_short(SHORT)
    assert not is_short(LONG)
    assert is_short([SHORT_RUN])
    assert not is_short([SHORT_RUN + 0.1])


def test_worker_time_follows_the_usual_duration() -> None:
    assert seconds_in_worker([[4.0]]) == 8.0
    assert seconds_in_worker([[4.0], [6.0]]) == 11.0


@pytest.mark.parametrize(
    ("poke_interval", "first", "later"),
    [(60.0, [0.2, 0.4, 0.8, 1.0, 1.0], 60.0), (0.5, [0.2, 0.4, 0.5, 0.5, 0.5], 0.5), (0.0, [0.2] * 5, 0.2)],
)
def test_a_sensor_polls_more_often_at_first(poke_interval: float, first: list[float], later: float) -> None:
    intervals = list(islice(sensor_intervals(poke_interval), 100))
    assert intervals[:5] == pytest.approx(first)
    assert intervals[-1] == later
    early = intervals[: intervals.index(later)] if later > 1 else intervals
    assert max(early) <= 1.0
    if later > 1:
        assert 15.0 <= sum(early) < 16.0
