"""Guarded programs that leave no processes behind, also after Ctrl-C or a kill of this process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol, Self

GUARD = Path(__file__).with_name("guard.py")
# Waits for the end of file on its standard input, then removes a folder.
CLEANER = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"
# Seconds that a guard may take for SIGTERM and SIGKILL, in addition to the grace.
GUARD_LIMIT = 15.0
# Variables that prevent compiled modules. Without them, programs start in half the time.
NOT_INHERITED = frozenset({"PYTHONDONTWRITEBYTECODE"})


class ProgramError(Exception):
    """Failed start or unexpected end of a program. The message quotes the end of its log."""


class ReservedPort:
    """
    Free port of 127.0.0.1, reserved until its release, on which our server can still listen.

    The socket is bound but does not listen. With SO_REUSEADDR on both sides, as asyncio and uvicorn set it,
    Linux lets a server listen on the port, and assigns it to no other process as a free one. Without the
    reservation, another process can take a free port before the server starts, seconds later.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Release the port."""
        self._socket.close()


class Workspace:
    """
    Temporary folder, and the programs that use it. The folder is removed after the last program has ended.

    A helper process removes the folder when no process holds its pipe open any more: neither this process nor a
    guard. This works after a clean stop and after SIGKILL, and never removes the folder of a running program.

    :param prefix: The prefix of the folder's name.
    """

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
        self._programs: list[Program] = []
        self._held: int | None = None
        try:
            reader, self._held = os.pipe()
            try:
                self._cleaner = subprocess.Popen(  # noqa: S603 - program of this module
                    [sys.executable, "-I", "-S", "-c", CLEANER, str(self.path)],
                    stdin=reader,
                    start_new_session=True,
                    cwd="/",
                )
            finally:
                os.close(reader)
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str], grace: float = 5.0, forked: bool = False
    ) -> Program:
        """
        Start a program under a guard.

        :param name: The name of its log, ``logs/<name>.log`` in the folder. An existing log is continued.
        :param env: Its whole environment, except for the variables that prevent compiled modules.
        :param grace: The seconds between SIGTERM and SIGKILL.
        :param forked: The command is the arguments of ``datapipe-local``, which is forked instead of executed.
        """
        if self._held is None:
            raise RuntimeError("the workspace is closed")
        log = self.log_of(name)
        log.parent.mkdir(exist_ok=True)
        env = {variable: value for variable, value in env.items() if variable not in NOT_INHERITED}
        guard: Guard
        if forked:
            from tests.support.forked import ForkedGuard

            guard = ForkedGuard(command, env=env, cwd=self.path, log=log, grace=grace, hold=self._held)
        else:
            guard = _guard(command, env=env, cwd=self.path, log=log, grace=grace, hold=self._held)
        program = Program(name, guard, command=command[0], log=log, grace=grace)
        self._programs.append(program)
        return program

    def log_of(self, name: str) -> Path:
        """Return the path of the log of the programs with a name."""
        return self.path / "logs" / f"{name}.log"

    def log_files(self) -> list[Path]:
        """List the logs of the programs."""
        return sorted({program.log for program in self._programs if program.log.exists()})

    def close(self) -> None:
        """Stop all running programs concurrently, and remove the folder."""
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            for program in self._programs:
                program.ask_to_stop()
            for program in self._programs:
                program.wait_until_gone()
        finally:
            os.close(held)
        self._cleaner.wait()


class Guard(Protocol):
    """Methods of :class:`subprocess.Popen` that a program needs of its guard."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Return the exit status; None while a process of the tree runs."""

    def wait(self, timeout: float) -> int:
        """Wait for the end, and return the exit status."""


def _guard(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, grace: float, hold: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - command of a test
        [sys.executable, "-E", str(GUARD), str(log), str(grace), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        # The guard must survive Ctrl-C, which a terminal sends to the whole process group.
        start_new_session=True,
        pass_fds=[hold],
    )


class Program:
    """
    Program under a guard. :meth:`Workspace.start` creates it.

    :param name: The name in errors.
    :param command: The command for the error about a failed start.
    :param log: The file for its output.
    :param grace: The seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, name: str, guard: Guard, *, command: str, log: Path, grace: float) -> None:
        self.name = name
        self.log = log
        self._grace = grace
        self._guard = guard
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        if not line:
            raise ProgramError(f"{name} could not be started: {command}")
        self.pid = int(line)

    @property
    def exit_status(self) -> int | None:
        """Return the exit status; None while a process of the tree runs."""
        return self._guard.poll()

    def tail(self, lines: int = 25) -> str:
        """Return the last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def failure(self, what: str) -> ProgramError:
        """
        Return an error that quotes the end of the log.

        :param what: The problem, which follows the name of the program.
        """
        return ProgramError(f"{self.name} {what}. The end of its log:\n{self.tail()}")

    def wait(self, limit: float) -> None:
        """
        Wait for the successful end of the program.

        :param limit: The limit in seconds.
        """
        if status := self.end(limit):
            raise self.failure(f"ended with exit status {status}")

    def end(self, limit: float) -> int:
        """
        Wait for the program to end, and return its exit status.

        :param limit: The limit in seconds.
        """
        try:
            return self._guard.wait(limit)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {limit:.0f} s") from None

    def send(self, signum: signal.Signals) -> None:
        """Send a signal to the program alone. Do nothing if it has ended."""
        if self.exit_status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def kill(self) -> None:
        """Send SIGKILL to the program and its descendants, and wait for their end."""
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended by itself.
            self._guard.stdin.write(b"K")
            self._guard.stdin.flush()
        self.wait_until_gone()

    def ask_to_stop(self) -> None:
        """Request the stop of the program from its guard, without a wait."""
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended by itself.
            self._guard.stdin.close()

    def wait_until_gone(self) -> None:
        """Wait for the guard, which ends after the whole tree."""
        self._guard.wait(self._grace + GUARD_LIMIT)
        assert self._guard.stdout is not None
        self._guard.stdout.close()

    def stop(self) -> None:
        """Send SIGTERM to the program and its descendants, and SIGKILL after the grace."""
        self.ask_to_stop()
        self.wait_until_gone()


def wait_for(
    what: str, ready: Callable[[], bool], *, limit: float, interval: float = 0.1, watch: Sequence[Program] = ()
) -> None:
    """
    Wait for a condition, as long as the programs that it depends on are alive.

    :param what: The name of the condition in the error.
    :param ready: Return True if the condition holds.
    :param limit: The limit in seconds.
    :param interval: The seconds between two checks.
    :param watch: Programs that the condition depends on. Their end fails the wait.
    """
    deadline = time.monotonic() + limit
    while not ready():
        for program in watch:
            if program.exit_status is not None:
                raise program.failure(f"ended with exit status {program.exit_status} before {what}")
        if time.monotonic() > deadline:
            tails = "\n".join(f"--- {program.name}\n{program.tail(10)}" for program in watch)
            raise ProgramError(f"Waited {limit:.0f} s in vain: {what}.\n{tails}")
        time.sleep(interval)
