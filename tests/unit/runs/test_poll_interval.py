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

from airflow_provider_datapipe.runs import poll_interval as pace
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
    looks_at,
    measure,
    part,
    recorded,
    results,
    table,
)

DURATIONS = st.one_of(
    st.floats(0, 1e9),
    st.floats(0, 7200),
    # Equal ones, and those that are nearly nothing.
    st.sampled_from([0.0, 5e-324, 1.0, 600.0, 600.5]),
)
HISTORIES = st.lists(DURATIONS, max_size=KEPT_DURATIONS).map(RunDurations.of)
AGES = st.one_of(st.floats(0, 1e9), st.floats(0, 7200))
BOUNDS = st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)).map(sorted)


@given(AGES, HISTORIES, BOUNDS)
@example(0.0, RunDurations(), [2.0, 60.0])
@example(1e300, RunDurations((1e9,)), [2.0, 60.0])
def test_bounds_are_kept(age: float, history: RunDurations, bounds: Sequence[float]) -> None:
    fastest, slowest = bounds
    assert fastest <= next_poll(age, history, fastest=fastest, slowest=slowest) <= slowest
    assert next_poll(age, history, fastest=fastest, slowest=fastest) == fastest


@given(AGES, HISTORIES)
def test_without_bounds_it_goes_on_all_the_same(age: float, history: RunDurations) -> None:
    seconds = history.interval(age)
    assert 0 < seconds < math.inf


