"""Guarded programs of tests: no process survives their end or the end of the starting process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process_table import tree_of, working_in
from tests.support.processes import ProgramError, Workspace, wait_for

# Program that ignores SIGTERM, with a child and with an orphaned process in a separate session.
FAMILY = "trap '' TERM; (setsid sleep 1000 &); sleep 1000 & echo ready; while true; do wait; done"
STARTER = """
import os, sys
from tests.support.processes import Workspace
workspace = Workspace("datapipe-test-")
workspace.start("family", ["bash", "-c", sys.argv[1]], env=dict(os.environ), grace=0.2)
print(workspace.path, flush=True)
sys.stdin.read()
"""


def is_complete(folder: Path) -> bool:
    # The guard, the shell and two sleep processes.
    return len(working_in(folder)) == 4


@pytest.mark.parametrize("way", ["kill", "stop", "dies"])
def test_no_process_survives_the_end_of_a_program(way: str) -> None:
    with Workspace("datapipe-test-") as workspace:
        family = workspace.start("family", ["bash", "-c", FAMILY], env=dict(os.environ), grace=0.2)
        wait_for("the family is complete", lambda: is_complete(workspace.path), limit=60)
        assert len(tree_of(family.pid)) == 2
        if way == "dies":
            os.kill(family.pid, signal.SIGKILL)
            wait_for("the guard is gone", lambda: family.exit_status is not None, limit=60)
        else:
            getattr(family, way)()
        assert working_in(workspace.path) == []
    assert not workspace.path.exists()


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_no_process_survives_the_starting_process(signum: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTER, FAMILY]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 - program of this test
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as starter:
        assert starter.stdout is not None
        folder = Path(starter.stdout.readline().decode().strip())
        wait_for("the family is complete", lambda: is_complete(folder), limit=60)
        starter.send_signal(signum)
        wait_for("all are gone", lambda: not working_in(folder) and not folder.exists(), limit=60)


def test_error_of_a_failed_program_quotes_its_log() -> None:
    with Workspace("datapipe-test-") as workspace:
        program = workspace.start("failing", ["bash", "-c", "echo no such table; exit 3"], env=dict(os.environ))
        with pytest.raises(ProgramError, match=r"exit status 3 before it answers(.|\n)*no such table"):
            wait_for("it answers", lambda: False, limit=60, watch=[program])
        with pytest.raises(ProgramError, match=r"failing ended with exit status 3(.|\n)*no such table"):
            program.wait(10)
        with pytest.raises(ProgramError, match="no-such-program"):
            workspace.start("nothing", ["no-such-program"], env=dict(os.environ))
