"""A child process that runs queries, as the service sees it."""

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

from datapipe_local.statements import WarehouseError

#: Before each message: its length in bytes.
LENGTH = struct.Struct("!Q")
#: A reply is rows of at most a few million characters, or one line.
MAX_REPLY_BYTES = 64 << 20
_START_SECONDS = 60.0
_READ_BYTES = 1 << 20
_MEBIBYTE = 1 << 20
_PROGRAM = "from datapipe_local.query_process.worker import main; main()"


class QueryMemoryError(WarehouseError):
    """The query needed more memory than its process may use."""


class QueryTimeError(WarehouseError):
    """The query took longer than its time limit."""


class QueryProcess:
    """
    One child process. It runs one query at a time, and ends when the service ends, however that happens.

    It inherits no environment variables and no open files.

    :param memory: Limit of its address space, in bytes.
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
            # Ctrl-C in the terminal is for the service, which then ends this process.
            start_new_session=True,
        )
        self._started = False

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def ask(self, request: dict[str, Any], seconds: float | None) -> Any:
        """
        Run a query.

        :param request: The operation and its arguments, see :mod:`datapipe_local.query_process.worker`.
        :param seconds: The process is killed after this time; None for no limit.
        :return: The result.
        :raises QueryTimeError: it took longer.
        :raises QueryMemoryError: it needed more memory than the process may use.
        :raises WarehouseError: the query failed.
        """
        usable, self.is_usable = self.is_usable, False
        if not usable:
            raise WarehouseError("The process of the query has ended.")
        if not self._started:
            # The start of the interpreter is not part of the query's time.
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
        """Kill the process and wait for its end."""
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
            # The kernel's out-of-memory killer, or an allocation that DuckDB does not check.
            return self._out_of_memory(f" (the process ended with {_reason(status)})")
        return WarehouseError(
            f"The process for queries could not start ({_reason(status)}): see that {self.memory // _MEBIBYTE} MiB of"
            " memory are free."
        )

    def _out_of_memory(self, detail: str = "") -> QueryMemoryError:
        return QueryMemoryError(
            f"The query needed more memory than the {self.memory // _MEBIBYTE} MiB of its process{detail}: have it read"
            " less, or start the service with a larger --memory-limit."
        )


def _reason(status: int) -> str:
    return f"exit status {status}" if status >= 0 else signal.Signals(-status).name
