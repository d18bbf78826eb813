"""Locks that are told apart by what they are for."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


class Locks:
    """As many locks as there are things that are held or waited for."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._users: Counter[Hashable] = Counter()

    @contextmanager
    def of(self, thing: Hashable) -> Iterator[None]:
        """Hold the lock of a thing; it must not be held by this thread already."""
        with self._guard:
            lock = self._locks.setdefault(thing, threading.Lock())
            self._users[thing] += 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                self._users[thing] -= 1
                if not self._users[thing]:
                    del self._users[thing], self._locks[thing]
