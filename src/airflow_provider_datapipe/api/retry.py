"""Retry policy of the API client, and the backoff of all requests."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from airflow_provider_datapipe.api.errors import ApiError, DatapipeError, RateLimitError, ServerError, TransportError
from airflow_provider_datapipe.api.request import Repeat

#: Longest ``Retry-After`` that is honored, in seconds. After that time, the client sends one request as a test.
LONGEST_RETRY_AFTER = 300.0
#: Values above a day (in seconds) are treated as errors of the service and ignored.
_ABSURD = 86_400.0
#: Larger numbers are Unix times instead of delays.
_POINT_IN_TIME = 1e9
#: Transient server errors (507: no storage). Others, such as 501, are permanent.
_PASSING = frozenset({500, 502, 503, 504, 507})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """
    Time limits for retries.

    :param budget: seconds after the first attempt in which a retry may start; 0 disables retries.
    :param first_delay: seconds before the first retry; doubled for each further one.
    :param longest_delay: maximum delay between two attempts, in seconds.
    """

    budget: float = 60.0
    first_delay: float = 0.5
    longest_delay: float = 20.0


def may_send_again(error: DatapipeError, repeat: Repeat) -> bool:
    """
    Return True if a failed attempt may be retried.

    A request that did not reach the service, or that was rejected with 429, may always be retried. A request that the
    service may have processed is retried only if it is safe to repeat. A conflict (409) is never retried.

    :param error: failure of the attempt.
    :param repeat: effect of sending the request twice.
    """
    if isinstance(error, RateLimitError):
        return True
    if isinstance(error, TransportError):
        return repeat.is_safe or not error.sent
    return isinstance(error, ServerError) and error.status in _PASSING and repeat.is_safe


def backoff_delay(failures: int, *, first: float, longest: float, jitter: float | None = None) -> float:
    """
    Return the delay after failures in seconds: doubled after each one, capped, and reduced by up to half at random.

    :param failures: number of consecutive failures, at least 1.
    :param first: delay after the first failure, before the reduction.
    :param longest: the longest delay.
    :param jitter: number from 0 to 1 that spreads the requests of many clients; None for a random number.
    """
    # The limit of the exponent avoids an overflow.
    delay = min(longest, first * 2.0 ** min(failures - 1, 30))
    return delay * (0.5 + (_random() if jitter is None else jitter) / 2)


def _random() -> float:
    return random.random()  # noqa: S311 - jitter, not security


def delay_before(
    attempt: int, error: DatapipeError, *, elapsed: float, policy: RetryPolicy, jitter: float | None = None
) -> float | None:
    """
    Return the delay before the next attempt in seconds, or None to give up.

    :param attempt: number of attempts made.
    :param error: failure of the last attempt; its ``retry_after`` is honored, see :func:`requested_delay`.
    :param elapsed: seconds since the start of the first attempt.
    :param policy: time limits.
    :param jitter: number from 0 to 1 that spreads the attempts of many clients; None for a random number.
    """
    jitter = _random() if jitter is None else jitter
    delay = backoff_delay(attempt, first=policy.first_delay, longest=policy.longest_delay, jitter=jitter)
    asked = requested_delay(error)
    if asked is not None:
        # Never earlier than requested; jitter spreads the clients. The backoff is the minimum, because some services
        # always send 0.
        delay = max(delay, asked + jitter * min(1.0, policy.first_delay))
    return delay if elapsed + delay <= policy.budget else None


def requested_delay(error: DatapipeError) -> float | None:
    """
    Return the ``retry_after`` of an error in seconds, at most :data:`LONGEST_RETRY_AFTER`.

    :param error: failure of a request.
    :return: None if the service sent no ``Retry-After``.
    """
    asked = error.retry_after if isinstance(error, ApiError) else None
    return None if asked is None else min(asked, LONGEST_RETRY_AFTER)


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """
    Return the ``Retry-After`` of a response in seconds from now; None if absent or invalid.

    :param headers: headers of the response, with case-insensitive names.
    """
    # A time refers to the clock of the service, which can differ from the clock of this machine.
    sent_at = date_of(headers)
    return parse_retry_after(headers.get("retry-after"), now=time.time() if sent_at is None else sent_at)


def date_of(headers: Mapping[str, str]) -> float | None:
    """
    Return the ``Date`` of a response in seconds since the epoch (RFC 9110); None if absent or unreadable.

    :param headers: headers of the response, with case-insensitive names.
    """
    try:
        return _parse_date(headers["date"])
    except (LookupError, ValueError, OverflowError):
        return None


def parse_retry_after(value: str | None, *, now: float) -> float | None:
    """
    Parse a ``Retry-After`` header: seconds, an HTTP date, or a Unix time, which some services send.

    :param value: header value, None if absent.
    :param now: current time in seconds since the epoch.
    :return: seconds from now, not negative; None if absent, invalid or more than a day.
    """
    if not value:
        return None
    value = value.strip()
    try:
        if value.isascii() and value.isdigit():
            # Python refuses to parse thousands of digits.
            delay = float(value[:20])
            if delay >= _POINT_IN_TIME:
                delay = max(0.0, delay - now)
        else:
            delay = max(0.0, _parse_date(value) - now)
    except (ValueError, OverflowError):
        return None
    return delay if delay <= _ABSURD else None


def _parse_date(text: str) -> float:
    """
    Parse an HTTP date. A date without a time zone is in UTC, as in the obsolete format of RFC 9110.

    :raises ValueError: if the text is no date.
    :raises OverflowError: if the date is out of range.
    """
    moment = parsedate_to_datetime(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
