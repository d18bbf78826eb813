"""
Simulated time for code that sleeps and sends HTTP requests to a server of the same process.

Within ``simulated_time()``, ``time.time``, ``time.monotonic`` and ``time.sleep`` use a clock that moves only during
sleeps. Event loops sleep by moving the clock to their next timer as soon as they are idle: no request is in
progress, and no thread of an executor is at work. A wait of hours takes milliseconds, and all intervals and limits
keep their real values.

This module replaces these functions when it is imported. Import it before the modules that use simulated time: a
default argument such as ``clock=time.time`` keeps the function that was current when its module was imported.
"""

from __future__ import annotations

import concurrent.futures
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, SupportsIndex
from unittest import mock

#: 2026-01-01, with a fraction of a second that no timestamp format shows completely.
BEGAN = 1_767_225_600.123456
#: Real seconds for which an event loop has to be idle before the clock moves.
_QUIET = 0.0003


class SimulatedClock:
    """Clock that moves only during sleeps."""

    def __init__(self, began: float, monotonic: float) -> None:
        self._now = began
        self._offset = monotonic - began
        self._lock = threading.Lock()

    def time(self) -> float:
        """Return the seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds of the monotonic clock."""
        return self._now + self._offset

    def sleep(self, seconds: float) -> None:
        """Move the clock by some seconds."""
        with self._lock:
            self._now += max(seconds, 0.0)


_REAL = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=time.sleep)
#: The clock of this process while time is simulated.
_CURRENT: list[SimulatedClock] = []


def _time() -> float:
    return _CURRENT[-1].time() if _CURRENT else _REAL.time()


def _monotonic() -> float:
    return _CURRENT[-1].monotonic() if _CURRENT else _REAL.monotonic()


def _sleep(seconds: SupportsIndex | float, /) -> None:
    if _CURRENT:
        _CURRENT[-1].sleep(float(seconds))
    else:
        _REAL.sleep(seconds)


time.time, time.monotonic, time.sleep = _time, _monotonic, _sleep


class _Workers:
    """Counter of the active work of thread pools."""

    def __init__(self) -> None:
        self.busy = 0
        self._lock = threading.Lock()

    def submit(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a replacement of ``ThreadPoolExecutor.submit`` that counts."""

        def counted(pool: Any, *arguments: Any, **options: Any) -> Any:
            with self._lock:
                self.busy += 1
            future = real(pool, *arguments, **options)
            future.add_done_callback(self._over)
            return future

        return counted

    def _over(self, _: object) -> None:
        with self._lock:
            self.busy -= 1


@contextmanager
def simulated_time(is_idle: Callable[[], bool], *, began: float = BEGAN) -> Iterator[SimulatedClock]:
    """
    Use simulated time in this process.

    :param is_idle: returns True if no request is in progress at the servers of this process.
    :param began: the initial time, as seconds since the epoch.
    """
    clock = SimulatedClock(began, time.monotonic())
    workers = _Workers()
    real_selector: Any = selectors.DefaultSelector

    class Selector(real_selector):  # type: ignore[misc]  # the class of this platform
        """Selector that moves the clock instead of waiting."""

        def select(self, timeout: float | None = None) -> list[Any]:
            events: list[Any] = super().select(0)
            if events or (timeout is not None and timeout <= 0):
                return events
            while True:
                quiet = is_idle() and not workers.busy
                events = super().select(_QUIET)
                if events:
                    return events
                if timeout is not None and quiet and is_idle() and not workers.busy:
                    events = super().select(0)
                    if not events:
                        # Slightly more, because event loops compare times with a limited resolution.
                        clock.sleep(timeout + 1e-6)
                    return events

    pool = concurrent.futures.ThreadPoolExecutor
    with (
        mock.patch.object(selectors, "DefaultSelector", Selector),
        mock.patch.object(pool, "submit", workers.submit(pool.submit)),
    ):
        _CURRENT.append(clock)
        try:
            yield clock
        finally:
            _CURRENT.remove(clock)
