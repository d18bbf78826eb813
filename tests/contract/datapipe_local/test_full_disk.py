"""Tests of a full disk: writes return 507, reads succeed, and nothing is lost."""

from __future__ import annotations

import json
import resource
import zipfile
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection, elt_sync, reverse_etl_sync, stream, transform
from tests.support.full_disk import Disk, ServiceOnDisk, disk
from tests.support.processes import ProgramError, wait_for

MEGABYTE = 1 << 20
NO_ROOM = "No space left on device"
EVENTS = "/webhooks/hook/events"
LARGE = 600_000
BIG_ROWS = 100_000
RECORDS = 20_000
FORMS = ("jsonl", "csv")
READS = (
    "/connections",
    "/elt_syncs",
    "/elt_syncs/shop/status",
    "/transforms",
    "/orchestrations",
    "/reverse_etl_syncs",
    "/transforms/available_references",
    "/_local/journal?kind=runs",
    "/_local/journal?kind=requests",
    "/_local/faults",
    "/health",
)


def seed(folder: Path) -> dict[str, Any]:
    streams = [stream("small"), stream("big"), stream("packed", "big.zip")]
    out = str(folder / "disk" / "out")
    numbers = f"SELECT range AS id FROM range({RECORDS})"  # noqa: S608 - a number
    wide = "SELECT random() AS x, random() AS y, range AS id FROM range(3000000)"
    return {
        "connections": [
            connection("data", "files", path=str(folder)),
            connection("hook", "webhook", authentication={"method": "none"}, tables=[{"name": "events"}]),
            *(connection(form, form, path=out) for form in FORMS),
        ],
        "elt_syncs": [
            elt_sync("shop", "data", streams),
            elt_sync("pushed", "hook", [stream("events", table="events")]),
        ],
        "transforms": [
            transform("numbers", numbers, publish=True),
            transform("wide", wide, materialization="table"),
        ],
        "reverse_etl_syncs": [
            reverse_etl_sync(f"to_{form}", "numbers", form, f"numbers_{form}", "id", mode="insert") for form in FORMS
        ],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    (folder / "small.csv").write_text("id,name\n1,Ada\n2,Bob\n")
    (folder / "big.csv").write_text(
        "id,name\n" + "".join(f"{number},{sha256(b'%d' % number).hexdigest()[:40]}\n" for number in range(BIG_ROWS))
    )
    with zipfile.ZipFile(folder / "big.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "big.csv", "big.csv")
    (folder / "disk").mkdir()
    return folder


@pytest.fixture(scope="module")
def small_disk(folder: Path) -> Iterator[Disk]:
    with disk(folder / "disk", 48) as mounted:
        yield mounted


@pytest.fixture(scope="module")
def running(folder: Path, small_disk: Disk) -> Iterator[ServiceOnDisk]:
    with ServiceOnDisk(small_disk, seed(folder), control=True) as service:
        yield service
        assert "Traceback" not in service.log, service.log


@pytest.fixture
def service(running: ServiceOnDisk) -> Iterator[ServiceOnDisk]:
    make_room(running)
    running.reset()
    yield running
    running.disk.clear()


eventually = partial(wait_for, "the condition", limit=30, interval=0.02)


def writes_succeed(service: ServiceOnDisk) -> bool:
    answer = httpx.put(f"{service.base_url}/_local/faults", json=[], headers=service.headers)
    # Only the last of these lines counts: the log is also a file, so other lines can be missing.
    return answer.is_success and service.log.rfind("Cannot write the state") <= service.log.rfind("written again")


def make_room(service: ServiceOnDisk) -> None:
    service.disk.clear()
    eventually(lambda: writes_succeed(service))


def leave_little(service: ServiceOnDisk, api: Api, leave: int = MEGABYTE // 2) -> None:
    """Fill the disk, except for some bytes and for the pages that SQLite keeps for small changes in its own files."""
    assert {push(api, number, LARGE) for number in range(8)} == {200}
    service.disk.fill(leave=leave)


def push(api: Api, number: int, padding: int = 0) -> int:
    return api.client.post(EVENTS, json={"id": number, "padding": "x" * padding}).status_code


def exhaust(service: ServiceOnDisk, api: Api) -> None:
    """Fill the disk and the free pages in the files of SQLite."""
    service.disk.fill()
    eventually(lambda: push(api, 0, LARGE) == 507)


def pushed_ids(api: Api) -> list[int]:
    run = api.run_stream("events")
    assert run.status == "COMPLETED"
    answer = api.post("/_local/query", {"sql": "SELECT id FROM pushed.events ORDER BY id"})
    return [row["id"] for row in answer["data"]]


def error_of(api: Api, sync: str, stream: str) -> str:
    return str(api.stream_status(sync, stream)["latest_sync"]["error_message"])


def test_webhook_row_is_refused_with_507(service: ServiceOnDisk, api: Api) -> None:
    exhaust(service, api)
    answer = api.client.post(EVENTS, json={"id": 1, "padding": "x" * LARGE})
    assert answer.status_code == 507
    assert answer.json() == {
        "error_code": "insufficient_storage",
        "message": f"{NO_ROOM} in the home of the service, which its log names: make room there, then try again.",
    }


def test_webhook_rows_are_stored_exactly_if_acknowledged(service: ServiceOnDisk, api: Api) -> None:
    statuses = {number: push(api, number, 1000) for number in range(5)}
    service.disk.fill(leave=MEGABYTE // 2)
    statuses |= {number: push(api, number, LARGE // 4) for number in range(5, 60)}
    service.disk.clear()
    statuses |= {number: push(api, number, 1000) for number in range(60, 65)}
    assert set(statuses.values()) == {200, 507}
    eventually(lambda: writes_succeed(service))
    assert pushed_ids(api) == [number for number, status in statuses.items() if status == 200]


@pytest.mark.slow
def test_reads_are_answered_with_the_control_plane(service: ServiceOnDisk, api: Api) -> None:
    exhaust(service, api)
    # More requests than the free pages of SQLite could hold if the journal recorded them.
    for _ in range(40):
        for path in READS:
            assert api.client.get(path).status_code == 200, path


def test_requests_that_write_are_refused_with_507(service: ServiceOnDisk, api: Api) -> None:
    exhaust(service, api)
    sql = f"SELECT '{'x' * LARGE}' AS x"
    for method, path, content in (
        ("POST", "/transforms", {"name": "another", "sql_template": sql}),
        ("PATCH", "/transforms/wide", {"sql_template": sql}),
        ("PUT", "/_local/runs", {"resources": {"small": {"outcomes": [{"fail": "x" * LARGE}]}}}),
    ):
        assert api.refused(method, path, 507, json=content)["error_code"] == "insufficient_storage", path


def test_outage_is_logged_once_and_its_end_once(service: ServiceOnDisk, api: Api) -> None:
    begin = len(service.log)
    exhaust(service, api)
    assert [push(api, number, LARGE) for number in range(20)] == [507] * 20
    service.disk.clear()
    eventually(lambda: "written again" in service.log[begin:])
    home = service.disk.path / "home"
    beginning = (
        f"Cannot write the state: {NO_ROOM} in {home}: make room there. Until then runs and schedules wait, and"
        " requests that change something get status 507"
    )
    assert [line.partition(": ")[2] for line in service.log[begin:].splitlines()] == [
        beginning,
        f"The state in {home} can be written again: runs and schedules continue",
    ]
    assert push(api, 1, LARGE) == 200


@pytest.mark.parametrize("stream", ["big", "packed"])
def test_load_without_room_fails_at_once(service: ServiceOnDisk, api: Api, stream: str) -> None:
    leave_little(service, api)
    assert api.run_stream(stream).status == "FAILED"
    message = error_of(api, "shop", stream)
    assert NO_ROOM in message or "there is no room for them" in message
    assert f"in {service.disk.path / 'home'}" in message
    assert "make room there" in message
    assert "Correct the file" not in message
    make_room(service)
    assert api.run_stream(stream).rows_synced == BIG_ROWS


def test_load_that_fills_the_disk_fails_once_there_is_room(service: ServiceOnDisk, api: Api) -> None:
    assert api.run_stream("small").rows_synced == 2
    begin = len(service.log)
    # There is room for the record of the run, and then the load fills the disk.
    service.disk.fill(leave=MEGABYTE)
    url = api.post("/elt_streams/big/request_run")["status_url"]
    eventually(lambda: "of big failed" in service.log[begin:])
    exhaust(service, api)
    service.disk.clear()
    assert api.ended(url)["status"] == "FAILED"
    assert NO_ROOM in error_of(api, "shop", "big")


def test_load_without_room_keeps_the_previous_table(service: ServiceOnDisk, api: Api, folder: Path) -> None:
    file = folder / "small.csv"
    before = file.read_text()
    assert api.run_stream("small").rows_synced == 2
    leave_little(service, api)
    try:
        file.write_text((folder / "big.csv").read_text())
        assert api.run_stream("small").status == "FAILED"
    finally:
        file.write_text(before)
    # A query needs room for its snapshot.
    make_room(service)
    rows = api.post("/_local/query", {"sql": "SELECT id FROM shop.small ORDER BY id"})
    assert rows["data"] == [{"id": 1}, {"id": 2}]


def test_webhook_table_without_room_fails_with_the_reason(service: ServiceOnDisk, api: Api) -> None:
    leave_little(service, api)
    assert api.run_stream("events").status == "FAILED"
    assert f"{NO_ROOM} in {service.disk.path / 'home'}: make room there" in error_of(api, "pushed", "events")


def test_table_without_room_fails_with_the_reason(service: ServiceOnDisk, api: Api) -> None:
    leave_little(service, api)
    api.post("/transforms/wide/publish")
    eventually(lambda: api.get("/transforms/wide")["materialization_status"] == "failed")
    assert f"{NO_ROOM} in {service.disk.path / 'home'}: make room there" in json.dumps(api.get("/transforms/wide"))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_records_are_delivered_once_after_a_full_disk(service: ServiceOnDisk, api: Api, form: str) -> None:
    leave_little(service, api, 1 << 16)
    assert api.run_reverse(f"to_{form}").status == "FAILED"
    runs = api.get("/reverse_etl_sync_runs", reverse_etl_sync_id=f"to_{form}")["data"]
    assert f"{NO_ROOM}: make room there" in json.dumps(runs)
    make_room(service)
    assert api.run_reverse(f"to_{form}").status == "COMPLETED"
    file = service.disk.seen / "out" / f"numbers_{form}.{form}"
    lines = [line for line in file.read_text().splitlines() if line != "id"]
    assert len(lines) == len(set(lines)) == RECORDS


def test_limit_on_the_size_of_files_is_answered_with_507(service: ServiceOnDisk, api: Api) -> None:
    before = resource.prlimit(service.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        eventually(lambda: push(api, 0, LARGE) == 507)
        assert api.get("/connections")
    finally:
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, before)
    eventually(lambda: writes_succeed(service))
    eventually(lambda: push(api, 1, LARGE) == 200)


@pytest.mark.slow
def test_start_without_room_is_refused_in_one_line(service: ServiceOnDisk, api: Api) -> None:
    service.stop()
    service.disk.fill()
    try:
        begin = len(service.log)
        with pytest.raises(ProgramError, match="exit status 1"):
            service.start()
        (line,) = service.log[begin:].splitlines()
        assert line.startswith("datapipe-local: ")
        assert NO_ROOM in line
        assert "make room" in line
    finally:
        service.disk.clear()
        service.start()
    assert push(api, 1) == 200
