"""The pace of a whole connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    DatapipeError,
    NotFoundError,
    ProtocolError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.runs.contact import Contact, counts_as_lost, is_of_connection

DOWN = ServerError("down", status=503)
LIMITED = RateLimitError("slow down", status=429, retry_after=90)


@pytest.mark.parametrize(
    ("error", "of_connection"),
    [
        (TransportError("", sent=True), True),
        (RequestTimeoutError("", sent=True), True),
        (AuthenticationError("", status=401), True),
        (RateLimitError("", status=429), True),
        (ServerError("", status=502), True),
        (ServerError("", status=503), True),
        (ServerError("", status=504), True),
        # One run that the service can't show is no reason to look at the others less.
        (ServerError("", status=500), False),
        (NotFoundError("", status=404), False),
        (ProtocolError(""), False),
    ],
)
def test_what_a_failure_is_about(error: DatapipeError, of_connection: bool) -> None:
    assert is_of_connection(error) is of_connection


def test_failures_double_the_common_pause_up_to_a_limit() -> None:
    contact, now, pauses = Contact(16, jitter=lambda: 1.0), 1000.0, []
    for _ in range(9):
        contact.failed(DOWN, now)
        pauses.append(contact.paused_until - now)
        now = contact.paused_until
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert contact.allowed == 1


def test_those_that_fail_together_count_once() -> None:
    contact = Contact(16, jitter=lambda: 1.0)
    for _ in range(16):
        contact.failed(DOWN, 1000.0)
    assert contact.paused_until == 1001


def test_after_an_outage_each_response_permits_one_more_request() -> None:
    contact = Contact(3, jitter=lambda: 1.0)
    assert contact.allowed == 3
    contact.failed(DOWN, 1000.0)
    assert (contact.allowed, contact.error) == (1, DOWN)
    seen = []
    for _ in range(4):
        contact.answered(1002.0)
        seen.append(contact.allowed)
    assert seen == [2, 3, 3, 3]
    assert (contact.paused_until, contact.error) == (0.0, None)


def test_retry_after_outlasts_responses_of_earlier_requests() -> None:
    contact = Contact(16, jitter=lambda: 0.0)
    contact.failed(LIMITED, 1000.0)
    contact.answered(1001.0)
    assert (contact.paused_until, contact.error) == (1090.0, LIMITED)
    contact.answered(1090.0)
    assert (contact.paused_until, contact.error) == (0.0, None)


def test_how_many_may_go_is_learned_late() -> None:
    contact = Contact(1)
    contact.widen(16)
    assert contact.allowed == 16
    contact.failed(DOWN, 1000.0)
    contact.widen(8)
    assert contact.allowed == 1
    for _ in range(20):
        contact.answered(1002.0)
    assert contact.allowed == 8


@pytest.mark.parametrize(
    ("failures", "answered_at", "is_lost"),
    [(1, 995.0, False), (1, 990.1, False), (1, 990.0, True), (2, 999.0, True), (1, None, True)],
)
def test_one_failure_after_a_response_is_no_lost_contact(
    failures: int, answered_at: float | None, *, is_lost: bool
) -> None:
    assert counts_as_lost(failures, answered_at, 1000.0) is is_lost


def test_contact_is_lost_after_a_second_failure() -> None:
    contact = Contact(16, jitter=lambda: 1.0)
    assert contact.lost is None
    contact.answered(1000.0)
    contact.failed(DOWN, 1001.0)
    assert (contact.error, contact.lost) == (DOWN, None)
    contact.failed(DOWN, 1002.0)
    assert contact.lost is DOWN
    contact.answered(1003.0)
    assert (contact.error, contact.lost) == (None, None)
    contact.failed(DOWN, 1004.0)
    # The pause starts again with the first step.
    assert (contact.paused_until, contact.lost) == (1005.0, None)


def test_a_rate_limit_is_no_lost_contact() -> None:
    contact = Contact(16, jitter=lambda: 0.0)
    for now in (1000.0, 2000.0):
        contact.failed(LIMITED, now)
        assert (contact.lost, contact.paused_until, contact.asked_until) == (None, now + 90, now + 90)
    contact = Contact(16, jitter=lambda: 0.0)
    contact.failed(RateLimitError("slow down", status=429), 1000.0)
    assert (contact.lost, contact.paused_until, contact.asked_until) == (None, 1000.5, 1000.5)
    contact.answered(1000.4)
    assert contact.paused_until == 1000.5
    # A shorter delay does not end a longer one.
    contact.failed(LIMITED, 1000.6)
    contact.failed(RateLimitError("slow down", status=429, retry_after=1), 1001.0)
    assert contact.paused_until == 1090.6


@given(st.lists(st.tuples(st.sampled_from([None, DOWN, LIMITED]), st.floats(0, 100)), max_size=50), st.floats(0, 0.999))
def test_a_request_is_permitted_again_within_limited_time(
    happenings: list[tuple[DatapipeError | None, float]], jitter: float
) -> None:
    contact, now = Contact(16, jitter=lambda: jitter), 1000.0
    for error, later in happenings:
        now += later
        if error is None:
            contact.answered(now)
        else:
            contact.failed(error, now)
        assert 1 <= contact.allowed <= 16
        assert contact.paused_until <= now + 90
