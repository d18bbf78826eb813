from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process_table import tree_of, working_in
from tests.support.processes import ProgramError, ReservedPort, Workspace, wait_for

# A program with a child, a child in a session of its own whose parent is gone, and deaf ears for SIGTERM.
FAMILY = "trap '' TERM; (setsid sleep 1000 &); sleep 1000 & echo ready; while true; do wait; done"
STARTER = """
import os, sys
from tests.support.processes import Workspace
workspace = Workspace("datapipe-test-")
workspace.start("family", ["bash", "-c", sys.argv[1]], env=dict(os.environ), grace=0.2)
print(workspace.path, flush=True)
sys.stdin.read()
"""
# A guard that is held up while it starts what ends at once.
HURRIED = """
import subprocess, sys, time
from tests.support import guard
class Slow(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        time.sleep(0.3)
guard.subprocess.Popen = Slow
sys.exit(guard.main(*sys.argv[1:]))
"""


def grown(folder: Path) -> bool:
    # The guard, the shell and two sleeps.
    return len(working_in(folder)) == 4


def gone(folder: Path) -> bool:
    return not working_in(folder) and not folder.exists()


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_nothing_of_a_program_survives_its_end(way: str) -> None:
    with Workspace("datapipe-test-") as workspace:
        family = workspace.start("family", ["bash", "-c", FAMILY], env=dict(os.environ), grace=0.2)
        wait_for("the family is complete", lambda: grown(workspace.path), limit=10)
        assert len(tree_of(family.pid)) == 2
        getattr(family, way)()
        assert working_in(workspace.path) == []
    assert not workspace.path.exists()


def test_orphans_of_a_program_that_dies_by_itself_go_with_it() -> None:
    with Workspace("datapipe-test-") as workspace:
        family = workspace.start("family", ["bash", "-c", FAMILY], env=dict(os.environ), grace=0.2)
        wait_for("the family is complete", lambda: grown(workspace.path), limit=10)
        os.kill(family.pid, signal.SIGKILL)
        wait_for("the guard is gone", lambda: family.exit_status is not None, limit=10)
        assert working_in(workspace.path) == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_nothing_survives_the_starter(signum: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTER, FAMILY]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as starter:
        assert starter.stdout is not None
        folder = Path(starter.stdout.readline().decode().strip())
        wait_for("the family is complete", lambda: grown(folder), limit=10)
        starter.send_signal(signum)
        wait_for("all are gone", lambda: gone(folder), limit=10)


def test_a_program_that_ends_before_its_guard_looks_is_noticed(tmp_path: Path) -> None:
    guard = [sys.executable, "-c", HURRIED, str(tmp_path / "log"), "1", "bash", "-c", "exit 3"]
    pipe = subprocess.PIPE
    with subprocess.Popen(guard, stdin=pipe, stdout=pipe) as process:  # noqa: S603 - our own command
        try:
            assert process.wait(10) == 3
        finally:
            process.kill()


def test_the_error_of_a_program_that_fails_quotes_its_log() -> None:
    with Workspace("datapipe-test-") as workspace:
        program = workspace.start("failing", ["bash", "-c", "echo no such table; exit 3"], env=dict(os.environ))
        with pytest.raises(ProgramError, match=r"failing ended with exit status 3(.|\n)*no such table"):
            program.wait(10)


def test_waiting_ends_when_the_program_does() -> None:
    with Workspace("datapipe-test-") as workspace:
        program = workspace.start("failing", ["bash", "-c", "echo bad port; exit 3"], env=dict(os.environ))
        with pytest.raises(ProgramError, match=r"exit status 3 before it answers(.|\n)*bad port"):
            wait_for("it answers", lambda: False, limit=60, watch=[program])


def test_a_program_that_does_not_exist() -> None:
    with Workspace("datapipe-test-") as workspace, pytest.raises(ProgramError, match="no-such-program"):
        workspace.start("nothing", ["no-such-program"], env=dict(os.environ))


def test_a_reserved_port_can_be_listened_on_by_its_owner() -> None:
    port = ReservedPort()
    with socket.create_server(("127.0.0.1", port.number)), pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port.number))
    port.release()
