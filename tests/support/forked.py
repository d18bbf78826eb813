"""Commands of ``datapipe-local`` in forks of a process with imported modules, instead of new interpreters."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, NoReturn

from tests.support.guard import guard

#: Modules that the forking server imports once. They take two thirds of the CPU time of a start.
_IMPORTED = [
    "tests.support.forked",
    "datapipe_local.server.app",
    "datapipe_local.server.process",
    "datapipe_local.cli.program",
]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(_IMPORTED)


class ForkedGuard:
    """
    Guard of one command of ``datapipe-local``, like :mod:`tests.support.guard`, without the start of an interpreter.

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
        # multiprocessing passes file descriptors as Connection objects.
        handed = [
            Connection(order_reader, writable=False),
            *(Connection(fd, readable=False) for fd in (pid_writer, os.dup(hold))),
        ]
        # A daemon process is terminated at the end of this process instead of awaited.
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
        os.setsid()
        _become_command(arguments, env, log, log, cwd)

    sys.exit(guard(start, grace))


def run_forked(
    arguments: Sequence[str], *, env: Mapping[str, str], timeout: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """
    Run a command of ``datapipe-local`` to its end, like :func:`subprocess.run` with ``capture_output``.

    :param arguments: The arguments of ``datapipe-local``.
    :param env: The whole environment of the command.
    :param timeout: The limit in seconds. The command is killed at its end.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "stdout"), Path(folder, "stderr")
        process = _CONTEXT.Process(
            target=_become_command, args=(list(arguments), dict(env), str(out), str(err), str(Path.cwd())), daemon=True
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["datapipe-local", *arguments], timeout)
        output, errors = (file.read_text(encoding="utf-8") if file.exists() else "" for file in (out, err))
        return subprocess.CompletedProcess(["datapipe-local", *arguments], process.exitcode, output, errors)


def _become_command(arguments: list[str], env: dict[str, str], out: str, err: str, cwd: str) -> NoReturn:
    os.chdir(cwd)
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for target, file in ((1, out), (2, err)):
        opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.dup2(opened, target)
        os.close(opened)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = ["datapipe-local", *arguments]
    from datapipe_local.__main__ import main

    try:
        sys.exit(main())
    finally:
        # multiprocessing does not run exit handlers.
        atexit._run_exitfuncs()
