"""Child process that runs queries, from the point of view of the service."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import time
from typing import Any

from datapipe_local.warehouse.statements import WarehouseError

#: Prefix of each message: its length in bytes.
LENGTH = struct.Struct("!Q")
#: A reply is at most a few million characters of rows, or one line.
MAX_REPLY_BYTES = 64 << 20
_START_SECONDS = 60.0
_READ_BYTES = 1 << 20
_MEBIBYTE = 1 << 20
_PROGRAM = "from datapipe_local.warehouse.query_process.worker import main; main()"


class QueryMemoryError(WarehouseError):
    """Failure of a query that needs more memory than its process may use."""


class QueryTimeError(WarehouseError):
    """Failure of a query that exceeds its time limit."""


class QueryProcess:
    """
    Child process that runs one query at a time, and ends with the service, however that ends.

    It inherits no environment variables and no open files.

    :param memory: The limit of its address space, in bytes.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        #: False after a reply that leaves the process in an unknown state: it must not run another query.
        self.is_usable = True
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a program of this package
            [sys.executable, "-c", _PROGRAM, str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            # One arena: each further one reserves 64 MiB of address space per thread.
            env={"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry), "MALLOC_ARENA_MAX": "1"},
            # Ctrl-C in the terminal is for the service, which then stops this process.
            start_new_session=True,
        )
        self._started = False

    def run(self, request: dict[str, Any], seconds: float | None) -> Any:
        """
        Run a query.

        :param request: The operation and its arguments, see :mod:`datapipe_local.warehouse.query_process.worker`.
        :param seconds: The time limit in seconds, after which the process is killed; None for no limit.
        :return: The result.
        :raises QueryTimeError: the query exceeded the time limit.
        :raises QueryMemoryError: the query needed more memory than the process may use.
        :raises WarehouseError: the query failed.
        """
        usable, self.is_usable = self.is_usable, False
        if not usable:
            raise WarehouseError("The process of the query has ended.")
        if not self._started:
            # The start of the interpreter does not count for the time limit.
            self._receive(time.monotonic() + _START_SECONDS)
            self._started = True
        self._send(pickle.dumps({**request, "seconds": seconds}))
        reply = json.loads(self._receive(None if seconds is None else time.monotonic() + seconds))
        if reply.get("memory"):
            raise self._out_of_memory()
        self.is_usable = True
        if reply.get("error") is not None:
            raise WarehouseError(str(reply["error"]))
        return reply.get("result")

    def interrupt(self) -> None:
        """Kill the process. Its query fails."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process, and wait until it has ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was opened with a pipe
        view = memoryview(LENGTH.pack(len(message)) + message)
        try:
            while view:
                view = view[self._process.stdin.write(view) :]
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self, deadline: float | None) -> bytes:
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        if length > MAX_REPLY_BYTES:
            self.interrupt()
            raise WarehouseError("The result of the query is too large.")
        return self._read(length, deadline)

    def _read(self, length: int, deadline: float | None) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - it was opened with a pipe
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        read = bytearray()
        while len(read) < length:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not poll.poll(None if left is None else left * 1000):
                self.interrupt()
                raise QueryTimeError("The query took longer than its time limit.")
            part = os.read(descriptor, min(length - len(read), _READ_BYTES))
            if not part:
                raise self._ended()
            read += part
        return bytes(read)

    def _ended(self) -> WarehouseError:
        status = self._process.wait()
        if status == -signal.SIGALRM:
            return QueryTimeError("The query took longer than its time limit.")
        if self._started:
            # Ended by the kernel's out-of-memory killer, or by an allocation that DuckDB does not check.
            return self._out_of_memory(f" (the process ended with {_reason(status)})")
        return WarehouseError(
            f"The process for queries could not start ({_reason(status)}): make sure that"
            f" {self.memory // _MEBIBYTE} MiB of memory are free."
        )

    def _out_of_memory(self, detail: str = "") -> QueryMemoryError:
        return QueryMemoryError(
            f"The query needed more memory than the {self.memory // _MEBIBYTE} MiB of its process{detail}: reduce the"
            " data that it reads, or start the service with a larger --memory-limit."
        )


def _reason(status: int) -> str:
    return f"exit status {status}" if status >= 0 else signal.Signals(-status).name
