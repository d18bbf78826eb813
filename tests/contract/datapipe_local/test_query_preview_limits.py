"""Tests of the time and memory limits of query previews, while the service answers other requests."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.contract.datapipe_local import transform_calls
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.controlled import seed
from tests.contract.datapipe_local.transform_calls import preview
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

pytestmark = pytest.mark.slow

SECONDS = 1
#: Half a gibibyte, the share of each query process of the memory limit of this service.
PROCESS_MEMORY_KIB = 512 * 1024
SECRET = "a-variable-of-the-service"
ENDLESS = "SELECT count(*) FROM range(100000000000) a, range(100000) b WHERE a.range % 7 = b.range % 5"
HOSTILE = [
    "SELECT repeat('x', 4000000000)",
    "SELECT [repeat('x', 4000000000), repeat('y', 4000000000), repeat('z', 4000000000)]",
    "SELECT lpad('x', 2000000000, 'ab')",
    "SELECT rpad('x', 2000000000, 'ab')",
    "SELECT replace(repeat('x', 100000), 'x', repeat('y', 100000))",
    "SELECT regexp_replace(repeat('x', 100000), 'x', repeat('y', 100000), 'g')",
    "SELECT format('{:1000000000}', 'x'), format('{:1000000000}', 'y')",
    "SELECT string_agg(repeat('x', 1000000), ',') FROM range(100000)",
    "SELECT list(repeat(range::VARCHAR, 1000)) FROM range(10000000000)",
    "SELECT list_transform(range(100000), lambda x: repeat('x', 1000000))",
    "SELECT range(1000000000)",
    "SELECT to_json(range(200000000))",
    "SELECT histogram(range) FROM range(10000000000)",
    "SELECT i, repeat('x', 300000000) FROM range(1000) t(i)",
    "SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))",
    "SELECT count(DISTINCT hash(range)) FROM range(100000000000)",
    "FROM range(100000000000) t(i) ORDER BY hash(i)",
    "SELECT unnest(range(100000)) FROM range(100000000) ORDER BY 1 DESC",
    "WITH RECURSIVE c AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM c) SELECT max(a) FROM c",
    ENDLESS,
]


@pytest.fixture(scope="module")
def limited(data: Path) -> Iterator[LocalService]:
    environment = {
        "DATAPIPE_LOCAL_MEMORY_LIMIT": "1GiB",
        "DATAPIPE_LOCAL_PREVIEW_TIME_LIMIT": str(SECONDS),
        "A_SECRET": SECRET,
    }
    with served(seed(data), control=True, environment=environment) as (service, _):
        yield service


@pytest.fixture
def api(limited: LocalService) -> Api:
    return Api(limited)


def ended(api: Api, sql: str) -> str:
    return waited(api, preview(api, sql))


def waited(api: Api, preview_id: str) -> str:
    """Wait for the end of a preview, and return its error, or its status."""
    status = transform_calls.ended(api, preview_id)
    return str(status.error or status.status)


def query_processes(pid: int) -> list[Path]:
    """
    Return the processes of a service that run queries.

    Without children that do not yet run their program, because these have the address space of the service.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"query_process" in (process / "cmdline").read_bytes():
                found.append(process)
    return found


