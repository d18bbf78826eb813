"""Permits of the rate limit, with simulated time, and their state in a file."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api import shared_rate_limit as module
from airflow_provider_datapipe.api.endpoints import elt_streams
from airflow_provider_datapipe.api.errors import ConfigurationError, PermitTimeoutError
from airflow_provider_datapipe.api.rate_limit import LOWEST_RATE, RateLimit
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.api.shared_rate_limit import SharedRateLimit, shared_rate_limit

RATES = st.floats(min_value=0.02, max_value=1_000)
#: Seconds between two requests of a caller.
PAUSES = st.lists(st.one_of(st.just(0.0), st.floats(min_value=0, max_value=30)), min_size=1, max_size=200)
REQUEST = elt_streams.get("s")
SETTINGS = Settings("http://127.0.0.1:1", "key", max_requests_per_second=10, connection="the Airflow connection `x`")


def delay_of(limit: RateLimit, now: float) -> float:
    delay = limit.reserve(now)
    assert delay is not None
    return delay


def permits(limit: RateLimit, pauses: list[float], now: float = 1_000.0) -> list[float]:
    """Return the times of the permits, for callers that do not wait for each other."""
    times = []
    for pause in pauses:
        now += pause
        times.append(now + delay_of(limit, now))
    return times


def most_within(times: list[float], seconds: float) -> int:
    """Return the largest number of times in a window."""
    return max(bisect_left(times, at + seconds) - position for position, at in enumerate(times))


@given(RATES, PAUSES, st.floats(min_value=0.01, max_value=60))
def test_no_window_has_more_permits_than_the_rate(rate: float, pauses: list[float], window: float) -> None:
    times = permits(RateLimit(rate), pauses)
    assert times == sorted(times)
    assert most_within(times, window) <= max(rate * (window + 0.1), rate * window + 1) * (1 + 1e-6) + 1e-3 + 1


@given(RATES, st.integers(min_value=1, max_value=300))
def test_permits_use_the_whole_rate_under_load(rate: float, count: int) -> None:
    *_, last = permits(RateLimit(rate), [0.0] * count)
    assert last - 1_000.0 == pytest.approx(max(count - max(1.0, rate * 0.1), 0) / rate, abs=1e-6)


@given(RATES, PAUSES)
def test_a_caller_that_waits_loses_no_permit(rate: float, pauses: list[float]) -> None:
    limit, now = RateLimit(rate), 1_000.0
    for pause in pauses:
        now += min(pause, 0.5 / rate)
        now += delay_of(limit, now)
    # Pauses that are shorter than the interval do not add to it.
    assert now - 1_000.0 <= (len(pauses) + 0.5) / rate


@given(RATES, st.lists(st.tuples(st.booleans(), st.floats(min_value=0, max_value=30)), max_size=200))
def test_the_rate_stays_between_its_bounds(rate: float, answers: list[tuple[bool, float]]) -> None:
    limit, now = RateLimit(rate), 1_000.0
    for refused, pause in answers:
        now += pause
        before = limit.rate
        if refused:
            limit.refused(now)
            assert limit.rate in (before, max(before / 2, min(rate, LOWEST_RATE)))
        else:
            limit.answered(now)
            assert limit.rate >= before
        assert min(rate, LOWEST_RATE) <= limit.rate <= rate
        # The state survives in another process.
        other = RateLimit(rate)
        other.unpack(limit.pack(), now)
        assert (other.rate, other.pack()) == (limit.rate, limit.pack())


def test_a_permit_that_comes_too_late_is_not_reserved() -> None:
    limit = RateLimit(1)
    assert [limit.reserve(0.0, longest) for longest in (0.0, 0.5, 1.0, 1.5, 2.0)] == [0.0, None, 1.0, None, 2.0]


def test_refusals_within_a_second_count_once() -> None:
    limit = RateLimit(16)
    assert [limit.refused(at) for at in (0.0, 0.1, 0.9, 1.0)] == [True, False, False, True]
    assert limit.rate == 4


def test_minutes_of_answers_restore_the_rate() -> None:
    limit = RateLimit(10)
    limit.refused(0.0)
    for second in range(1, 150):
        limit.answered(second)
        assert limit.rate < 10
    limit.answered(151)
    assert (limit.rate, limit.is_reduced) == (10, False)


def test_an_idle_time_does_not_restore_the_rate() -> None:
    limit = RateLimit(10)
    limit.refused(0.0)
    limit.answered(3_600.0)
    assert limit.rate < 5.5


@pytest.mark.parametrize("processes", [1, 2, 4, 8])
def test_unknown_processes_converge_below_the_service_limit(processes: int) -> None:
    """Each process has the whole rate. The service accepts 10 requests in each second."""
    limits, now, seconds = [RateLimit(10) for _ in range(processes)], 0.0, 600
    due = [delay_of(limit, now) for limit in limits]
    accepted: list[float] = []
    refused = 0
    while now < seconds:
        now = min(due)
        index = due.index(now)
        if len(accepted) - bisect_left(accepted, now - 1) >= 10:
            refused += 1
            limits[index].refused(now)
        else:
            accepted.append(now)
            limits[index].answered(now)
        due[index] = now + delay_of(limits[index], now)
    assert refused / (refused + len(accepted)) < 0.01 * processes
    assert len(accepted) / seconds > 6


def test_a_state_of_before_a_restart_of_the_machine_is_ignored() -> None:
    before = RateLimit(10)
    before.reserve(1_000_000.0)
    after = RateLimit(10)
    after.unpack(before.pack(), 5.0)
    assert after.reserve(5.0) == 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_limits", {})
    return tmp_path / f"airflow-provider-datapipe-{os.getuid()}"


def other_process(monkeypatch: pytest.MonkeyPatch, settings: Settings = SETTINGS) -> SharedRateLimit:
    monkeypatch.setattr(module, "_limits", {})
    limit = shared_rate_limit(settings)
    assert limit is not None
    return limit


def test_clients_and_processes_share_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shared_rate_limit(SETTINGS)
    assert first is shared_rate_limit(SETTINGS)
    assert first is not None
    second = other_process(monkeypatch)
    assert second is not first
    delays = [limit.reserve(REQUEST) for _ in range(5) for limit in (first, second)]
    assert delays[-1] > 0.8
    first.answered(429)
    assert second.reserve(REQUEST) - delays[-1] < 0.15
    # The rate is half of what it was, for the other process as well.
    assert second.reserve(REQUEST) - second.reserve(REQUEST) == pytest.approx(-0.2, abs=0.05)
    (file,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_request_that_may_not_wait_is_not_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = other_process(monkeypatch)
    assert limit.reserve(REQUEST) == 0
    with pytest.raises(PermitTimeoutError, match="GET /elt_streams/s was not sent: the rate limit of the Airflow conn"):
        limit.reserve(replace(REQUEST, permit_by=time.time() - 5))
    assert 0.05 < limit.reserve(replace(REQUEST, permit_by=time.time() + 5)) <= 0.1


def test_connections_have_separate_limits(folder: Path) -> None:
    others = [replace(SETTINGS, connection="the Airflow connection `y`"), replace(SETTINGS, base_url="http://[::1]:1")]
    assert len({shared_rate_limit(settings) for settings in [SETTINGS, *others]}) == 3
    assert shared_rate_limit(Settings("http://127.0.0.1:1", "key")) is None


def test_a_changed_rate_applies_to_the_next_request(folder: Path) -> None:
    limit = shared_rate_limit(SETTINGS)
    assert shared_rate_limit(replace(SETTINGS, max_requests_per_second=1_000)) is limit
    assert limit is not None
    assert max(limit.reserve(REQUEST) for _ in range(50)) < 0.2


@pytest.mark.parametrize("state", [b"", b"damaged", b"\xff" * 64], ids=["empty", "short", "not a number"])
def test_a_damaged_file_is_replaced(folder: Path, state: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = other_process(monkeypatch)
    limit.reserve(REQUEST)
    (file,) = folder.iterdir()
    file.write_bytes(state)
    assert [other_process(monkeypatch).reserve(REQUEST) > 0 for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize("with_folder", [True, False])
def test_a_deleted_file_is_created_again(folder: Path, monkeypatch: pytest.MonkeyPatch, *, with_folder: bool) -> None:
    limit = other_process(monkeypatch)
    limit.reserve(REQUEST)
    (file,) = folder.iterdir()
    file.unlink()
    if with_folder:
        folder.rmdir()
    limit.reserve(REQUEST)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert other_process(monkeypatch).reserve(REQUEST) > 0.15


def test_a_lock_that_is_not_released_delays_no_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = other_process(monkeypatch)
    limit.reserve(REQUEST)
    (file,) = folder.iterdir()
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert [limit.reserve(REQUEST) < 1 for _ in range(3)] == [True] * 3


def test_another_users_folder_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    limit = other_process(monkeypatch)
    assert [limit.reserve(REQUEST) > 0 for _ in range(3)] == [False, True, True]
    assert list(folder.iterdir()) == []
    assert "is not private to this user" in caplog.text


def test_a_symbolic_link_is_not_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other_process(monkeypatch).reserve(REQUEST)
    (file,) = folder.iterdir()
    file.unlink()
    victim = tmp_path / "victim"
    victim.write_text("kept")
    file.symlink_to(victim)
    limit = other_process(monkeypatch)
    assert [limit.reserve(REQUEST) > 0 for _ in range(3)] == [False, True, True]
    assert victim.read_text() == "kept"
    assert "applies to each process by itself" in caplog.text


def test_a_reduction_is_logged_with_the_connection(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limit = other_process(monkeypatch)
    limit.answered(429)
    limit.answered(429)
    assert caplog.messages == [
        "The service answered 429: requests of the Airflow connection `x` are reduced to 5 per second."
    ]


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_an_invalid_rate_is_refused(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="max_requests_per_second must be a number above 0"):
        Settings("http://127.0.0.1:1", "key", max_requests_per_second=rate)


@pytest.mark.parametrize("call", ["pread", "pwrite"])
def test_a_full_disk_fails_no_request(folder: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(os, call, Mock(side_effect=OSError(errno.ENOSPC, "full")))
    limit = other_process(monkeypatch)
    assert [limit.reserve(REQUEST) > 0 for _ in range(3)] == [False, True, True]


def test_a_disk_that_becomes_full_keeps_the_rate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = other_process(monkeypatch)
    assert limit.reserve(REQUEST) == 0
    # The file keeps the state of the first request.
    monkeypatch.setattr(os, "pwrite", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    assert max(limit.reserve(REQUEST) for _ in range(10)) > 0.8