@given(
    st.lists(st.floats(1, 7200), min_size=1, max_size=KEPT_DURATIONS).map(RunDurations.of),
    st.integers(0, KEPT_DURATIONS - 1),
    # Where something changes: about the end of an earlier run.
    st.tuples(st.floats(0.5, 1.5), st.floats(0.5, 1.5)).map(sorted),
    BOUNDS | st.just([0.01, 1e6]),
)
@example(RunDurations((600.0,)), 0, [0.7, 0.8], [0.01, 1e6])
def test_a_look_that_comes_later_makes_the_next_one_no_earlier(
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
def test_of_a_run_of_which_nothing_is_known_looks_grow_rarer(ages: Sequence[float]) -> None:
    first, second = (RunDurations().interval(age) for age in ages)
    # Differences of large numbers are not exact.
    assert first <= second * (1 + 1e-6) + 1e-6


@given(st.lists(st.floats(0, 7200), min_size=1, max_size=KEPT_DURATIONS), st.tuples(AGES, AGES).map(sorted))
def test_of_a_run_that_is_late_looks_grow_rarer(durations: list[float], ages: Sequence[float]) -> None:
    # Only while a run is young, a look at it costs less.
    history, late = RunDurations.of(durations), max(3 * (max(durations) + 60), 300)
    first, second = (history.interval(late + age) for age in ages)
    assert first <= second * (1 + 1e-6) + 1e-6
    # And as rare as if nothing had ever been known: this run is like none of them.
    assert first == pytest.approx(RunDurations().interval(late + ages[0]), rel=1e-6)


@given(st.floats(30, 86400), st.integers(1, KEPT_DURATIONS))
def test_looks_are_dense_around_the_expected_end(duration: float, known: int) -> None:
    history = RunDurations.of([duration] * known)
    young, expected, late = (history.interval(share * duration) for share in (0.3, 1.0, 3.0))
    assert expected < young / 2
    assert expected < late / 2


@given(st.floats(30, 86400))
def test_more_runs_that_are_alike_make_surer(duration: float) -> None:
    at_the_end = [RunDurations.of([duration] * known).interval(duration) for known in (0, 1, 5, 20)]
    while_young = [RunDurations.of([duration] * known).interval(duration * 0.3) for known in (0, 1, 5, 20)]
    assert at_the_end == sorted(at_the_end, reverse=True)
    assert while_young[0] < min(while_young[1:])


def test_what_ran_last_counts_most() -> None:
    now_long = RunDurations.of([1200.0] * 4 + [300.0] * 4)
    now_short = RunDurations.of([300.0] * 4 + [1200.0] * 4)
    assert now_long.interval(300) > now_short.interval(300)
    assert now_long.interval(1200) <= now_short.interval(1200)


def test_both_sizes_of_runs_are_expected() -> None:
    history = RunDurations.of([60.0, 61.0, 1800.0, 59.0, 62.0, 1790.0, 60.0, 58.0, 60.0, 1810.0])
    small = RunDurations.of([one for one in history.durations if one < 100])
    large = RunDurations.of([one for one in history.durations if one > 100])
    assert history.interval(60) < large.interval(60) / 4
    assert history.interval(1800) < small.interval(1800)
    # Having got through the small ones, it is a large one, or like none: less is certain than of a large one.
    assert small.interval(600) < history.interval(600) < large.interval(600)


# Stored durations.


@given(st.lists(DURATIONS | st.none() | st.floats() | st.text() | st.integers(), max_size=50))
@example([math.nan, math.inf, -1, None, "600", 10**400, [], {}])
def test_whatever_the_service_gives_can_be_kept(durations: list[object]) -> None:
    history = RunDurations.of(durations)
    usable = [one for one in durations if isinstance(one, int | float) and 0 <= one <= 1e9]
    assert history.durations == pytest.approx(tuple(usable[:KEPT_DURATIONS]), rel=0.006)


def test_the_newest_are_kept_by_three_digits() -> None:
    assert RunDurations.of(600.4321 + run for run in range(500)).durations == tuple(
        float(600 + run) for run in range(KEPT_DURATIONS)
    )
    assert RunDurations.of([0.123456, None, 98765]).durations == (0.123, 98800)


@given(HISTORIES, AGES)
def test_it_survives_json(history: RunDurations, age: float) -> None:
    text = json.dumps(history.as_json())
    again = RunDurations.from_json(json.loads(text))
    assert again == history
    assert again.interval(age) == history.interval(age)
    assert len(text) <= 220


def test_nothing_known() -> None:
    assert (
        RunDurations()
        == RunDurations.of([])
        == RunDurations.of([None])
        == RunDurations.from_json(None)
        == RunDurations.from_json([])
    )
    assert RunDurations() != RunDurations.of([0])
    assert RunDurations().as_json() == []


@pytest.mark.parametrize("duration", [-1.0, math.nan, math.inf, 2e9])
def test_an_invalid_duration_is_rejected(duration: float) -> None:
    with pytest.raises(ValueError, match="contain an invalid value"):
        RunDurations((600.0, duration))


@pytest.mark.parametrize(
    ("fastest", "slowest"), [(61, 60), (0, 60), (-1, 60), (2, math.inf), (math.nan, 60), (2, math.nan), (0, 0)]
)
def test_bounds_that_make_no_sense_are_refused(fastest: float, slowest: float) -> None:
    with pytest.raises(ValueError, match=rf"fastest \({fastest} s\) must not exceed slowest \({slowest} s\)"):
        next_poll(10, RunDurations(), fastest=fastest, slowest=slowest)


def test_clocks_may_differ() -> None:
    at_once, *earlier = (next_poll(age, RunDurations.of([600]), fastest=2, slowest=60) for age in (0, -1, -math.inf))
    assert earlier == [at_once] * 2


@pytest.mark.parametrize("age", [math.nan, math.inf])
def test_an_age_that_is_no_number_is_refused(age: float) -> None:
    with pytest.raises(ValueError, match="must be a number of seconds"):
        next_poll(age, RunDurations(), fastest=2, slowest=60)


# Simulated waits.

KNOWN = ("adaptive, 1 earlier run", "adaptive, 5 earlier runs", "adaptive, 20 earlier runs")
NOTHING_KNOWN = "adaptive, no earlier run"
FIXED = ("every 5 s", "every 15 s", "every 60 s")
GROUPS = tuple(groups())
SHORT = "Runs of about a minute"


@pytest.mark.slow
def test_the_docs_have_what_was_measured() -> None:
    page = pages()["docs/polling.md"]
    begin, end = "<!-- table: python -m tests.support.simulated_waits -->\n", "<!-- end of table -->\n"
    assert page.partition(begin)[2].partition(end)[0].strip() == table().strip()


def test_the_price_is_that_of_the_code() -> None:
    assert pytest.approx(pace._FULL_PRICE - pace._BLUR) == FULL_PRICE_AFTER
    assert PRICE == pace._PRICE


def test_there_are_recorded_runs() -> None:
    assert len(recorded()) == 160


@pytest.mark.parametrize("group", GROUPS)
def test_a_history_makes_polls_cheaper_and_ends_seen_sooner(group: str) -> None:
    seen = results()[group]
    without, every_15_s, known = seen[NOTHING_KNOWN], seen["every 15 s"], [seen[name] for name in KNOWN]
    assert max(one.cost for one in known) < min(seen[name].cost for name in FIXED)
    assert max(one.cost for one in known) < 0.95 * without.cost
    # Of one earlier run that is true in most groups, not in all.
    assert all(part(one.delays, 0.5) < part(without.delays, 0.5) for one in known[1:])
    if "hour" not in group and "minute" in group:
        assert all(part(one.delays, 0.5) < part(every_15_s.delays, 0.5) for one in known[1:])
    if group == SHORT:
        assert all(part(one.delays, 0.5) < 1.0 for one in known[1:])
        # For no more polls than an interval of 5 s takes, and a few.
        assert all(one.schedule < seen["every 5 s"].schedule + 2 for one in known[1:])
    else:
        assert all(one.schedule < min(0.8 * without.schedule, 0.67 * every_15_s.schedule) for one in known)


def test_without_a_history_no_fixed_interval_is_far_better() -> None:
    def worst(name: str) -> float:
        return max(seen[name].cost / min(seen[other].cost for other in FIXED) for seen in results().values())

    assert worst(NOTHING_KNOWN) < 1.4
    assert all(worst(name) > 1.8 for name in FIXED)


@pytest.mark.parametrize("typical", [600, 1200])
@pytest.mark.parametrize("family", [alike, growing])
@pytest.mark.parametrize("known", [5, 20])
def test_for_similar_runs_it_is_better_than_every_15_s(typical: float, family: Family, known: int) -> None:
    cases = drawn(family, typical, 300, failing=0)
    ours, every = measure(cases, adaptive(known)), measure(cases, fixed(15))
    assert ours.schedule < every.schedule
    assert part(ours.delays, 0.5) < part(every.delays, 0.5)
    assert part(ours.delays, 0.95) < part(every.delays, 0.95)


@pytest.mark.parametrize("family", FAMILIES)
def test_of_long_runs_it_sees_ends_sooner_than_every_60_s(family: Family) -> None:
    cases = drawn(family, 3600, 150)
    ours, every = measure(cases, adaptive(20)), measure(cases, fixed(60))
    assert ours.schedule < 1.75 * every.schedule
    assert part(ours.delays, 0.5) < 0.7 * part(every.delays, 0.5)


@pytest.mark.parametrize("position", [0, 10, 19])
@pytest.mark.parametrize("absurd", [0.0, 1.0, 1e6, 1e9])
def test_one_absurd_duration_costs_little(position: int, absurd: float) -> None:
    cases = drawn(alike, 600, 100)
    spoilt = [
        Case(case.duration, [absurd if at == position else one for at, one in enumerate(case.earlier)])
        for case in cases
    ]
    assert measure(spoilt, adaptive(20)).cost < 1.3 * measure(cases, adaptive(20)).cost


@pytest.mark.parametrize("factor", [0.2, 0.5, 2, 5])
def test_a_history_that_misleads_does_bounded_harm(factor: float) -> None:
    cases = [Case(case.duration * factor, case.earlier) for case in drawn(alike, 600, 100, failing=0)]
    assert measure(cases, adaptive(20)).cost < 3.5 * measure(cases, adaptive(0)).cost


CONSTANTS = ("_BLUR", "_LATE", "_EARLY", "_UNLIKE", "_SPREAD", "_SPREAD_WEIGHT", "_LEAST_SPREAD", "_PRICE")


@pytest.mark.slow
def test_no_constant_would_be_much_better_half_or_twice_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other runs than those of the tables.
    cases = [[case for family in FAMILIES for case in drawn(family, size, 25, seed=7)] for size in (60, 600, 3600)]

    def costs() -> list[float]:
        return [measure(group, adaptive(known)).cost for group in cases for known in (0, 1, 20)]

    chosen = costs()
    tried = [(name, factor * getattr(pace, name)) for name in CONSTANTS for factor in (0.5, 2)]
    for name, value in [*tried, ("_FADING", 0.7), ("_FADING", 1.0)]:
        with monkeypatch.context() as patch:
            patch.setattr(pace, name, value)
            assert mean(other / ours for other, ours in zip(costs(), chosen, strict=True)) > 0.98, (name, value)


@given(st.floats(0, 7200), HISTORIES)
def test_a_wait_takes_no_more_looks_than_the_bounds_allow(duration: float, history: RunDurations) -> None:
    ages = list(looks_at(duration, lambda age: next_poll(age, history, fastest=2, slowest=60)))
    assert duration / 60 <= len(ages) <= duration / 2 + 1
    assert all(2 * 0.999 <= later - earlier <= 60 * 1.001 for earlier, later in pairwise(ages))
