"""Tests of active requests during a stop of the service."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.contract.datapipe_local.controlled import ANY_STREAM, ORDERS, journalled, seed
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


def send(service: LocalService, path: str, **body: str) -> httpx.Response:
    return httpx.post(f"{service.base_url}{path}", json=body or None, headers=service.headers, timeout=60)


def cpu_of_children(pid: int) -> int:
    """Return the CPU time of the child processes of a process, which run the queries, in ticks."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[1]) == pid else 0
    return ticks


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM, signal.SIGINT]])
def test_stop_ends_a_long_request_with_503(
    service: LocalService, beside: ThreadPoolExecutor, signals: list[signal.Signals]
) -> None:
    answer = beside.submit(send, service, "/_local/query", sql=ENDLESS)
    wait_for("the query", lambda: cpu_of_children(service.pid) > CPU_TICKS or answer.done(), limit=60)
    for number in signals[:-1]:
        service._program.send(number)
        wait_for("the shutdown", lambda: "Shutting down" in service.log, limit=60)
    assert service._signal(signals[-1]) == 0
    given = answer.result(20)
    assert given.status_code == 503
    assert given.json()["error_code"] == "stopping"
    assert "Traceback" not in service.log
    # DuckDB's message about ended threads.
    assert "leaked" not in service.log
    service.start()
    assert httpx.get(f"{service.base_url}/elt_streams/orders", headers=service.headers).status_code == 200


def test_stop_waits_for_a_short_request(service: LocalService, beside: ThreadPoolExecutor) -> None:
    service.faults([{"path": ANY_STREAM, "delay": 0.7}])
    answer = beside.submit(send, service, ORDERS)
    wait_for("the request", lambda: bool(service.journal_requests(ANY_STREAM)), limit=60)
    assert service.stop() == 0
    assert answer.result(20).status_code == 200
    # The next process runs the acknowledged request.
    service.start()
    (run,) = journalled(service, "orders", 1)
    assert run["status"] == "COMPLETED"
