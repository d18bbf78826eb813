"""Short form of ``make distributed``: every component is killed once, and workers with a request in progress."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.postgresql import need_postgresql
from tests.support.processes import Workspace
from tests.support.redis_server import PROGRAM as REDIS
from tests.system.demo import ROOT

ENVIRONMENT = ROOT / ".venv-celery"
#: Seconds for all kills, and for the recovery of Airflow on a busy machine.
LIMIT = 1_800


def need_celery() -> None:
    """Skip a test without Redis or the packages of CeleryExecutor. With ``CI=true``, they are required."""
    need_postgresql()
    found = {"apt-get install redis-server": shutil.which(REDIS), "make test-slow": (ENVIRONMENT / ".ready").exists()}
    if missing := [command for command, is_there in found.items() if not is_there]:
        message = f"the distributed deployment needs: {', '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


def test_kills_of_everything_leave_one_run_and_right_states() -> None:
    need_celery()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "tests.system.distributed", "--short"]
    with Workspace("datapipe-distributed-test-") as workspace:
        program = workspace.start("distributed", command, env=env, grace=60)
        status = program.end(LIMIT)
        output = program.log.read_text(errors="replace")
    assert status == 0, output
    # Else it shows nothing.
    for kill in ("triggerer-1", "worker-1", "api-server", "scheduler-1", "redis, data lost", "postgresql"):
        assert f"SIGKILL {kill} " in output
