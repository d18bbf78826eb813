"""Idle tracker: lets callers wait until the engine has no work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datapipe_local.storage.clock import Timestamp


class IdleTracker:
    """
    Counter of the engine's polls for work, with the result of the last one.

    :param wake: The event that makes the engine poll.
    """

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake
        self._changed = threading.Condition()
        self._number = 0
        self._has_work = True
        self._next: Timestamp | None = None

    def note(self, *, has_work: bool, next_moment: Timestamp | None) -> None:
        """
        Record a poll.

        :param has_work: A job was due or running.
        :param next_moment: The time of the next job; None if there is none.
        """
        with self._changed:
            self._number += 1
            self._has_work, self._next = has_work, next_moment
            self._changed.notify_all()

    def wait_until_idle(self, seconds: float) -> Timestamp | None:
        """
        Wait until there is no work.

        :param seconds: The largest waiting time, in seconds.
        :return: The time of the next job; None if there is none.
        :raises TimeoutError: the engine still has work after that time.
        """
        with self._changed:
            # A poll in progress may have started before the caller's change.
            enough = self._number + 2

            def is_idle() -> bool:
                if self._number < enough:
                    self._wake.set()
                    return False
                return not self._has_work

            if not self._changed.wait_for(is_idle, seconds):
                raise TimeoutError
            return self._next
