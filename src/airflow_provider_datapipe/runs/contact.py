"""How the state of a whole connection paces what is asked over it. Pure."""

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
from airflow_provider_datapipe.api.retry import honored

#: Statuses with which a gateway or a whole service fails; others may be about the one thing that was asked for.
_OUT_OF_SERVICE = frozenset({502, 503, 504})
#: Seconds of the first pause after a failure, and of the longest that the service does not ask for itself.
_SHORTEST, _LONGEST = 1.0, 60.0


def is_of_connection(error: DatapipeError) -> bool:
    """Tell whether a failure says something about everything that is asked over the connection."""
    if isinstance(error, ServerError):
        return error.status in _OUT_OF_SERVICE
    return isinstance(error, TransportError | AuthenticationError | RateLimitError)


class Contact:
    """
    Whether the service can be asked now, and by how many requests at a time.

    After a failure everything pauses, twice as long each time; then one request goes ahead, and each answer lets one
    more go beside it.

    :param most: the most requests at a time.
    :param jitter: gives a number from 0 to 1.
    """

    __slots__ = ("_asked_until", "_failures", "_jitter", "_most", "allowed", "error", "paused_until")

    def __init__(self, most: int, jitter: Callable[[], float] = random.random) -> None:
        self._most = most
        self._jitter = jitter
        self._failures = 0
        #: Until when the service asked for patience.
        self._asked_until = 0.0
        #: How many requests may be under way.
        self.allowed = most
        #: Until when nothing is asked, as seconds since the epoch.
        self.paused_until = 0.0
        #: What went wrong, None while the service answers.
        self.error: DatapipeError | None = None

    def widen(self, most: int) -> None:
        """Set the most requests at a time, once it is known."""
        if most != self._most:
            self.allowed = most if self.allowed == self._most else min(self.allowed, most)
            self._most = most

    def answered(self, now: float) -> None:
        """Take word that the service has answered."""
        self._failures = 0
        # The patience that a service asks for holds also where some answers still come.
        if now >= self._asked_until:
            self.error = None
            self.paused_until = 0.0
        self.allowed = min(self._most, self.allowed + 1)

    def failed(self, error: DatapipeError, now: float) -> None:
        """Take a failure for which :func:`is_of_connection` holds."""
        self.error = error
        self.allowed = 1
        if now >= self.paused_until:
            # Those that were under way together fail together, and count once.
            self._failures += 1
            pause = min(_LONGEST, _SHORTEST * 2.0 ** min(self._failures - 1, 10))
            self.paused_until = now + pause * (0.5 + self._jitter() / 2)
        asked = honored(error)
        if asked is not None:
            self.paused_until = self._asked_until = max(self.paused_until, now + asked)
        elif isinstance(error, RateLimitError):
            self._asked_until = self.paused_until
