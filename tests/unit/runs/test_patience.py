"""Tests of the backoff of a sensor, and of the failures that end it."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.runs.errors import LostContactError, RunError
from airflow_provider_datapipe.runs.patience import Patience, is_final

NOW = 1_000.0
DOWN = ServerError("down", status=503)
MISSING = NotFoundError("gone", status=404)


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        (MISSING, True, True),
        (InvalidRequestError("invalid", status=400), True, True),
        (InvalidInputError("empty"), True, True),
        (RunError("failed"), True, True),
        (AuthenticationError("key", status=401), True, False),
        (PermissionDeniedError("denied", status=403), True, False),
        (ConfigurationError("host"), True, False),
        (InvalidRequestError("invalid", status=422), True, False),
        (DOWN, False, False),
        (TransportError("closed", sent=True), False, False),
        (RateLimitError("slow", status=429), False, False),
    ],
)
def test_failures_that_end_a_wait(error: DatapipeError, *, before: bool, after: bool) -> None:
    """Some failures are final only before the first answer."""
    assert is_final(error, was_answered=False) is before
    assert is_final(error, was_answered=True) is after
    patience = Patience(NOW)
    assert patience.is_final(error, NOW) is before
    if error.__class__ is not NotFoundError and getattr(error, "status", None) != 400:
        patience.answered(NOW)
        assert patience.was_answered
        assert patience.is_final(error, NOW) is after


@pytest.mark.parametrize("polled_before", [False, True])
def test_a_deleted_resource_is_final_after_the_grace(*, polled_before: bool) -> None:
    patience = Patience(NOW, polled_before=polled_before)
    if not polled_before:
        patience.answered(NOW)
    assert patience.was_answered is not polled_before
    answers = [patience.is_final(MISSING, NOW + seconds) for seconds in (0, 30, 59, 60)]
    assert answers == [False, False, False, True]
    # One answer with the resource starts the grace again.
    patience.answered(NOW + 60)
    assert not patience.is_final(MISSING, NOW + 61)
    assert not patience.is_final(MISSING, NOW + 120)
    assert patience.is_final(MISSING, NOW + 121)


def test_delays_of_a_missing_resource_end_with_the_grace() -> None:
    patience, now, delays = Patience(NOW, polled_before=True), NOW, []
    while not patience.is_final(MISSING, now):
        delays.append(patience.failed(MISSING, now, 5))
        now += delays[-1]
    assert now == NOW + 60
    assert all(1.5 * 2**n <= delay <= 3 * 2**n for n, delay in enumerate(delays[:-1]))


def test_delays_double_up_to_a_limit() -> None:
    patience = Patience(NOW)
    assert [patience.failed(DOWN, NOW, 5) for _ in range(8)] == [5, 10, 20, 40, 80, 160, 300, 300]
    patience.answered(NOW)
    assert patience.failed(DOWN, NOW, 5) == 5
    assert [Patience(NOW).failed(DOWN, NOW, 400), Patience(NOW).failed(DOWN, NOW, 0.1)] == [400, 0.1]


def test_retry_after_extends_a_delay() -> None:
    patience = Patience(NOW)
    assert patience.failed(RateLimitError("slow", status=429, retry_after=80), NOW, 5) == 80
    assert patience.failed(RateLimitError("slow", status=429, retry_after=2), NOW, 5) == 10


def test_half_an_hour_without_an_answer_is_lost_contact() -> None:
    patience = Patience(NOW)
    patience.answered(NOW + 100)
    patience.failed(DOWN, NOW + 1899.9, 5)
    with pytest.raises(LostContactError) as caught:
        patience.failed(DOWN, NOW + 1900, 5)
    assert str(caught.value) == (
        f"Contact with the service was lost for 1800 s.\n{DOWN}\nCorrect the cause, then run this task again."
    )


def test_a_missing_resource_is_no_lost_contact() -> None:
    patience = Patience(NOW, polled_before=True)
    assert not patience.is_final(MISSING, NOW + 1700)
    # Without the answer at 1700, this would be lost contact.
    assert patience.failed(DOWN, NOW + 3499, 5) == 5


def test_a_loss_of_contact_and_its_end_are_logged_once() -> None:
    patience = Patience(NOW)
    assert patience.contact_line(None, NOW) is None
    assert patience.contact_line(MISSING, NOW) == (logging.WARNING, str(MISSING))
    assert patience.lost_since is None
    first = patience.contact_line(DOWN, NOW + 1)
    assert first is not None
    assert str(DOWN) in first[1]
    assert patience.contact_line(DOWN, NOW + 2) is None
    assert patience.lost_since == NOW + 1
    last = patience.contact_line(None, NOW + 91)
    assert last is not None
    assert (patience.lost_since, last[0]) == (None, logging.INFO)
    assert patience.contact_line(None, NOW + 92) is None


def test_a_logged_loss_of_contact_is_not_logged_again() -> None:
    patience = Patience(NOW, lost_since=NOW - 60)
    assert patience.lost_since == NOW - 60
    assert patience.contact_line(DOWN, NOW) is None
    assert patience.contact_line(None, NOW + 1) is not None
