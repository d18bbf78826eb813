"""Backoff of polls that fail, and concurrency limit of a connection. Pure: no I/O, and no clock of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

from airflow_provider_datapipe.api.errors import (
    AuthenticationError,
    DatapipeError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.retry import backoff_delay, requested_delay

#: HTTP statuses for an outage of a gateway or of the whole service. Others may concern only the requested resource.
_OUT_OF_SERVICE = frozenset({502, 503, 504})
#: Seconds after an answer in which a single failure is not a loss of contact.
_RECENT = 10.0
#: The first and the longest pause after failures, in seconds, unless the service asks for a longer one.
_SHORTEST, _LONGEST = 1.0, 60.0
#: The longest interval between two polls of a resource whose polls fail, in seconds.
LONGEST_INTERVAL = 300.0


def is_of_connection(error: DatapipeError) -> bool:
    """Return True if a failure concerns all requests of the connection."""
    if isinstance(error, ServerError):
        return error.status in _OUT_OF_SERVICE
    return isinstance(error, TransportError | AuthenticationError | RateLimitError)


def counts_as_lost(failures: int, answered_at: float | None, now: float) -> bool:
    """
    Return True if failures count as a loss of contact. A single failure shortly after an answer does not.

    :param failures: number of failures since the last answer.
    :param answered_at: time of the last answer in seconds since the epoch, None if there was none.
    :param now: current time in seconds since the epoch.
    """
    return failures > 1 or answered_at is None or now >= answered_at + _RECENT


def delay_after(failures: int, interval: float, jitter: float | None = None) -> float:
    """
    Return the seconds until the next poll of a resource whose polls fail: at least its interval.

    :param failures: number of failures since the last answer, at least 1.
    :param interval: seconds between two polls without failures.
    :param jitter: number from 0 to 1; None for a random number.
    """
    return max(interval, backoff_delay(failures, first=interval, longest=LONGEST_INTERVAL, jitter=jitter))


class ConnectionBackoff:
    """
    Backoff and concurrency limit of a connection.

    After a failure, all requests pause. The pause doubles with each further failure. After the pause, one request is
    allowed at a time, and each answer raises this limit by one.

    :param most: the most requests at a time.
    :param jitter: function that returns a number from 0 to 1.
    """

    __slots__ = (
        "_answered_at",
        "_failures",
        "_jitter",
        "_most",
        "allowed",
        "asked_until",
        "error",
        "lost",
        "paused_until",
    )

    def __init__(self, most: int, jitter: Callable[[], float] = random.random) -> None:
        self._most = most
        self._jitter = jitter
        self._failures = 0
        #: Time before which the service does not want to be polled, in seconds since the epoch.
        self.asked_until = 0.0
        #: The most requests at a time now.
        self.allowed = most
        #: Time until which all requests pause, in seconds since the epoch.
        self.paused_until = 0.0
        #: The last failure, None while the service answers.
        self.error: DatapipeError | None = None
        #: The failure while contact with the service is lost, None while there is contact.
        self.lost: DatapipeError | None = None
        self._answered_at: float | None = None

    def widen(self, most: int) -> None:
        """Set the most requests at a time."""
        if most != self._most:
            self.allowed = most if self.allowed == self._most else min(self.allowed, most)
            self._most = most

    def answered(self, now: float) -> None:
        """Process an answer of the service."""
        self._failures = 0
        self._answered_at, self.lost = now, None
        # A pause that the service asked for also applies if some requests are still answered.
        if now >= self.asked_until:
            self.error = None
            self.paused_until = 0.0
        self.allowed = min(self._most, self.allowed + 1)

    def failed(self, error: DatapipeError, now: float) -> None:
        """Process a failure for which :func:`is_of_connection` returns True."""
        self.error = error
        self.allowed = 1
        if now >= self.paused_until:
            # Concurrent requests fail together, and count once.
            self._failures += 1
            pause = backoff_delay(self._failures, first=_SHORTEST, longest=_LONGEST, jitter=self._jitter())
            self.paused_until = now + pause
        # A service that limits the rate of requests can be reached.
        is_answer = isinstance(error, RateLimitError)
        self.lost = error if not is_answer and counts_as_lost(self._failures, self._answered_at, now) else None
        asked = requested_delay(error)
        if asked is not None:
            self.paused_until = self.asked_until = max(self.paused_until, now + asked)
        elif is_answer:
            self.asked_until = self.paused_until
