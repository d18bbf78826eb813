"""The time, as the service tells it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

#: ISO 8601, UTC, milliseconds and ``Z``: how times are stored and sent. Sorts as text.
Timestamp: TypeAlias = str


def as_timestamp(moment: datetime) -> Timestamp:
    """Write a time as the interface does."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_datetime(timestamp: Timestamp) -> datetime:
    """Read what :func:`as_timestamp` wrote."""
    return datetime.fromisoformat(timestamp)


def later(timestamp: Timestamp, seconds: float) -> Timestamp:
    """Give the time that many seconds after (or, if negative, before) another."""
    return as_timestamp(as_datetime(timestamp) + timedelta(seconds=seconds))


class Clock:
    """Where all of the service reads the time, so that it can be another than the machine's."""

    def now(self) -> Timestamp:
        """Tell the time."""
        return as_timestamp(datetime.now(UTC))

    def seconds_until(self, timestamp: Timestamp) -> float:
        """Tell how far away a time is; negative once it is over."""
        return (as_datetime(timestamp) - as_datetime(self.now())).total_seconds()
