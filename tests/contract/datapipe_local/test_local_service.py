"""Tests that the service of a test ends with the test."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.local_service import LocalService
from tests.support.process_table import alive, working_in
from tests.support.processes import ProgramError, Workspace, wait_for

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from tests.support.local_service import LocalService
with LocalService() as service:
    print(service.pid, service.folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_it_dies_with_whoever_started_it() -> None:
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid, name = parent.stdout.readline().decode().split()
        folder = Path(name)
        assert alive(int(pid))
        parent.kill()
        wait_for("all is gone", lambda: not working_in(folder) and not folder.exists(), limit=10)
    assert not alive(int(pid))


@pytest.mark.slow
def test_it_comes_back_at_the_same_address() -> None:
    with LocalService() as service:
        address, pid = service.base_url, service.pid
        service.restart()
        assert (service.base_url, service.pid != pid) == (address, True)
        assert httpx.get(f"{address}/connections", headers=service.headers).json()["data"] == []
    assert not alive(service.pid)
    assert not service.folder.exists()


@pytest.mark.slow
def test_it_stops_by_itself_and_is_killed_from_outside() -> None:
    with LocalService() as service:
        assert service.stop() == 0
        assert service.stop() == 0
        service.start()
        service.kill()
        assert not alive(service.pid)
        assert service.stop() == -signal.SIGKILL % 256
        assert service.log.count("datapipe-local is ready at") == 2


@pytest.mark.slow
def test_it_can_live_beside_others(tmp_path: Path) -> None:
    seed = tmp_path / "seed.yaml"
    seed.write_text("orchestrations:\n  - {id: nightly, name: Nightly, cron_schedule: 0 2 * * *}\n")
    with Workspace("datapipe-test-") as workspace:
        with LocalService(seed, workspace=workspace) as service:
            assert service.folder == workspace.path
            found = httpx.get(f"{service.base_url}/orchestrations", headers=service.headers).json()["data"]
            assert [one["id"] for one in found] == ["nightly"]
        assert working_in(workspace.path) == []
        assert service.warehouse.exists()


@pytest.mark.slow
def test_what_it_runs_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    # A new interpreter, as outside of pytest.
    monkeypatch.setattr(LocalService, "forked", False)
    with LocalService() as service:
        variables = Path(f"/proc/{service.pid}/environ").read_bytes().split(b"\0")
    assert f"DATAPIPE_LOCAL_API_KEY={service.api_key}".encode() in variables
    assert not [one for one in variables if one.startswith(b"PYTHONDONTWRITEBYTECODE")]


def test_a_bad_seed_is_told() -> None:
    with pytest.raises(ProgramError, match="surprise"), LocalService({"surprise": 1}):
        pass
