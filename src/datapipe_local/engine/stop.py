"""Stop signal for background threads."""

from __future__ import annotations

import threading


class StoppedError(Exception):
    """Stop of the service. Started jobs stay in the store, and the next process continues them."""


class Stop:
    """Stop request that all threads see."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def is_requested(self) -> bool:
        """True if a stop was requested."""
        return self._event.is_set()

    def request(self) -> None:
        """Request a stop of all threads."""
        self._event.set()

    def check(self) -> None:
        """
        Raise if a stop was requested.

        :raises StoppedError: a stop was requested.
        """
        self.pause(0)

    def pause(self, seconds: float) -> None:
        """
        Wait for a number of seconds.

        :raises StoppedError: a stop was requested before or during the wait.
        """
        if self._event.wait(seconds):
            raise StoppedError
