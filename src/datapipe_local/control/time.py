"""Time that passes as a test says, and what is due meanwhile."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from datapipe_local.clock import later
from datapipe_local.control.clock import StoredClock
from datapipe_local.errors import ServiceError

if TYPE_CHECKING:
    from datapipe_local.clock import Timestamp
    from datapipe_local.engine.engine import Engine
    from datapipe_local.service.context import Context

_SECONDS_FOR_ALL = 60.0


class TakesLongError(ServiceError):
    """503: what is due takes too long."""

    status = 503
    default_code = "busy"


class Time:
    """
    The clock of a service, and what runs by it.

    :param context: The service, with a clock that can be set.
    :param engine: What works for it.
    :param with_schedules: Whether schedules fire by the machine's time, too.
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
        """Tell the time, and whether it was set."""
        return {"now": self._clock.now(), "set": self._clock.is_set}

    def set(self, moment: Timestamp | None) -> None:
        """
        Set the clock; it stands still then. What was due in between is missed.

        :param moment: The time; ``None`` is the machine's.
        """
        with self._turn:
            self._put(moment)

    def advance(self, seconds: float) -> None:
        """
        Let time pass, from one moment at which something is due to the next.

        :param seconds: How much.
        :raises TakesLongError: what is due takes too long; then the clock is where it got to.
        """
        deadline = time.monotonic() + _SECONDS_FOR_ALL
        with self._turn:
            end = later(self._clock.now(), seconds)
            # What is due now, too, by the clock that begins to stand still.
            self._put(self._clock.now())
            while True:
                try:
                    following = self._engine.settle(deadline - time.monotonic())
                except TimeoutError:
                    raise TakesLongError(
                        f"What is due at {self._clock.now()} takes long: wait for it, or advance by less at a time."
                    ) from None
                if self._clock.now() >= end:
                    return
                self._put(end if following is None else min(following, end))

    def reload(self) -> None:
        """Follow the store, after that was changed by others."""
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
