"""The service's time, in the hand of a test."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from datapipe_local.clock import as_datetime, as_timestamp

if TYPE_CHECKING:
    from datapipe_local.testing.client import ControlPlane


class ServiceClock:
    """
    The clock of a service. From the moment it is set it stands still, and what has a schedule runs by it.

    :param control: The control plane.
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def now(self) -> datetime:
        """Tell the service's time."""
        return as_datetime(self._control.ask("GET", "clock")["now"])

    def set(self, moment: datetime | str) -> datetime:
        """
        Set it. What was due in between is missed, as if the service had been off.

        :param moment: With its time zone; as text in ISO 8601.
        """
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                raise ValueError(f"{moment} has no time zone: give one, such as datetime.UTC.")
            moment = as_timestamp(moment)
        return as_datetime(self._control.ask("PUT", "clock", {"now": moment})["now"])

    def advance(self, **time: float) -> datetime:
        """
        Let time pass: all that comes due meanwhile runs at its time, to its end.

        :param time: How much, as in ``advance(hours=1, minutes=30)``.
        """
        seconds = timedelta(**time).total_seconds()
        return as_datetime(self._control.ask("POST", "clock/advance", {"seconds": seconds})["now"])

    def reset(self) -> None:
        """Have it tell the machine's time again. Nothing runs by a schedule then."""
        self._control.ask("DELETE", "clock")
