from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_datapipe.api.errors import (
    ApiError,
    ConflictError,
    DatapipeError,
    NotFoundError,
    ProtocolError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.request import Repeat
from airflow_provider_datapipe.api.retry import (
    LONGEST_RETRY_AFTER,
    RetryPolicy,
    date_of,
    delay_before,
    may_send_again,
    parse_retry_after,
    requested_delay,
    retry_after_of,
)

NEVER: set[Repeat] = set()
SAFE = {Repeat.READ, Repeat.IDEMPOTENT}


@pytest.mark.parametrize(
    ("error", "repeated"),
    [
        # The service may have executed the request.
        (TransportError("", sent=True), SAFE),
        *((ServerError("", status=status), SAFE) for status in (500, 502, 503, 504, 507)),
        # The service has not executed the request.
        (TransportError("", sent=False), set(Repeat)),
        (RateLimitError("", status=429), set(Repeat)),
        # Another attempt would have the same result.
        (ServerError("", status=501), NEVER),
        (ConflictError("", status=409), NEVER),
        (NotFoundError("", status=404), NEVER),
        (ApiError("", status=418), NEVER),
        (ProtocolError(""), NEVER),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'status', '')}" if isinstance(value, Exception) else "",
)
def test_only_safe_requests_are_retried(error: DatapipeError, repeated: set[Repeat]) -> None:
    assert {repeat for repeat in Repeat if may_send_again(error, repeat)} == repeated


@given(
    attempt=st.integers(1, 10_000),
    elapsed=st.floats(0, 1000),
    jitter=st.floats(0, 1),
    retry_after=st.none() | st.floats(0, 1e9),
)
def test_delays_respect_budget_and_retry_after(
    attempt: int, elapsed: float, jitter: float, retry_after: float | None
) -> None:
    policy = RetryPolicy(budget=60, first_delay=0.5, longest_delay=20)
    error = RateLimitError("", status=429, retry_after=retry_after)
    delay = delay_before(attempt, error, elapsed=elapsed, policy=policy, jitter=jitter)
    if delay is None:
        assert elapsed + (retry_after if retry_after is not None else 0.25) + 20 > 60
        return
    assert elapsed + delay <= 60
    if retry_after is None:
        assert 0.25 <= delay <= 20
    else:
        # A Retry-After of 0 must not cause a loop without pauses.
        assert max(retry_after, 0.25) <= delay <= max(retry_after + 0.5, 20)


def test_delays_double_up_to_the_longest_delay() -> None:
    policy = RetryPolicy(budget=1000, first_delay=1, longest_delay=8)
    error = TransportError("", sent=False)
    delays = [delay_before(n, error, elapsed=0, policy=policy, jitter=1) for n in range(1, 7)]
    assert delays == [1, 2, 4, 8, 8, 8]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("-1", None),
        ("soon", None),
        ("1.5", None),
        ("86400", 86400),
        ("86401", None),
        ("9" * 5000, None),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40),
        ("Sat, 03 Jan 1970 00:00:00 GMT", None),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
        ("Thu, 99 Jan 1970 00:00:01 GMT", None),
    ],
)
def test_parsing_of_retry_after(header: str | None, expected: float | None) -> None:
    assert parse_retry_after(header, now=60) == expected


@pytest.mark.parametrize("date", ["Thu Jan  1 00:01:40 1970", "Thu, 01 Jan 1970 00:01:40 -0000"])
def test_a_date_without_a_time_zone_is_utc(date: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert (parse_retry_after(date, now=60), date_of({"date": date})) == (40, 100)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("after", ["Thu, 01 Jan 1970 00:01:40 GMT", "1795000040"])
def test_retry_after_refers_to_the_clock_of_the_service(after: str) -> None:
    date = "Thu, 01 Jan 1970 00:01:00 GMT" if after.endswith("GMT") else formatdate(1_795_000_000, usegmt=True)
    assert retry_after_of({"retry-after": after, "date": date}) == 40


@pytest.mark.parametrize(("after", "expected"), [(2, 2), (-100, 0), (100_000, None), (10**9, None)])
def test_a_retry_after_in_unix_seconds(after: int, expected: float | None) -> None:
    now = 1_795_000_000
    assert parse_retry_after(str(now + after), now=now) == expected


@pytest.mark.parametrize(("asked", "expected"), [(None, None), (0, 0), (299, 299), (3600, LONGEST_RETRY_AFTER)])
def test_retry_after_is_honored_up_to_a_limit(asked: float | None, expected: float | None) -> None:
    assert requested_delay(RateLimitError("slow down", status=429, retry_after=asked)) == expected
    assert requested_delay(TransportError("", sent=False)) is None


@given(st.text())
def test_arbitrary_retry_after_is_never_negative(header: str) -> None:
    delay = parse_retry_after(header, now=0)
    assert delay is None or delay >= 0
