"""Advance of the clock by tests, with all runs that become due."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from datapipe_local.control.clock import StoredClock
from datapipe_local.control.errors import BusyError
from datapipe_local.storage.clock import later

if TYPE_CHECKING:
    from datapipe_local.engine.engine import Engine
    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp

_SECONDS_FOR_ALL = 60.0


class Time:
    """
    Clock of a service, and the engine that follows it.

    :param context: The service, with a :class:`StoredClock`.
    :param engine: The engine of the service.
    :param with_schedules: Start scheduled runs also while the clock follows the machine.
    """

    def __init__(self, context: Context, engine: Engine, *, with_schedules: bool) -> None:
        self._context = context
        if not isinstance(context.clock, StoredClock):
            raise TypeError("The clock of the service cannot be set.")
        self._clock = context.clock
        self._engine = engine
        self._with_schedules = with_schedules
        self._turn = threading.Lock()
        self._have_schedules()

    def as_json(self) -> dict[str, Any]:
        """Return the time, and whether it was set."""
        return {"now": self._clock.now(), "set": self._clock.is_set}

    def set(self, moment: Timestamp | None) -> None:
        """
        Set the clock, and stop it. Runs that were due in between are skipped.

        :param moment: The time; ``None`` for the machine's time.
        """
        with self._turn:
            self._put(moment)

    def advance(self, seconds: float) -> None:
        """
        Advance the clock from one due time to the next.

        :param seconds: The number of seconds.
        :raises BusyError: the due runs take too long; the clock stays at the time it has reached.
        """
        deadline = time.monotonic() + _SECONDS_FOR_ALL
        with self._turn:
            end = later(self._clock.now(), seconds)
            # Stop the clock first: runs that are due now are included.
            self._put(self._clock.now())
            while True:
                try:
                    following = self._engine.wait_until_idle(deadline - time.monotonic())
                except TimeoutError:
                    raise BusyError(
                        f"The runs that are due at {self._clock.now()} take long: wait for them, or advance the"
                        " clock by less at a time."
                    ) from None
                if self._clock.now() >= end:
                    return
                self._put(end if following is None else min(following, end))

    def reload(self) -> None:
        """Read the clock again, after others have changed the store."""
        self._clock.reload()
        self._have_schedules()

    def _put(self, moment: Timestamp | None) -> None:
        was_set = self._clock.is_set
        self._clock.set(moment)
        if self._clock.is_set != was_set:
            self._have_schedules()
        self._context.wake.set()

    def _have_schedules(self) -> None:
        self._engine.have_schedules(wanted=self._with_schedules or self._clock.is_set)
