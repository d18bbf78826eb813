"""Plan of ``make latency``: waves of runs, and their estimated time."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.system.latency.plan import COMPONENTS_OVERHEAD, GAP, MODES, WAVE_OVERHEAD, estimated_seconds, waves_of

DURATIONS = pytest.mark.parametrize("duration", [0.5, 1, 5, 10, 60])
RUNS = pytest.mark.parametrize("runs", [1, 2, 3, 10])


@DURATIONS
@RUNS
def test_each_mode_has_the_requested_number_of_measured_runs(duration: float, runs: int) -> None:
    measured = [wave for wave in waves_of(duration, runs) if not wave.warm_up]
    assert Counter(lane.mode for wave in measured for lane in wave.lanes) == dict.fromkeys(MODES, runs)


@DURATIONS
@RUNS
def test_each_lane_has_one_run_without_history_first(duration: float, runs: int) -> None:
    waves = list(waves_of(duration, runs))
    warm_ups = [lane for wave in waves if wave.warm_up for lane in wave.lanes]
    assert len(set(warm_ups)) == len(warm_ups)
    assert set(warm_ups) == {lane for wave in waves for lane in wave.lanes}
    assert [wave.warm_up for wave in waves] == sorted((wave.warm_up for wave in waves), reverse=True)


@DURATIONS
@RUNS
def test_a_wave_has_one_run_of_a_lane_at_most(duration: float, runs: int) -> None:
    assert all(len(set(wave.lanes)) == len(wave.lanes) for wave in waves_of(duration, runs))


@DURATIONS
@RUNS
def test_tasks_of_a_wave_start_before_its_first_run_ends(duration: float, runs: int) -> None:
    assert all((len(wave.lanes) - 1) * GAP < duration for wave in waves_of(duration, runs) if len(wave.lanes) > 1)


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
