from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.support.process_table import working_in
from tests.support.processes import wait_for
from tests.system.airflow_api import AirflowApi
from tests.system.demo import DAG, ROOT

# Default ports of Airflow's servers, and usual ports of other services.
USUAL_PORTS = (8080, 8793, 8794, 8974, 8000, 8765)


class Demo:
    """Demo in a separate process group, like in a terminal, with its temporary files in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir()
        self.folder = folder
        self._process = subprocess.Popen(  # noqa: S603 - command of this repository
            [sys.executable, "-m", "tests.system.demo", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self.end(60)

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._lines.extend(self._process.stdout)

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def says(self, text: str) -> str:
        """Wait until the output contains the text, and return the output."""
        ended = self._process.poll
        wait_for(f"the demo says {text!r}", lambda: text in self.output or ended() is not None, limit=300)
        assert text in self.output, self.output
        return self.output

    def interrupt(self, signum: signal.Signals = signal.SIGINT) -> None:
        """Send a signal to the process group, like Ctrl-C."""
        os.killpg(self._process.pid, signum)

    def end(self, limit: float) -> int:
        """Wait for the end, and return the exit status."""
        status = self._process.wait(limit)
        self._reader.join()
        return status

    def leaves_nothing(self) -> bool:
        return not working_in(self.folder) and not list(self.folder.iterdir())


@pytest.fixture
def busy_ports() -> Iterator[None]:
    with ExitStack() as stack:
        for port in USUAL_PORTS:
            # A port that cannot be bound is in use, too.
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


@pytest.mark.usefixtures("busy_ports")
def test_two_concurrent_demos_one_of_them_interrupted(tmp_path: Path) -> None:
    with Demo(tmp_path / "a") as demo, Demo(tmp_path / "b", "--keep") as kept:
        words = dict(re.findall(r"s +(\S.*?):? +(\S+)$", kept.says("Ctrl-C stops everything."), re.MULTILINE))
        assert httpx.get(f"{words['datapipe-local']}/health", trust_env=False).is_success
        with closing(AirflowApi(words["Airflow"], words["login"], words["password"])) as api:
            assert api.answers()
            wait_for("the DAG is parsed", lambda: api.knows_dag(DAG), limit=120, interval=0.5)
            run_id = api.trigger(DAG)
            path = f"/dags/{DAG}/dagRuns/{run_id}/taskInstances?state=running"
            wait_for("a task runs", lambda: bool(api.request("GET", path)["task_instances"]), limit=120, interval=0.5)
        kept.interrupt()
        assert kept.end(60) == 130, kept.output
        assert "Traceback" not in kept.output
        assert kept.output.rstrip().endswith("everything that was started is stopped.")
        assert kept.leaves_nothing()

        assert demo.end(300) == 0, demo.output
        assert "FAILED" not in demo.output
        for table in ("flights", "airlines", "airports", "planes", "weather"):
            assert re.search(rf"^ok +table {table} +[\d,]+ rows, ", demo.output, re.MULTILINE), demo.output
        for check in ("DAG run", "deferral", "partner", "API key"):
            assert re.search(rf"^ok +{check} ", demo.output, re.MULTILINE), demo.output
        assert demo.leaves_nothing()


@pytest.mark.parametrize(
    ("moment", "signum", "status"),
    [("starting datapipe-local", signal.SIGINT, 130), ("creating the metadata database", signal.SIGTERM, 143)],
)
def test_interrupt_during_the_start(tmp_path: Path, moment: str, signum: signal.Signals, status: int) -> None:
    with Demo(tmp_path / "a") as demo:
        demo.says(moment)
        demo.interrupt(signum)
        assert demo.end(60) == status, demo.output
        assert "Traceback" not in demo.output
        assert demo.leaves_nothing()
