"""Tests of ELT syncs, their streams and runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import EltSync, StreamSnapshot, StreamSnapshots
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream


@pytest.fixture(scope="module")
def api(data: Path) -> Iterator[Api]:
    streams = [stream("people", options={"nullstr": "NA"}), stream("orders", "orders.jsonl"), stream("later")]
    more = [elt_sync(f"sync{n}", "data", [stream("people", id=f"people{n}")]) for n in (1, 2)]
    seed = {
        "runs": {"scheduling_delay": 0.2},
        "connections": [connection("data", "files", path=str(data))],
        "elt_syncs": [elt_sync("shop", "data", streams), *more],
    }
    with served(seed) as (_, api):
        yield api


def snapshots(api: Api, stream: str) -> StreamSnapshots:
    return StreamSnapshots.model_validate(api.stream_status("shop", stream))


def latest(api: Api, stream: str) -> StreamSnapshot:
    found = snapshots(api, stream).latest_sync
    assert found is not None
    return found


def test_lists_are_in_the_order_of_creation(api: Api) -> None:
    assert [Connection.model_validate(entry).id for entry in api.all_pages("/connections")] == ["data"]
    syncs = [EltSync.model_validate(entry) for entry in api.all_pages("/elt_syncs", limit=1)]
    assert [entry.id for entry in syncs] == ["shop", "sync1", "sync2"]
    assert all(entry.source_streams is None for entry in syncs)
    streams = [EltStream.model_validate(entry) for entry in api.all_pages("/elt_streams", limit=2)]
    assert [entry.id for entry in streams] == ["people", "orders", "later", "people1", "people2"]
    assert streams[0] == EltStream.model_validate(api.get("/elt_streams/people"))


def test_a_sync_includes_its_streams(api: Api) -> None:
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
    run = api.ended(url)
    assert (run["status"], run["rows_synced"]) == ("COMPLETED", 3)
    assert run["elt_sync_id"] == "shop"
    assert api.get(f"/elt_stream_runs/{run['id']}") == run
    assert snapshots(api, "people").active_sync is None
    done = latest(api, "people")
    assert (done.status, done.records_synced, done.full_sync_trigger) == ("COMPLETED", 3, "INITIAL_SYNC")
    assert (done.bytes_synced or 0) > 0
    assert api.get("/elt_syncs/shop")["status"] == "RUNNING"


def test_cursor_of_a_run_of_another_stream_is_refused(api: Api) -> None:
    cursor = api.run_stream("orders").id
    api.refused("GET", f"/elt_stream_runs?elt_stream_id=people&starting_after={cursor}", 400)


def test_a_missing_file_fails_the_run(api: Api, data: Path) -> None:
    file = data / "later.csv"
    run = api.run_stream("later")
    assert (run.status, run.rows_synced) == ("FAILED", 0)
    failed = latest(api, "later")
    assert failed.status == "FAILED"
    error = f"The source file {file} does not exist: put it there, or correct `file` of the stream."
    assert failed.error_message == error
    assert api.get("/elt_syncs/shop")["status"] == "FAILED"
    # A requested full refresh remains requested.
    api.post("/elt_streams/later/request_full_refresh", status=204)
    assert api.run_stream("later").status == "FAILED"
    file.write_text("a\n1\n")
    assert api.run_stream("later").status == "COMPLETED"
    assert (latest(api, "later").full_sync_trigger, latest(api, "later").error_message) == ("USER", None)
    assert api.get("/elt_syncs/shop")["status"] == "RUNNING"


def test_a_malformed_file_fails_the_run_in_one_line(api: Api, data: Path) -> None:
    (data / "later.csv").write_bytes(b"\xff\xfe\x00" * 500)
    assert api.run_stream("later").status == "FAILED"
    assert latest(api, "later").error_message == (
        f"Cannot load {data / 'later.csv'} into shop.later: line 1: the line is not UTF-8: set the option"
        " `encoding: utf-16`, or save the file as UTF-8."
    )


def test_many_streams_at_once(api: Api) -> None:
    streams = ("people", "orders", "people2")
    urls = [api.post(f"/elt_streams/{stream}/request_run")["status_url"] for stream in streams]
    assert [api.ended(url)["status"] for url in urls] == ["COMPLETED"] * 3
