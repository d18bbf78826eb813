"""Tests of ELT syncs, their streams and runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import EltSync, EltSyncStatus, StreamSnapshots
from tests.contract.datapipe_local.api import Api
from tests.support.local_service import LocalService


def sync(number: int, **more: object) -> dict[str, object]:
    return {
        "id": f"sync{number}",
        "connection_id": "data",
        "destination_schema_name": f"schema{number}",
        "sync_interval": "0 3 * * *",
        "source_streams": [{"id": f"people{number}", "name": "people", "file": "people.csv"}],
        **more,
    }


@pytest.fixture(scope="module")
def service(data: Path) -> Iterator[LocalService]:
    streams = [
        {"id": "people", "name": "people", "file": "people.csv", "options": {"nullstr": "NA"}},
        {"id": "orders", "name": "orders", "file": "orders.jsonl"},
        {"id": "later", "name": "later", "file": "later.csv"},
    ]
    seed = {
        "runs": {"scheduling_delay": 0.2},
        "connections": [{"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(data)}}],
        "elt_syncs": [
            {"id": "shop", "connection_id": "data", "destination_schema_name": "shop", "source_streams": streams},
            sync(1, enabled=False),
            sync(2),
        ],
    }
    with LocalService(seed) as service:
        yield service


@pytest.fixture(scope="module")
def api(service: LocalService) -> Api:
    return Api(service)


def snapshots(api: Api, stream: str) -> StreamSnapshots:
    status = EltSyncStatus.model_validate(api.get("/elt_syncs/shop/status"))
    return {entry.name: entry for entry in status.source_streams}[stream]


def test_lists_are_by_creation_and_whole(api: Api) -> None:
    assert [Connection.model_validate(entry).id for entry in api.all_pages("/connections")] == ["data"]
    assert "settings" not in api.get("/connections")["data"][0]
    syncs = [EltSync.model_validate(entry) for entry in api.all_pages("/elt_syncs", limit=1)]
    assert [entry.id for entry in syncs] == ["shop", "sync1", "sync2"]
    assert all(entry.source_streams is None for entry in syncs)
    streams = [EltStream.model_validate(entry) for entry in api.all_pages("/elt_streams", limit=2)]
    assert [entry.id for entry in streams] == ["people", "orders", "later", "people1", "people2"]
    assert streams[0] == EltStream.model_validate(api.get("/elt_streams/people"))


def test_a_sync_comes_with_its_streams(api: Api) -> None:
    shop = EltSync.model_validate(api.get("/elt_syncs/shop"))
    assert shop.source_streams is not None
    assert [stream.name for stream in shop.source_streams] == ["people", "orders", "later"]
    assert (shop.source_connection_id, shop.source_integration_id) == ("data", "files")
    assert (shop.destination_integration_id, shop.enabled, shop.status) == ("duckdb", True, "NOT_STARTED")


def test_requested_run_is_shown_from_start_to_completion(api: Api) -> None:
    url = api.post("/elt_streams/people/request_run")["status_url"]
    assert url == "/elt_stream_runs?elt_stream_id=people&limit=1&sort_direction=asc"
    assert api.first(url) is None
    scheduled = snapshots(api, "people")
    assert scheduled.active_sync is not None
    assert (scheduled.active_sync.status, scheduled.latest_sync) == ("SCHEDULED", None)
    conflict = api.refused("POST", "/elt_streams/people/request_run", 409)
    assert "active_run_id" not in conflict
    run = api.ended(url)
    assert (run["status"], run["rows_synced"]) == ("COMPLETED", 3)
    assert run["elt_sync_id"] == "shop"
    assert api.get(f"/elt_stream_runs/{run['id']}") == run
    done = snapshots(api, "people")
    assert done.active_sync is None
    assert done.latest_sync is not None
    assert (done.latest_sync.status, done.latest_sync.records_synced) == ("COMPLETED", 3)
    assert done.latest_sync.full_sync_trigger == "INITIAL_SYNC"
    assert (done.latest_sync.bytes_synced or 0) > 0
    assert api.get("/elt_syncs/shop")["status"] == "RUNNING"


def test_status_url_shows_only_the_requested_run(api: Api) -> None:
    first = api.run_stream("orders")
    url = api.post("/elt_streams/orders/request_run")["status_url"]
    assert f"starting_after={first.id}" in url
    assert api.first(url) is None
    second = api.ended(url)
    third = api.run_stream("orders")
    assert len({first.id, second["id"], third.id}) == 3
    assert api.first(url) == second


def test_runs_are_listed_by_start_in_both_directions(api: Api) -> None:
    for _ in range(3):
        api.run_stream("orders")
    newest_first = api.all_pages("/elt_stream_runs", elt_stream_id="orders", limit=2)
    oldest_first = api.all_pages("/elt_stream_runs", elt_stream_id="orders", limit=2, sort_direction="asc")
    assert newest_first == oldest_first[::-1]
    assert [run["started_at"] for run in oldest_first] == sorted(run["started_at"] for run in oldest_first)
    cursor = oldest_first[0]["id"]
    api.refused("GET", f"/elt_stream_runs?elt_stream_id=people&starting_after={cursor}", 400)


def test_a_full_refresh_is_the_next_runs(api: Api) -> None:
    api.run_stream("people")
    assert (
        api.client.post("/elt_streams/people/request_full_refresh", json={"reset_history_table": True}).status_code
        == 204
    )

    def trigger() -> str:
        api.run_stream("people")
        latest = snapshots(api, "people").latest_sync
        assert latest is not None
        assert latest.operation_mode == "FULL"
        return str(latest.full_sync_trigger)

    assert trigger() == "USER"
    assert trigger() == "NONE"
    api.post("/elt_streams/people/request_full_refresh", status=204)
    api.post("/elt_streams/people/cancel_full_refresh", status=204)
    assert trigger() == "NONE"


def test_a_file_that_vanished_fails_the_run_and_says_so(api: Api, data: Path) -> None:
    file = data / "later.csv"
    run = api.run_stream("later")
    assert (run.status, run.rows_synced) == ("FAILED", 0)
    latest = snapshots(api, "later").latest_sync
    assert latest is not None
    assert latest.status == "FAILED"
    assert latest.error_message == (
        f"The source file {file} does not exist: put it there, or correct `file` of the stream."
    )
    assert api.get("/elt_syncs/shop")["status"] == "FAILED"
    # A full refresh that could not be done is still owed.
    api.post("/elt_streams/later/request_full_refresh", status=204)
    assert api.run_stream("later").status == "FAILED"
    file.write_text("a\n1\n")
    assert api.run_stream("later").status == "COMPLETED"
    latest = snapshots(api, "later").latest_sync
    assert latest is not None
    assert (latest.full_sync_trigger, latest.error_message) == ("USER", None)
    assert api.get("/elt_syncs/shop")["status"] == "RUNNING"


def test_a_broken_file_fails_the_run_in_one_line(api: Api, data: Path) -> None:
    (data / "later.csv").write_bytes(b"\xff\xfe\x00" * 500)
    assert api.run_stream("later").status == "FAILED"
    latest = snapshots(api, "later").latest_sync
    assert latest is not None
    said = str(latest.error_message)
    assert said.startswith(f"Cannot load {data / 'later.csv'} into shop.later: ")
    assert said.endswith("line 1: the line is not UTF-8: set the option `encoding: utf-16`, or save the file as UTF-8.")
    assert "\n" not in said


def test_a_disabled_sync_runs_nothing(api: Api) -> None:
    assert api.get("/elt_syncs/sync1")["status"] == "PAUSED"
    for path in ("request_run", "request_full_refresh"):
        said = api.refused("POST", f"/elt_streams/people1/{path}", 400)
        assert said["error_code"] == "sync_not_running"
        assert "sync1" in said["message"]
    before = api.get("/elt_syncs/sync1")["updated_at"]
    api.post("/elt_syncs/sync1/enable", status=204)
    assert api.run_stream("people1").rows_synced == 3
    assert api.get("/elt_syncs/sync1")["updated_at"] > before
    api.post("/elt_syncs/sync1/disable", status=204)
    assert api.get("/elt_syncs/sync1")["enabled"] is False


def test_many_streams_at_once(api: Api) -> None:
    streams = ("people", "orders", "people2")
    begin = time.monotonic()
    urls = [api.post(f"/elt_streams/{stream}/request_run")["status_url"] for stream in streams]
    assert [api.ended(url)["status"] for url in urls] == ["COMPLETED"] * 3
    assert time.monotonic() - begin < 2
