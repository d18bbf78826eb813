"""What becomes of requests that are under way when the service is told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.contract.datapipe_local.controlled import seed
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

#: It would take weeks.
ENDLESS = "SELECT count(*) AS n FROM range(3000000) a, range(3000000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture
def service(data: Path) -> Iterator[LocalService]:
    with LocalService(seed(data), control=True) as service:
        yield service


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def asked(service: LocalService, beside: ThreadPoolExecutor, path: str, sql: str) -> Future[httpx.Response]:
    """Ask, and wait until it is being done."""
    begun = threading.Event()

    def ask() -> httpx.Response:
        with httpx.Client(base_url=service.base_url, headers=service.headers, timeout=60) as client:
            client.get("/health").raise_for_status()
            begun.set()
            return client.post(path, json={"sql": sql})

    answer = beside.submit(ask)
    assert begun.wait(20)
    # The one file that a statement keeps open is this: it can be seen to work.
    busy = Path(f"/proc/{service.pid}/stat")
    before = cpu(busy)
    wait_for("it works", lambda: cpu(busy) > before + 20 or answer.done(), limit=20)
    return answer


def cpu(stat: Path) -> int:
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


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
