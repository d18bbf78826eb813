"""Polling intervals by the durations of earlier runs: bounds, stored durations, and simulated waits."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_datapipe.runs import poll_interval
from airflow_provider_datapipe.runs.models import KEPT_DURATIONS
from airflow_provider_datapipe.runs.poll_interval import RunDurations, next_poll
from tests.support.documents import pages
from tests.support.simulated_waits import (
    FAMILIES,
    FULL_PRICE_AFTER,
    PRICE,
    Case,
    Family,
    adaptive,
    alike,
    drawn,
    fixed,
    groups,
    growing,
    measure,
    poll_ages,
    quantile,
    results,
    table,
)

DURATIONS = st.one_of(
    st.floats(0, 1e9),
    st.floats(0, 7200),
    # Equal durations and durations of nearly zero.
    st.sampled_from([0.0, 5e-324, 1.0, 600.0, 600.5]),
)
HISTORIES = st.lists(DURATIONS, max_size=KEPT_DURATIONS).map(RunDurations.of)
AGES = st.one_of(st.floats(0, 1e9), st.floats(0, 7200))
BOUNDS = st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)).map(sorted)


@given(AGES, HISTORIES, BOUNDS)
@example(0.0, RunDurations(), [2.0, 60.0])
@example(1e300, RunDurations((1e9,)), [2.0, 60.0])
def test_interval_is_within_the_bounds(age: float, history: RunDurations, bounds: Sequence[float]) -> None:
    fastest, slowest = bounds
    assert fastest <= next_poll(age, history, fastest=fastest, slowest=slowest) <= slowest
    assert next_poll(age, history, fastest=fastest, slowest=fastest) == fastest


@given(AGES, HISTORIES)
def test_interval_without_bounds_is_positive_and_finite(age: float, history: RunDurations) -> None:
    seconds = history.interval(age)
    assert 0 < seconds < math.inf


@given(
    st.lists(st.floats(1, 7200), min_size=1, max_size=KEPT_DURATIONS).map(RunDurations.of),
    st.integers(0, KEPT_DURATIONS - 1),
    # The interval changes near the end of an earlier run.
    st.tuples(st.floats(0.5, 1.5), st.floats(0.5, 1.5)).map(sorted),
    BOUNDS | st.just([0.01, 1e6]),
)
@example(RunDurations((600.0,)), 0, [0.7, 0.8], [0.01, 1e6])
def test_later_poll_never_makes_the_next_poll_earlier(
    history: RunDurations, run: int, shares: Sequence[float], bounds: Sequence[float]
) -> None:
    duration = history.durations[run % len(history.durations)]
    fastest, slowest = bounds
    early, late = (
        age + next_poll(age, history, fastest=fastest, slowest=slowest)
        for age in (share * duration for share in shares)
    )
    assert early <= late * (1 + 1e-12)


@given(st.tuples(AGES, AGES).map(sorted))
def test_interval_without_earlier_runs_grows_with_the_age(ages: Sequence[float]) -> None:
    first, second = (RunDurations().interval(age) for age in ages)
    # Tolerance for rounding of large floats.
    assert first <= second * (1 + 1e-6) + 1e-6


@given(st.lists(st.floats(0, 7200), min_size=1, max_size=KEPT_DURATIONS), st.tuples(AGES, AGES).map(sorted))
def test_interval_of_an_overdue_run_grows_with_the_age(durations: list[float], ages: Sequence[float]) -> None:
    # A late poll costs less only while a run is young.
    history, late = RunDurations.of(durations), max(3 * (max(durations) + 60), 300)
    first, second = (history.interval(late + age) for age in ages)
    assert first <= second * (1 + 1e-6) + 1e-6
    # An overdue run resembles none of the earlier runs, so they no longer affect the interval.
    assert first == pytest.approx(RunDurations().interval(late + ages[0]), rel=1e-6)


@given(st.floats(30, 86400), st.integers(1, KEPT_DURATIONS))
def test_polls_are_most_frequent_around_the_expected_end(duration: float, known: int) -> None:
    history = RunDurations.of([duration] * known)
    young, expected, late = (history.interval(share * duration) for share in (0.3, 1.0, 3.0))
    assert expected < young / 2
    assert expected < late / 2


@given(st.floats(30, 86400))
def test_more_similar_runs_shorten_the_interval_at_the_end(duration: float) -> None:
    at_the_end = [RunDurations.of([duration] * known).interval(duration) for known in (0, 1, 5, 20)]
    while_young = [RunDurations.of([duration] * known).interval(duration * 0.3) for known in (0, 1, 5, 20)]
    assert at_the_end == sorted(at_the_end, reverse=True)
    assert while_young[0] < min(while_young[1:])


def test_recent_runs_have_the_largest_weight() -> None:
    now_long = RunDurations.of([1200.0] * 4 + [300.0] * 4)
    now_short = RunDurations.of([300.0] * 4 + [1200.0] * 4)
    assert now_long.interval(300) > now_short.interval(300)
    assert now_long.interval(1200) <= now_short.interval(1200)


def test_histories_with_two_typical_durations() -> None:
    history = RunDurations.of([60.0, 61.0, 1800.0, 59.0, 62.0, 1790.0, 60.0, 58.0, 60.0, 1810.0])
    small = RunDurations.of([one for one in history.durations if one < 100])
    large = RunDurations.of([one for one in history.durations if one > 100])
    assert history.interval(60) < large.interval(60) / 4
    assert history.interval(1800) < small.interval(1800)
    # After 600 s this is not a short run. It may be a long run or resemble none.
    assert small.interval(600) < history.interval(600) < large.interval(600)


# Stored durations.


@given(st.lists(DURATIONS | st.none() | st.floats() | st.text() | st.integers(), max_size=50))
@example([math.nan, math.inf, -1, None, "600", 10**400, [], {}])
def test_unusable_durations_of_the_service_are_dropped(durations: list[object]) -> None:
    history = RunDurations.of(durations)
    usable = [one for one in durations if isinstance(one, int | float) and 0 <= one <= 1e9]
    assert history.durations == pytest.approx(tuple(usable[:KEPT_DURATIONS]), rel=0.006)


def test_newest_durations_are_stored_with_three_digits() -> None:
    assert RunDurations.of(600.4321 + run for run in range(500)).durations == tuple(
        float(600 + run) for run in range(KEPT_DURATIONS)
    )
    assert RunDurations.of([0.123456, None, 98765]).durations == (0.123, 98800)


@given(HISTORIES, AGES)
def test_json_round_trip(history: RunDurations, age: float) -> None:
    text = json.dumps(history.durations)
    again = RunDurations.of(json.loads(text))
    assert again == history
    assert again.interval(age) == history.interval(age)
    assert len(text) <= 220


def test_empty_durations() -> None:
    assert RunDurations() == RunDurations.of([]) == RunDurations.of([None])
    assert RunDurations() != RunDurations.of([0])


@pytest.mark.parametrize("duration", [-1.0, math.nan, math.inf, 2e9])
def test_an_invalid_duration_is_rejected(duration: float) -> None:
    with pytest.raises(ValueError, match="contain an invalid value"):
        RunDurations((600.0, duration))


@pytest.mark.parametrize(
    ("fastest", "slowest"), [(61, 60), (0, 60), (-1, 60), (2, math.inf), (math.nan, 60), (2, math.nan), (0, 0)]
)
def test_invalid_bounds_are_refused(fastest: float, slowest: float) -> None:
    with pytest.raises(ValueError, match=rf"fastest \({fastest} s\) must not exceed slowest \({slowest} s\)"):
        next_poll(10, RunDurations(), fastest=fastest, slowest=slowest)


def test_negative_age_counts_as_zero() -> None:
    at_once, *earlier = (next_poll(age, RunDurations.of([600]), fastest=2, slowest=60) for age in (0, -1, -math.inf))
    assert earlier == [at_once] * 2


@pytest.mark.parametrize("age", [math.nan, math.inf])
def test_non_finite_age_is_refused(age: float) -> None:
    with pytest.raises(ValueError, match="must be a number of seconds"):
        next_poll(age, RunDurations(), fastest=2, slowest=60)


# Simulated waits.

WITH_HISTORY = ("adaptive, 1 earlier run", "adaptive, 5 earlier runs", "adaptive, 20 earlier runs")
WITHOUT_HISTORY = "adaptive, no earlier run"
FIXED = ("every 5 s", "every 15 s", "every 60 s")
GROUPS = tuple(groups())
SHORT = "Runs of about a minute"


@pytest.mark.slow
def test_table_in_the_docs_is_up_to_date() -> None:
    page = pages()["docs/polling.md"]
    begin, end = "<!-- table: python -m tests.support.simulated_waits -->\n", "<!-- end of table -->\n"
    assert page.partition(begin)[2].partition(end)[0].strip() == table().strip()


def test_simulation_uses_the_price_of_the_code() -> None:
    assert pytest.approx(poll_interval._FULL_PRICE - poll_interval._BLUR) == FULL_PRICE_AFTER
    assert PRICE == poll_interval._PRICE


@pytest.mark.parametrize("group", GROUPS)
def test_history_reduces_polls_and_delays(group: str) -> None:
    seen = results()[group]
    without, every_15_s, known = seen[WITHOUT_HISTORY], seen["every 15 s"], [seen[name] for name in WITH_HISTORY]
    assert max(one.cost for one in known) < min(seen[name].cost for name in FIXED)
    assert max(one.cost for one in known) < 0.95 * without.cost
    # One earlier run shortens the delays in most groups, but not in all.
    assert all(quantile(one.delays, 0.5) < quantile(without.delays, 0.5) for one in known[1:])
    if "hour" not in group and "minute" in group:
        assert all(quantile(one.delays, 0.5) < quantile(every_15_s.delays, 0.5) for one in known[1:])
    if group == SHORT:
        assert all(quantile(one.delays, 0.5) < 1.0 for one in known[1:])
        # The number of polls exceeds that of a 5 s interval by less than 2.
        assert all(one.polls < seen["every 5 s"].polls + 2 for one in known[1:])
    else:
        assert all(one.polls < min(0.8 * without.polls, 0.67 * every_15_s.polls) for one in known)


def test_without_a_history_no_fixed_interval_is_far_better() -> None:
    def worst(name: str) -> float:
        return max(seen[name].cost / min(seen[other].cost for other in FIXED) for seen in results().values())

    assert worst(WITHOUT_HISTORY) < 1.4
    assert all(worst(name) > 1.8 for name in FIXED)


@pytest.mark.parametrize("typical", [600, 1200])
@pytest.mark.parametrize("family", [alike, growing])
@pytest.mark.parametrize("known", [5, 20])
def test_similar_runs_need_fewer_polls_and_less_delay_than_15_s(typical: float, family: Family, known: int) -> None:
    cases = drawn(family, typical, 300, failing=0)
    ours, every = measure(cases, adaptive(known)), measure(cases, fixed(15))
    assert ours.polls < every.polls
    assert quantile(ours.delays, 0.5) < quantile(every.delays, 0.5)
    assert quantile(ours.delays, 0.95) < quantile(every.delays, 0.95)


@pytest.mark.parametrize("family", FAMILIES)
def test_long_runs_have_less_delay_than_with_60_s(family: Family) -> None:
    cases = drawn(family, 3600, 150)
    ours, every = measure(cases, adaptive(20)), measure(cases, fixed(60))
    assert ours.polls < 1.75 * every.polls
    assert quantile(ours.delays, 0.5) < 0.7 * quantile(every.delays, 0.5)


@pytest.mark.parametrize("position", [0, 10, 19])
@pytest.mark.parametrize("absurd", [0.0, 1.0, 1e6, 1e9])
def test_one_outlier_changes_the_cost_by_less_than_30_percent(position: int, absurd: float) -> None:
    cases = drawn(alike, 600, 100)
    spoilt = [
        Case(case.duration, [absurd if at == position else one for at, one in enumerate(case.earlier)])
        for case in cases
    ]
    assert measure(spoilt, adaptive(20)).cost < 1.3 * measure(cases, adaptive(20)).cost


@pytest.mark.parametrize("factor", [0.2, 0.5, 2, 5])
def test_cost_of_a_misleading_history_is_bounded(factor: float) -> None:
    cases = [Case(case.duration * factor, case.earlier) for case in drawn(alike, 600, 100, failing=0)]
    assert measure(cases, adaptive(20)).cost < 3.5 * measure(cases, adaptive(0)).cost


CONSTANTS = ("_BLUR", "_LATE", "_EARLY", "_UNLIKE", "_SPREAD", "_SPREAD_WEIGHT", "_LEAST_SPREAD", "_PRICE")


@pytest.mark.slow
def test_changed_constants_are_not_much_better(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another seed than that of the tables.
    cases = [[case for family in FAMILIES for case in drawn(family, size, 25, seed=7)] for size in (60, 600, 3600)]

    def costs() -> list[float]:
        return [measure(group, adaptive(known)).cost for group in cases for known in (0, 1, 20)]

    chosen = costs()
    tried = [(name, factor * getattr(poll_interval, name)) for name in CONSTANTS for factor in (0.5, 2)]
    for name, value in [*tried, ("_FADING", 0.7), ("_FADING", 1.0)]:
        with monkeypatch.context() as patch:
            patch.setattr(poll_interval, name, value)
            assert mean(other / ours for other, ours in zip(costs(), chosen, strict=True)) > 0.98, (name, value)


@given(st.floats(0, 7200), HISTORIES)
def test_number_of_polls_is_within_the_bounds(duration: float, history: RunDurations) -> None:
    ages = list(poll_ages(duration, lambda age: next_poll(age, history, fastest=2, slowest=60)))
    assert duration / 60 <= len(ages) <= duration / 2 + 1
    assert all(2 * 0.999 <= later - earlier <= 60 * 1.001 for earlier, later in pairwise(ages))
