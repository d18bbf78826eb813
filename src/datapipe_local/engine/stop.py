"""Stopping: whoever works in the background asks here whether to go on."""

from __future__ import annotations

import threading


class StoppedError(Exception):
    """The service stops. What was begun stays owed, and is carried on by the next process."""


class Stop:
    """A request to stop that all threads see."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Tell whether to stop."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask all to stop."""
        self._event.set()

    def check(self) -> None:
        """
        Go on, or not.

        :raises StoppedError: not.
        """
        self.pause(0)

    def pause(self, seconds: float) -> None:
        """
        Wait.

        :raises StoppedError: the service stops; at once.
        """
        if self._event.wait(seconds):
            raise StoppedError
