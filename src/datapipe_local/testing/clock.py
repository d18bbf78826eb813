"""Control of the service's clock by a test."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from datapipe_local.storage.clock import as_datetime, as_timestamp

if TYPE_CHECKING:
    from datapipe_local.testing.client import ControlPlane


class ServiceClock:
    """
    Clock of a service. Once it is set, it stands still, and scheduled runs follow it.

    :param control: The control plane.
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def now(self) -> datetime:
        """Return the service's time."""
        return as_datetime(self._control.request("GET", "clock")["now"])

    def set(self, moment: datetime | str) -> datetime:
        """
        Set the clock. Runs that were due in between are skipped, as if the service had been off.

        :param moment: The time with its time zone, as a ``datetime`` or as ISO 8601 text.
        :return: The new time.
        """
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                raise ValueError(f"{moment} has no time zone: give one, such as datetime.UTC.")
            moment = as_timestamp(moment)
        return as_datetime(self._control.request("PUT", "clock", {"now": moment})["now"])

    def advance(self, **time: float) -> datetime:
        """
        Advance the clock. Every run that becomes due runs at its due time, to its end.

        :param time: The duration, as in ``advance(hours=1, minutes=30)``.
        :return: The new time.
        """
        seconds = timedelta(**time).total_seconds()
        return as_datetime(self._control.request("POST", "clock/advance", {"seconds": seconds})["now"])

    def reset(self) -> None:
        """Return the clock to the machine's time. Scheduled runs then stop."""
        self._control.request("DELETE", "clock")
