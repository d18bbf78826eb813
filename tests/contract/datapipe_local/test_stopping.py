"""Tests of active requests during a stop of the service."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.contract.datapipe_local.controlled import seed
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

pytestmark = pytest.mark.slow


#: It would take weeks.
ENDLESS = "SELECT count(*) AS n FROM range(3000000) a, range(3000000) b WHERE (a.range * b.range) % 7 = 3"
#: More than the start of a query process takes.
CPU_TICKS = 150


@pytest.fixture
def service(data: Path) -> Iterator[LocalService]:
    with LocalService(seed(data), control=True) as service:
        yield service


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def asked(service: LocalService, beside: ThreadPoolExecutor, path: str, sql: str) -> Future[httpx.Response]:
    """Send a query in the background, and wait until a child process works on it."""
    begun = threading.Event()

    def ask() -> httpx.Response:
        with httpx.Client(base_url=service.base_url, headers=service.headers, timeout=60) as client:
            client.get("/health").raise_for_status()
            begun.set()
            return client.post(path, json={"sql": sql})

    answer = beside.submit(ask)
    assert begun.wait(20)
    wait_for("it works", lambda: cpu_of_children(service.pid) > CPU_TICKS or answer.done(), limit=20)
    return answer


def cpu_of_children(pid: int) -> int:
    """Return the CPU time of the child processes of a process, which run the queries, in ticks."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[1]) == pid else 0
    return ticks


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM, signal.SIGINT]])
def test_what_takes_long_is_given_up_and_told_so(
    service: LocalService, beside: ThreadPoolExecutor, signals: list[signal.Signals]
) -> None:
    answer = asked(service, beside, "/_local/query", ENDLESS)
    for number in signals[:-1]:
        service._program.send(number)
        wait_for("it was heard", lambda: "Shutting down" in service.log, limit=10)
    assert service._signal(signals[-1]) == 0
    given = answer.result(20)
    assert given.status_code == 503
    assert given.json()["error_code"] == "stopping"
    assert "Traceback" not in service.log
    # As DuckDB says when its threads are cut off.
    assert "leaked" not in service.log
    service.start()
    assert httpx.get(f"{service.base_url}/elt_streams/orders", headers=service.headers).status_code == 200


def test_what_ends_soon_is_answered(service: LocalService, beside: ThreadPoolExecutor) -> None:
    service.faults([{"path": "/elt_streams/*/request_run", "delay": 0.7}])

    def ask() -> httpx.Response:
        url = f"{service.base_url}/elt_streams/orders/request_run"
        return httpx.post(url, headers=service.headers, timeout=60)

    answer = beside.submit(ask)
    wait_for("it has come", lambda: bool(service.journal_requests("/elt_streams/*/request_run")), limit=20)
    assert service.stop() == 0
    assert answer.result(20).status_code == 200
    # What was answered is done: by the next process.
    service.start()
    wait_for("it ran", lambda: ended(service), limit=20)
    (run,) = service.journal_runs("orders")
    assert run["status"] == "COMPLETED"


def ended(service: LocalService) -> bool:
    return all(run["finished_at"] for run in service.journal_runs("orders"))
