"""What the engine saw when it last looked for work, for those who wait until it has none."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datapipe_local.clock import Timestamp


class Looks:
    """
    The looks of an engine, counted.

    :param wake: Has it look.
    """

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake
        self._news = threading.Condition()
        self._number = 0
        self._has_work = True
        self._next: Timestamp | None = None

    def note(self, *, has_work: bool, next_moment: Timestamp | None) -> None:
        """
        Note a look.

        :param has_work: Something was due or is being done.
        :param next_moment: When there is more to do, if ever.
        """
        with self._news:
            self._number += 1
            self._has_work, self._next = has_work, next_moment
            self._news.notify_all()

    def settle(self, seconds: float) -> Timestamp | None:
        """
        Wait until there is nothing to do.

        :param seconds: For how long at the most.
        :return: When there is more to do, if ever.
        :raises TimeoutError: it takes longer.
        """
        with self._news:
            # The look that is going on may have begun before what the caller has done.
            enough = self._number + 2

            def is_settled() -> bool:
                if self._number < enough:
                    self._wake.set()
                    return False
                return not self._has_work

            if not self._news.wait_for(is_settled, seconds):
                raise TimeoutError
            return self._next
