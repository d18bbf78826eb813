"""Detection of missing runs and resources by repeated answers. Pure: no I/O, and no clock of its own."""

from __future__ import annotations

from airflow_provider_datapipe.api.errors import ApiError, DatapipeError
from airflow_provider_datapipe.api.retry import backoff_delay

#: Default grace period in seconds, see :class:`MissingRun`.
GRACE = 60.0
#: The fewest answers that count: a single one may come from a lagging replica.
_FEWEST = 3
#: First pause between two polls, as a fraction of the grace period. It doubles each time.
_FIRST_PAUSE = 0.05
#: HTTP statuses that mean that a run or resource does not exist.
_STATUSES = frozenset({400, 404, 410})


def is_missing(error: DatapipeError) -> bool:
    """Return True if the service answered that the run or resource does not exist."""
    return isinstance(error, ApiError) and error.status in _STATUSES


class MissingRun:
    """
    Consecutive answers that a run or resource does not exist.

    A lagging replica, or a connection that temporarily points to another account, can cause such answers. Therefore
    only repeated answers over a grace period count.

    :param grace: the grace period in seconds.
    :param now: time of the first answer, in seconds since the epoch.
    """

    __slots__ = ("_answers", "_grace", "_since")

    def __init__(self, grace: float, now: float) -> None:
        self._grace = grace
        self._since = now
        self._answers = 0

    def is_final(self, now: float) -> bool:
        """Count one more answer. Return True if the grace period is over."""
        self._answers += 1
        return self._answers >= _FEWEST and now >= self._since + self._grace

    def pause(self, now: float, jitter: float) -> float:
        """Return the seconds until the next poll. The pauses grow, and the last one ends with the grace period."""
        delay = backoff_delay(self._answers, first=self._grace * _FIRST_PAUSE, longest=self._grace, jitter=jitter)
        left = self._since + self._grace - now
        return min(delay, left) if left > 0 else delay

    def summary(self, now: float) -> str:
        """Return the count and the time span of the answers."""
        return f"{self._answers} answers in {now - self._since:.0f} s"
