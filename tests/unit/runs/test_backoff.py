"""Backoff of a connection and of a sensor, and the failures that end the wait of a sensor."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.runs.backoff import ConnectionBackoff, counts_as_lost, is_of_connection
from airflow_provider_datapipe.runs.conditions.sensor_backoff import SensorBackoff, is_final
from airflow_provider_datapipe.runs.errors import LostContactError, RunError

NOW = 1_000.0
DOWN = ServerError("down", status=503)
LOST = TransportError("closed", sent=True)
MISSING = NotFoundError("gone", status=404)
WRONG_KEY = AuthenticationError("key", status=401)
SLOW_DOWN = RateLimitError("slow down", status=429)
LIMITED = RateLimitError("slow down", status=429, retry_after=90)


def backoff_of(most: int = 16, *, jitter: float = 1.0) -> ConnectionBackoff:
    return ConnectionBackoff(most, jitter=lambda: jitter)


# Connections.


@pytest.mark.parametrize(
    ("error", "of_connection"),
    [
        *((ServerError("", status=status), True) for status in (502, 503, 504)),
        *((error, True) for error in (LOST, RequestTimeoutError("", sent=True), WRONG_KEY, SLOW_DOWN)),
        # Errors of one run do not slow down polls of other runs.
        *((error, False) for error in (ServerError("", status=500), MISSING, ProtocolError(""))),
    ],
)
def test_only_connection_failures_start_the_backoff(error: DatapipeError, *, of_connection: bool) -> None:
    assert is_of_connection(error) is of_connection


def test_failures_double_the_common_pause_up_to_a_limit() -> None:
    connection, now, pauses = backoff_of(), NOW, []
    for _ in range(9):
        # Requests that fail together count once.
        for _ in range(16):
            connection.failed(DOWN, now)
        pauses.append(connection.paused_until - now)
        now = connection.paused_until
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert connection.allowed == 1


def test_after_an_outage_each_response_permits_one_more_request() -> None:
    connection = backoff_of(3)
    assert connection.allowed == 3
    connection.failed(DOWN, NOW)
    assert (connection.allowed, connection.error) == (1, DOWN)
    allowed = []
    for _ in range(4):
        connection.answered(NOW + 2)
        allowed.append(connection.allowed)
    assert allowed == [2, 3, 3, 3]
    assert (connection.paused_until, connection.error) == (0.0, None)


def test_the_limit_of_requests_may_change_later() -> None:
    connection = backoff_of(1)
    connection.widen(16)
    assert connection.allowed == 16
    connection.failed(DOWN, NOW)
    connection.widen(8)
    assert connection.allowed == 1
    for _ in range(20):
        connection.answered(NOW + 2)
    assert connection.allowed == 8


def test_retry_after_outlasts_responses_of_earlier_requests() -> None:
    connection = backoff_of(jitter=0.0)
    connection.failed(LIMITED, NOW)
    connection.answered(NOW + 1)
    assert (connection.paused_until, connection.error) == (NOW + 90, LIMITED)
    connection.answered(NOW + 90)
    assert (connection.paused_until, connection.error) == (0.0, None)


@pytest.mark.parametrize(
    ("failures", "answered_at", "is_lost"),
    [(1, 995.0, False), (1, 990.1, False), (1, 990.0, True), (2, 999.0, True), (1, None, True)],
)
def test_one_failure_after_a_response_is_no_loss_of_contact(
    failures: int, answered_at: float | None, *, is_lost: bool
) -> None:
    assert counts_as_lost(failures, answered_at, NOW) is is_lost


def test_contact_is_lost_after_a_second_failure() -> None:
    connection = backoff_of()
    assert connection.lost is None
    connection.answered(NOW)
    connection.failed(DOWN, NOW + 1)
    assert (connection.error, connection.lost) == (DOWN, None)
    connection.failed(DOWN, NOW + 2)
    assert connection.lost is DOWN
    connection.answered(NOW + 3)
    assert (connection.error, connection.lost) == (None, None)
    connection.failed(DOWN, NOW + 4)
    # The pause starts again with the first step.
    assert (connection.paused_until, connection.lost) == (NOW + 5, None)


def test_a_rate_limit_is_no_lost_contact() -> None:
    connection = backoff_of(jitter=0.0)
    for now in (NOW, 2 * NOW):
        connection.failed(LIMITED, now)
        assert (connection.lost, connection.paused_until, connection.asked_until) == (None, now + 90, now + 90)
    connection = backoff_of(jitter=0.0)
    connection.failed(SLOW_DOWN, NOW)
    assert (connection.lost, connection.paused_until, connection.asked_until) == (None, NOW + 0.5, NOW + 0.5)
    connection.answered(NOW + 0.4)
    assert connection.paused_until == NOW + 0.5
    # A shorter delay does not end a longer one.
    connection.failed(LIMITED, NOW + 0.6)
    connection.failed(RateLimitError("slow down", status=429, retry_after=1), NOW + 1)
    assert connection.paused_until == NOW + 90.6


@given(st.lists(st.tuples(st.sampled_from([None, DOWN, LIMITED]), st.floats(0, 100)), max_size=50), st.floats(0, 0.999))
def test_a_request_is_permitted_again_within_limited_time(
    events: list[tuple[DatapipeError | None, float]], jitter: float
) -> None:
    connection, now = backoff_of(jitter=jitter), NOW
    for error, later in events:
        now += later
        if error is None:
            connection.answered(now)
        else:
            connection.failed(error, now)
        assert 1 <= connection.allowed <= 16
        assert connection.paused_until <= now + 90


# Sensors.


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        *((InvalidRequestError("invalid", status=status), True, True) for status in (400, 404)),
        *((error, True, True) for error in (MISSING, InvalidInputError("empty"), RunError("failed"))),
        *((InvalidRequestError("invalid", status=status), True, False) for status in (422, 423)),
        *((error, True, False) for error in (WRONG_KEY, PermissionDeniedError("", status=403), ConfigurationError(""))),
        *((error, False, False) for error in (DOWN, LOST, SLOW_DOWN)),
    ],
)
def test_failures_that_end_a_wait_before_and_after_an_answer(
    error: DatapipeError, *, before: bool, after: bool
) -> None:
    assert is_final(error, was_answered=False) is before
    assert is_final(error, was_answered=True) is after
    backoff = SensorBackoff(NOW)
    assert backoff.is_final(error, NOW) is before
    backoff.answered(NOW)
    assert backoff.was_answered
    # A resource that existed is final after a grace period.
    assert backoff.is_final(error, NOW) is (after and getattr(error, "status", None) not in (400, 404))


@pytest.mark.parametrize("polled_before", [False, True])
def test_a_deleted_resource_is_final_after_the_grace(*, polled_before: bool) -> None:
    backoff = SensorBackoff(NOW, polled_before=polled_before)
    if not polled_before:
        backoff.answered(NOW)
    assert backoff.was_answered is not polled_before
    assert [backoff.is_final(MISSING, NOW + after) for after in (0, 30, 59, 60)] == [False, False, False, True]
    # One answer with the resource starts the grace again.
    backoff.answered(NOW + 60)
    assert [backoff.is_final(MISSING, NOW + after) for after in (61, 120, 121)] == [False, False, True]


def test_delays_of_a_missing_resource_end_with_the_grace() -> None:
    backoff, now, delays = SensorBackoff(NOW, polled_before=True), NOW, []
    while not backoff.is_final(MISSING, now):
        delays.append(backoff.failed(MISSING, now, 5))
        now += delays[-1]
    assert now == NOW + 60
    assert all(1.5 * 2**n <= delay <= 3 * 2**n for n, delay in enumerate(delays[:-1]))


def slowest_backoff() -> SensorBackoff:
    return SensorBackoff(NOW, jitter=lambda: 1.0)


def test_delays_double_up_to_a_limit_and_honor_retry_after() -> None:
    backoff = slowest_backoff()
    assert [backoff.failed(DOWN, NOW, 5) for _ in range(8)] == [5, 10, 20, 40, 80, 160, 300, 300]
    backoff.answered(NOW)
    assert backoff.failed(DOWN, NOW, 5) == 5
    assert [slowest_backoff().failed(DOWN, NOW, interval) for interval in (400, 0.1)] == [400, 0.1]
    backoff = slowest_backoff()
    assert backoff.failed(LIMITED, NOW, 5) == 90
    assert backoff.failed(RateLimitError("slow", status=429, retry_after=2), NOW, 5) == 10


def test_half_an_hour_without_an_answer_is_lost_contact() -> None:
    backoff = SensorBackoff(NOW)
    backoff.answered(NOW + 100)
    backoff.failed(DOWN, NOW + 1899.9, 5)
    with pytest.raises(LostContactError) as caught:
        backoff.failed(DOWN, NOW + 1900, 5)
    assert str(caught.value) == (
        f"Contact with the service was lost for 1800 s.\n{DOWN}\nCorrect the cause, then run this task again."
    )


def test_a_missing_resource_is_no_lost_contact() -> None:
    backoff = SensorBackoff(NOW, polled_before=True)
    assert not backoff.is_final(MISSING, NOW + 1700)
    # Without the response at 1700, contact would be lost here.
    assert backoff.failed(DOWN, NOW + 3499, 5) == 5


@pytest.mark.parametrize("logged_at", [None, NOW - 60])
def test_a_loss_of_contact_and_its_end_are_logged_once(logged_at: float | None) -> None:
    """The loss may have been logged by another process."""
    backoff = SensorBackoff(NOW, lost_since=logged_at)
    assert backoff.contact_line(MISSING, NOW) == (logging.WARNING, str(MISSING))
    assert backoff.lost_since == logged_at
    if logged_at is None:
        assert backoff.contact_line(None, NOW) is None
        first = backoff.contact_line(DOWN, NOW + 1)
        assert first is not None
        assert str(DOWN) in first[1]
        assert backoff.lost_since == NOW + 1
    assert backoff.contact_line(DOWN, NOW + 2) is None
    last = backoff.contact_line(None, NOW + 91)
    assert last is not None
    assert (backoff.lost_since, last[0]) == (None, logging.INFO)
    assert backoff.contact_line(None, NOW + 92) is None
