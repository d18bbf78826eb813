"""
Guard of the process tree of one command: ``python guard.py LOG GRACE COMMAND...``.

Airflow's components fork workers, supervisors, parsers and trigger runners. These processes remain after a kill of the
component, or of the process that started it. Therefore each component gets a guard, which

* is the *subreaper* of the tree (Linux): a process whose parent has ended becomes a child of the guard, in any session
or process group;
* writes the pid of the command, as one line, to its standard output;
* reads its standard input, a pipe that only the starter holds open. End of file means stop: SIGTERM to the
  tree, up to GRACE seconds, then SIGKILL. The starter closes the pipe, also when it is killed. The byte ``K``
  means SIGKILL at once. SIGTERM to the guard means stop, too;
* ends with the exit status of the command, after the last process of the tree.

The guard imports only the standard library, so that it costs little.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_CHILD_SUBREAPER = 36
KILL = b"K"
# Time limit of SIGKILL in seconds. Only a process that is blocked in the kernel takes longer, and it cannot be ended.
KILL_LIMIT = 10.0
TICK = 0.05


def become_subreaper() -> None:
    """Become the parent of orphans of the tree. Other systems than Linux find them by parentage."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def noop(signum: int, frame: object) -> None:
    """Handle a signal to wake the loop. Unlike SIG_IGN, the command does not inherit a handler."""


class Tree:
    """
    Processes below this one.

    :param pid: The process ID of the command, the first of them.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self.empty = False

    def reap(self) -> None:
        """Collect all processes that have ended, and the exit status of the command."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.empty = True
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)

    def send(self, signum: signal.Signals) -> None:
        """Send a signal to every process of the tree."""
        # Imported late, because the import takes 60 ms and is needed only at the end.
        import psutil  # type: ignore[import-untyped]  # a dependency of Airflow, without type hints

        for process in psutil.Process().children(recursive=True):
            try:
                process.send_signal(signum)
            except psutil.NoSuchProcess:
                continue


def wait_for_order(tree: Tree, wakeup: int, stopped: list[int]) -> bytes:
    """
    Wait until the command has ended, or the starter or a signal requests a stop.

    :param wakeup: Becomes readable when a signal has arrived.
    :param stopped: Gets an element when SIGTERM has arrived.
    """
    while tree.status is None and not stopped:
        readable, _, _ = select.select([0, wakeup], [], [])
        if wakeup in readable:
            os.read(wakeup, 4096)
            tree.reap()
        if 0 in readable:
            return os.read(0, 1)
    return b""


def end(tree: Tree, signum: signal.Signals, limit: float, wakeup: int) -> None:
    """
    Send a signal to the tree, and wait for its end or the limit.

    :param signum: The signal. SIGKILL is sent again to new forks.
    :param limit: The limit of the wait, in seconds.
    :param wakeup: Becomes readable when a signal has arrived.
    """
    deadline = time.monotonic() + limit
    tree.send(signum)
    tree.reap()
    while not tree.empty and time.monotonic() < deadline:
        if select.select([wakeup], [], [], TICK)[0]:
            os.read(wakeup, 4096)
        if signum == signal.SIGKILL:
            tree.send(signum)
        tree.reap()


def guard(start: Callable[[], int], grace: float) -> int:
    """
    Guard one command until its end, and return its exit status.

    :param start: Start the command, and return its process ID.
    :param grace: The seconds between SIGTERM and SIGKILL.
    """
    stopped: list[int] = []
    wakeup, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if sys.platform == "linux" else os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, noop)
    signal.signal(signal.SIGINT, noop)
    signal.signal(signal.SIGTERM, lambda signum, frame: stopped.append(signum))
    become_subreaper()

    tree = Tree(start())
    with contextlib.suppress(BrokenPipeError):  # the starter has ended, which the end of standard input also shows
        os.write(1, b"%d\n" % tree.pid)
    order = wait_for_order(tree, wakeup, stopped)
    if order != KILL and tree.status is None:
        end(tree, signal.SIGTERM, grace, wakeup)
    if not tree.empty:
        end(tree, signal.SIGKILL, KILL_LIMIT, wakeup)
    return 1 if tree.status is None else tree.status % 256


def main(log: str, grace: str, *command: str) -> int:
    """
    Guard one command until its end.

    :param log: The file for the output of the command.
    :param grace: The seconds between SIGTERM and SIGKILL.
    :param command: The command and its arguments.
    """
    # Keep a reference: a Popen object reaps its process when it is garbage-collected, and its status would be lost.
    started: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        with Path(log).open("ab") as out:
            # start_new_session: the starter handles Ctrl-C in a terminal, not the command.
            command_process = subprocess.Popen(  # noqa: S603 - command of the starter
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        started.append(command_process)
        return command_process.pid

    return guard(start, float(grace))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
