"""A clock that stands still until a test sets it."""

from __future__ import annotations

from datapipe_local.clock import Clock, Timestamp, later


class SetClock(Clock):
    """
    Tells the time that it was set to.

    :param moment: The time at first.
    """

    def __init__(self, moment: Timestamp) -> None:
        self.moment = moment

    def now(self) -> Timestamp:
        return self.moment

    def forward(self, seconds: float) -> None:
        self.moment = later(self.moment, seconds)
