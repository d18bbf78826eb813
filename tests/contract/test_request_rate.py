"""Request rates of several triggerers, as processes, with a server on loopback that counts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.benchmarks.request_rate import BEGIN, END, LIMIT, Case, main, measure
from tests.support.documents import pages
from tests.support.many_runs import ManyRunsServer
from tests.unit.runs.many_waits import many

#: Measured seconds.
WINDOW = 4.0


def assert_limited(case: Case, settle: float = 1.0) -> None:
    measured = measure(case, settle, WINDOW)
    # On a busy machine, requests of the second before can arrive late.
    assert measured.requests <= 1.1 * LIMIT * (measured.seconds + 1)
    # The limit does not stop the waits, however busy the machine is.
    assert measured.requests >= 0.1 * LIMIT * measured.seconds


@pytest.mark.parametrize("triggerers", [*(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2)), 4])
def test_triggerers_of_a_machine_share_the_limit(triggerers: int) -> None:
    assert_limited(Case(triggerers))


@pytest.mark.parametrize("triggerers", [pytest.param(count, marks=pytest.mark.slow) for count in (2, 4)])
def test_triggerers_of_several_machines_divide_the_limit(triggerers: int) -> None:
    assert_limited(Case(triggerers, machines=triggerers, shares=triggerers))


@pytest.mark.slow
def test_triggerers_slow_down_at_the_limit_of_the_service() -> None:
    case = Case(4, machines=4, accepted=round(LIMIT))
    measured = measure(case, settle=15, window=WINDOW)
    assert measured.requests - measured.refused <= LIMIT * (measured.seconds + 1)
    # Without the reduction, three of four requests would be refused.
    assert measured.refused < 0.5 * measured.requests


#: Sends requests as blocking tasks of a worker do, each of which is a process.
TASK = """
import sys
from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.endpoints import reverse_etl_sync_runs
from airflow_provider_datapipe.api.settings import Settings
settings = Settings(sys.argv[1], "key", max_requests_per_second=20, connection="the Airflow connection `x`")
with Client(settings) as client:
    for _ in range(int(sys.argv[2])):
        client.send(reverse_etl_sync_runs.get("r0"))
"""


def test_blocking_tasks_of_a_machine_share_the_limit(tmp_path: Path) -> None:
    runs, tasks, requests = many(time.time(), reverse_etl=1), 4, 15
    with ManyRunsServer(runs) as server:
        command = [sys.executable, "-c", TASK, server.url, str(requests)]
        env = os.environ | {"TMPDIR": str(tmp_path)}
        programs = [subprocess.Popen(command, env=env) for _ in range(tasks)]  # noqa: S603 - our own program
        assert [program.wait(60) for program in programs] == [0] * tasks
    times = [each.at for each in runs.asked]
    assert len(times) == tasks * requests
    # Separate limits would let all requests pass in less than a second.
    assert times[-1] - times[0] >= 0.8 * (tasks * requests - 5) / LIMIT


def test_the_page_has_a_place_for_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    page = pages()["docs/polling.md"]
    assert (page.count(BEGIN), page.count(END)) == (1, 2)
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "--write" in capsys.readouterr().out
