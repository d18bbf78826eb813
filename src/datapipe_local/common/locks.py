"""Locks by key."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


class Locks:
    """Set of locks, one per key in use."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._users: Counter[Hashable] = Counter()

    @contextmanager
    def of(self, thing: Hashable, *, wait: bool = True) -> Iterator[bool]:
        """
        Hold the lock of a key. This thread must not hold it already.

        :param thing: The key.
        :param wait: Wait until the lock is free.
        :return: True if the lock is held; it may not be if ``wait`` is False.
        """
        with self._guard:
            lock = self._locks.setdefault(thing, threading.Lock())
            self._users[thing] += 1
        try:
            is_held = lock.acquire(blocking=wait)
            try:
                yield is_held
            finally:
                if is_held:
                    lock.release()
        finally:
            with self._guard:
                self._users[thing] -= 1
                if not self._users[thing]:
                    del self._users[thing], self._locks[thing]
