"""Time of the service, and its text form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

#: Time as stored and sent: ISO 8601, UTC, milliseconds and ``Z``. Sorts as text.
Timestamp: TypeAlias = str


def as_timestamp(moment: datetime) -> Timestamp:
    """Return a time in the form of the interface."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_datetime(timestamp: Timestamp) -> datetime:
    """Parse a time written by :func:`as_timestamp`."""
    return datetime.fromisoformat(timestamp)


def later(timestamp: Timestamp, seconds: float) -> Timestamp:
    """Return a time plus a number of seconds, which may be negative."""
    return as_timestamp(as_datetime(timestamp) + timedelta(seconds=seconds))


class Clock:
    """Source of the current time for the whole service. Subclasses can return another time than the machine's."""

    def now(self) -> Timestamp:
        """Return the current time."""
        return as_timestamp(datetime.now(UTC))

    def seconds_until(self, timestamp: Timestamp) -> float:
        """Return the seconds until a time; negative if it has passed."""
        return (as_datetime(timestamp) - as_datetime(self.now())).total_seconds()