def memory(process: Path, field: str) -> int:
    """Return a field of the memory of a process, in KiB; 0 if the process has ended."""
    with suppress(OSError):
        for line in (process / "status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return 0


class Observer:
    """Observer of a service during a ``with`` block: its memory, that of its children, the latency of a request."""

    def __init__(self, service: LocalService) -> None:
        self._service = service
        self._over = threading.Event()
        self.latencies: list[float] = []
        self.child_peak = 0

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor()
        self._observed = [self._pool.submit(self._observe_latency), self._pool.submit(self._observe_memory)]
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pool.shutdown()
        for observed in self._observed:
            observed.result()

    @property
    def service_peak(self) -> int:
        return memory(Path(f"/proc/{self._service.pid}"), "VmHWM")

    def _observe_latency(self) -> None:
        with httpx.Client(base_url=self._service.base_url, timeout=60) as client:
            while not self._over.wait(0.02):
                begin = time.monotonic()
                assert client.get("/health").status_code == 200
                self.latencies.append(time.monotonic() - begin)

    def _observe_memory(self) -> None:
        while not self._over.wait(0.02):
            peaks = [memory(child, "VmPeak") for child in query_processes(self._service.pid)]
            self.child_peak = max(self.child_peak, *peaks, 0)


def test_hostile_previews_end_within_their_limits(limited: LocalService, api: Api) -> None:
    assert ended(api, "SELECT 1") == "DONE"
    with Observer(limited) as observer:
        before = observer.service_peak
        ids = [preview(api, sql) for sql in HOSTILE]
        errors = [waited(api, preview_id) for preview_id in ids]
    for sql, error in zip(HOSTILE, errors, strict=True):
        assert "--memory-limit" in error or "--preview-time-limit" in error, (sql, error)
    assert 0 < observer.child_peak <= PROCESS_MEMORY_KIB
    assert observer.service_peak - before < PROCESS_MEMORY_KIB // 4
    # Generous, because other tests can run on the machine.
    assert max(observer.latencies) < 2
    # The next preview is not affected, and no files are left.
    assert ended(api, "SELECT 1") == "DONE"
    wait_for("removed files", lambda: not list((limited.home / "scratch").glob("preview-*")), limit=60)


def test_killed_query_process_fails_only_its_preview(data: Path) -> None:
    # Without the short time limit of the other tests, which can end the query before the kill.
    with served(seed(data)) as (service, api):
        preview_id = preview(api, ENDLESS)
        wait_for("a query process", lambda: bool(query_processes(service.pid)), limit=60)
        for child in query_processes(service.pid):
            os.kill(int(child.name), signal.SIGKILL)
        assert "SIGKILL" in waited(api, preview_id)
        assert ended(api, "SELECT 1") == "DONE"


def test_query_process_is_reused_and_has_no_secrets(limited: LocalService, api: Api) -> None:
    ended(api, "SELECT 1")
    (child,) = query_processes(limited.pid)
    variables = (child / "environ").read_bytes()
    assert SECRET.encode() not in variables
    assert limited.api_key.encode() not in variables + (child / "cmdline").read_bytes()
    files = {str(file.readlink()) for file in (child / "fd").iterdir()}
    assert not [file for file in files if str(limited.home) in file or file.startswith("socket:")]
    ended(api, "SELECT * FROM no_such_table")
    ended(api, "SELECT 2")
    assert query_processes(limited.pid) == [child]


def test_query_process_ends_with_a_killed_service(data: Path) -> None:
    with served(seed(data)) as (service, api):
        ended(api, "SELECT 1")
        preview(api, ENDLESS)
        scratch = service.home / "scratch"
        wait_for("the query", lambda: bool(list(scratch.glob("preview-*/snapshot*"))), limit=60)
        processes = query_processes(service.pid)
        assert processes
        service.kill()
        wait_for("its end", lambda: not any(memory(child, "VmSize") for child in processes), limit=60)
        service.start()
        assert not list(scratch.glob("preview-*"))


def test_custom_report_stays_within_the_limits(limited: LocalService, api: Api) -> None:
    report = {"elt_sync_id": "shop", "name": "Huge", "query": "SELECT repeat('x', 4000000000) AS huge FROM people"}
    with Observer(limited) as observer:
        before = observer.service_peak
        api.post("/custom_reports", {"reports": [report]}, status=201)
        (stream,) = [one for one in api.get("/elt_syncs/shop")["source_streams"] if one["name"] == "huge"]
        api.post(f"/elt_streams/{stream['id']}/request_run")
        wait_for("the failure", lambda: "needed more memory" in limited.log, limit=60)
    assert observer.child_peak <= PROCESS_MEMORY_KIB
    assert observer.service_peak - before < PROCESS_MEMORY_KIB // 4
