"""Whether a request is sent again, and after how long: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from airflow_provider_datapipe.api.errors import ApiError, DatapipeError, RateLimitError, ServerError, TransportError
from airflow_provider_datapipe.api.request import Repeat

#: The most seconds of a ``Retry-After`` that are honored; then the service is asked once, to see whether it answers.
LONGEST_RETRY_AFTER = 300.0
#: A ``Retry-After`` above so many seconds (a day) is an error of the service, and is ignored.
_ABSURD = 86_400.0
#: A number above this one is a point in time (Unix seconds) instead of a delay.
_POINT_IN_TIME = 1e9
#: Statuses of failures that can end without a change of the request (507: no storage). Others, such as 501, stay.
_PASSING = frozenset({500, 502, 503, 504, 507})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """
    How patient the client is.

    :param budget: seconds from the first attempt in which another attempt may begin; 0 turns retrying off.
    :param first_delay: seconds before the second attempt, doubled for each further one.
    :param longest_delay: the most seconds between two attempts.
    """

    budget: float = 60.0
    first_delay: float = 0.5
    longest_delay: float = 20.0


def may_send_again(error: DatapipeError, repeat: Repeat) -> bool:
    """
    Tell whether an attempt that failed so may be followed by another.

    What surely did not reach the service, or was turned away by its rate limit, may always be sent again. What may
    have been carried out is repeated only where that does no harm. A conflict (409) never goes away by asking again.
    """
    if isinstance(error, RateLimitError):
        return True
    if isinstance(error, TransportError):
        return repeat.is_safe or not error.sent
    return isinstance(error, ServerError) and error.status in _PASSING and repeat.is_safe


def delay_before(
    attempt: int, error: DatapipeError, *, elapsed: float, policy: RetryPolicy, jitter: float
) -> float | None:
    """
    Tell how many seconds to wait before the next attempt, or None to give up.

    :param attempt: how many attempts were made.
    :param error: how the last one failed; its ``retry_after`` is followed, see :func:`honored`.
    :param elapsed: seconds since the first attempt began.
    :param jitter: a random number from 0 to 1, which spreads the attempts of many clients.
    """
    longest = min(policy.longest_delay, policy.first_delay * 2 ** min(attempt - 1, 30))
    delay = longest * (0.5 + jitter / 2)
    asked = honored(error)
    if asked is not None:
        # Never earlier than asked; a little later, so that not everybody comes back at once. Not earlier than without
        # the header either: some services always write 0.
        delay = max(delay, asked + jitter * min(1.0, policy.first_delay))
    return delay if elapsed + delay <= policy.budget else None


def honored(error: DatapipeError) -> float | None:
    """
    Return the seconds for which the service asked not to be called, at most :data:`LONGEST_RETRY_AFTER`.

    :param error: how a request failed.
    :return: None if the service did not say so.
    """
    asked = error.retry_after if isinstance(error, ApiError) else None
    return None if asked is None else min(asked, LONGEST_RETRY_AFTER)


def parse_retry_after(value: str | None, *, now: float) -> float | None:
    """
    Read a ``Retry-After`` header: seconds, an HTTP date, or, as some services write it, a Unix time.

    :param value: the header, None where absent.
    :param now: the time as seconds since the epoch.
    :return: seconds from now, never negative; None where absent, unreadable or more than a day.
    """
    if not value:
        return None
    value = value.strip()
    try:
        if value.isascii() and value.isdigit():
            # Python refuses to read thousands of digits.
            delay = float(value[:20])
            if delay >= _POINT_IN_TIME:
                delay = max(0.0, delay - now)
        else:
            delay = max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None
    return delay if delay <= _ABSURD else None
