"""Pool of the processes that run users' queries: started on demand, reused, limited in number."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from datapipe_local.warehouse.query_process.process import QueryProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The interpreter and DuckDB reserve about 190 MiB before the first query.
_MIN_MEMORY = 512 << 20
_SECONDS_BETWEEN_CHECKS = 0.1


class QueryProcesses:
    """
    Pool of processes that share a memory limit.

    Each process may use an equal part of the limit, but at least 512 MiB. The pool reduces the number of processes to
    stay within the limit, unless the limit is below 512 MiB. A further query waits until a process is free. One idle
    process is kept.

    :param memory: A function that returns the memory limit in bytes.
    :param most: The largest number of processes.
    """

    def __init__(self, memory: Callable[[], int], most: int) -> None:
        self._memory = memory
        self._most = most
        self._idle: list[QueryProcess] = []
        self._busy = 0
        self._closed = False
        self._free = threading.Condition()

    @contextmanager
    def borrow(self, check: Callable[[], None]) -> Iterator[QueryProcess]:
        """
        Lend a process for a ``with`` block.

        :param check: A function that is called while all processes are busy. It raises if the process is no longer
            needed.
        """
        process = self._take(check)
        try:
            yield process
        finally:
            self._return(process)

    def close(self) -> None:
        """Stop the idle processes, and the busy ones when they are returned."""
        with self._free:
            self._closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def _take(self, check: Callable[[], None]) -> QueryProcess:
        limit = self._memory()
        most = max(1, min(self._most, limit // _MIN_MEMORY))
        with self._free:
            while self._busy >= most:
                check()
                self._free.wait(_SECONDS_BETWEEN_CHECKS)
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return QueryProcess(max(_MIN_MEMORY, limit // self._most))
        except BaseException:
            with self._free:
                self._busy -= 1
                self._free.notify()
            raise

    def _return(self, process: QueryProcess) -> None:
        with self._free:
            is_kept = process.is_usable and not self._idle and not self._closed
            if is_kept:
                self._idle.append(process)
        # Stop the process before its slot becomes free, so that the total memory stays within the limit.
        if not is_kept:
            process.close()
        with self._free:
            self._busy -= 1
            self._free.notify()
