"""What all our tests rely on: the service of a test ends with the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.local_service import LocalService

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys
from tests.local_service import LocalService
with LocalService() as service:
    print(service.pid, service.folder, flush=True)
    sys.stdin.read()
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_it_dies_with_whoever_started_it() -> None:
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        said, folder = parent.stdout.readline().decode().split()
        pid = int(said)
        assert is_alive(pid)
        parent.kill()
    deadline = time.monotonic() + 5
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} outlived its parent"
        time.sleep(0.01)
    # Who is killed does not clean up.
    shutil.rmtree(folder)


def test_it_comes_back_at_the_same_address() -> None:
    with LocalService() as service:
        address, pid = service.base_url, service.pid
        service.restart()
        assert (service.base_url, service.pid != pid) == (address, True)
        assert httpx.get(f"{address}/connections", headers=service.headers).json()["data"] == []
    assert not is_alive(service.pid)
    assert not service.folder.exists()


def test_a_bad_seed_is_told() -> None:
    with pytest.raises(RuntimeError, match="surprise"), LocalService({"surprise": 1}):
        pass
