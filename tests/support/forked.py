"""Guards of local services that fork a process with imported modules."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.support.guard import guard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Imported once, by the server that forks: two thirds of the CPU time of a start.
_IMPORTED = ["tests.support.forked", "datapipe_local.app", "datapipe_local.server", "datapipe_local.cli"]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(_IMPORTED)


class ForkedGuard:
    """
    Guard of one command of ``datapipe-local``, as :mod:`tests.support.guard`, without the start of an interpreter.

    :param arguments: The arguments of ``datapipe-local``.
    :param env: The whole environment of the command.
    :param log: The file for the output.
    :param grace: The seconds between SIGTERM and SIGKILL.
    :param hold: A file descriptor that the guard keeps open until it ends.
    """

    def __init__(
        self, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, grace: float, hold: int
    ) -> None:
        order_reader, order_writer = os.pipe()
        pid_reader, pid_writer = os.pipe()
        self.stdin: IO[bytes] | None = os.fdopen(order_writer, "wb", buffering=0)
        self.stdout: IO[bytes] | None = os.fdopen(pid_reader, "rb")
        # Connections: multiprocessing hands over the descriptors of these.
        handed = [
            Connection(order_reader, writable=False),
            *(Connection(fd, readable=False) for fd in (pid_writer, os.dup(hold))),
        ]
        # A daemon: ended with this process, instead of awaited.
        self._process = _CONTEXT.Process(
            target=_guard,
            args=(handed, list(arguments)),
            kwargs={"env": dict(env), "cwd": str(cwd), "log": str(log), "grace": grace},
            daemon=True,
        )
        try:
            self._process.start()
        finally:
            for connection in handed:
                connection.close()

    def poll(self) -> int | None:
        """Return the exit status of the command; None while a process of its tree runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait for the end of the guard, and return the exit status of the command."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("datapipe-local", timeout)
        return status


def _guard(
    handed: list[Connection], arguments: list[str], *, env: dict[str, str], cwd: str, log: str, grace: float
) -> None:
    os.setsid()
    os.chdir(cwd)
    orders, pid, hold = handed
    os.dup2(orders.fileno(), 0)
    os.dup2(pid.fileno(), 1)
    orders.close()
    pid.close()

    def start() -> int:
        if child := os.fork():
            return child
        hold.close()
        _become_command(arguments, env, log)
        from datapipe_local.__main__ import main

        try:
            sys.exit(main())
        finally:
            # multiprocessing ends its processes without them.
            atexit._run_exitfuncs()

    sys.exit(guard(start, grace))


def _become_command(arguments: list[str], env: dict[str, str], log: str) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing, out = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for source, target in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(out)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = ["datapipe-local", *arguments]
