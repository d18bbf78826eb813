"""Starting programs so that nothing of them stays behind: not on Ctrl-C, not when this process is killed."""

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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

GUARD = Path(__file__).with_name("guard.py")
# Waits for the end of file on its standard input, then removes a folder.
CLEANER = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"
# SIGTERM, the grace, SIGKILL: what a guard may take beyond the grace before we stop waiting for it.
GUARD_LIMIT = 15.0
# Compiled modules are kept, as they are wherever this is not set: programs start in half the time.
NOT_INHERITED = frozenset({"PYTHONDONTWRITEBYTECODE"})


class ProgramError(Exception):
    """A program did not start, or ended when it should not; the message quotes the end of its log."""


class ReservedPort:
    """
    A free port of 127.0.0.1, kept from others until it is released, that our server can still listen on.

    The socket is bound but does not listen. With SO_REUSEADDR on both sides, as asyncio and uvicorn set it,
    Linux lets a server listen on the port while nobody is handed it as a free one. A port that is merely
    found free can be taken before the server starts, seconds later.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()


class Workspace:
    """
    A temporary folder, and the programs that live in it: the folder goes after the last of them.

    A helper process removes the folder when nobody holds its pipe open any more: neither this process nor a
    guard. So it goes after a clean stop and after SIGKILL alike, and never under a program that still runs.

    :param prefix: The start of the folder's name.
    """

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
        self._programs: list[Program] = []
        self._held: int | None = None
        try:
            reader, self._held = os.pipe()
            try:
                self._cleaner = subprocess.Popen(  # noqa: S603 - our own command
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        grace: float = 5.0,
        forked: bool = False,
    ) -> Program:
        """
        Start a program under a guard.

        :param name: Names its log, ``logs/<name>.log`` in the folder; appended to if it exists.
        :param command: The program and its arguments.
        :param env: Its whole environment, from which what keeps Python from compiling is taken.
        :param grace: The seconds it has between SIGTERM and SIGKILL.
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
        """
        Tell which file takes the output of a program, or of several in turn.

        :param name: The name it is started by.
        """
        return self.path / "logs" / f"{name}.log"

    def log_files(self) -> list[Path]:
        """List the logs of the programs."""
        return sorted({program.log for program in self._programs if program.log.exists()})

    def close(self) -> None:
        """Stop what still runs, all at once, and remove the folder."""
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
    """The part of :class:`subprocess.Popen` that a program needs of its guard."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Return the exit status; None while a process of the tree is left."""

    def wait(self, timeout: float) -> int:
        """Wait for the end, and return the exit status."""


def _guard(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, grace: float, hold: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-E", str(GUARD), str(log), str(grace), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        # The guard must outlive a Ctrl-C, which a terminal sends to our whole process group.
        start_new_session=True,
        pass_fds=[hold],
    )


class Program:
    """
    One program under a guard. Made by :meth:`Workspace.start`.

    :param name: What errors call it.
    :param guard: Its guard.
    :param command: What it runs, for the error that it could not be started.
    :param log: The file that takes its output.
    :param grace: The seconds it has between SIGTERM and SIGKILL.
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
        """The program's exit status; none while any process of its tree is left."""
        return self._guard.poll()

    def tail(self, lines: int = 25) -> str:
        """
        Read the end of the log.

        :param lines: How many lines.
        """
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def failure(self, what: str) -> ProgramError:
        """
        Make an error that quotes the end of the log.

        :param what: What went wrong, following the program's name.
        """
        return ProgramError(f"{self.name} {what}. The end of its log:\n{self.tail()}")

    def wait(self, limit: float) -> None:
        """
        Wait for the program to end by itself, successfully.

        :param limit: How long, in seconds.
        """
        if status := self.end(limit):
            raise self.failure(f"ended with exit status {status}")

    def end(self, limit: float) -> int:
        """
        Wait for the program to end, and return its exit status.

        :param limit: How long, in seconds.
        """
        try:
            return self._guard.wait(limit)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {limit:.0f} s") from None

    def send(self, signum: signal.Signals) -> None:
        """
        Send a signal to the program alone, at this very instant; nothing if it has ended.

        :param signum: The signal.
        """
        if self.exit_status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def kill(self) -> None:
        """Send SIGKILL to the program and to every process below it, and wait until they are gone."""
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended by itself.
            self._guard.stdin.write(b"K")
            self._guard.stdin.flush()
        self.wait_until_gone()

    def ask_to_stop(self) -> None:
        """Have the guard stop the program, without waiting for it."""
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended by itself.
            self._guard.stdin.close()

    def wait_until_gone(self) -> None:
        """Wait for the guard, which ends after the whole tree."""
        self._guard.wait(self._grace + GUARD_LIMIT)
        assert self._guard.stdout is not None
        self._guard.stdout.close()

    def stop(self) -> None:
        """Send SIGTERM to the program and to every process below it; SIGKILL after the grace."""
        self.ask_to_stop()
        self.wait_until_gone()


def wait_for(
    what: str, ready: Callable[[], bool], *, limit: float, interval: float = 0.1, watch: Sequence[Program] = ()
) -> None:
    """
    Wait until something holds, as long as the programs it depends on are alive.

    :param what: What is waited for, as the error names it.
    :param ready: Whether it holds.
    :param limit: How long to wait, in seconds.
    :param interval: How long between two looks.
    :param watch: Programs whose end makes waiting pointless.
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
