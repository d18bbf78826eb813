"""Tests of requests for ELT syncs and streams: schedules, orchestrations, full refreshes, runs, limits, deletion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.custom_reports import CustomReportResults
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import AddedSourceStreams, EltSync, EltSyncStatus
from datapipe_local.storage.clock import Clock, later
from datapipe_local.storage.ids import RunId
from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream, transform
from tests.contract.datapipe_local.warehouses import changed_state, tables_of, wait_for_schedule
from tests.support.local_service import LocalService

# Times that do not occur during a test.
SYNCS, STREAMS, ORCHESTRATIONS, DAILY = "10 1 1 1 *", "20 2 2 2 *", "30 3 3 3 *", "0 0 * * *"
ROOM = 3


def seed(folder: Path) -> dict[str, Any]:
    streams = [stream("people"), stream("orders", "orders.jsonl", sync_interval=STREAMS)]
    tables = [{"name": "events", "sync_mode": "unpacked"}]
    return {
        "limits": {"syncs_per_connection": ROOM},
        "connections": [
            connection("data", "files", path=str(folder)),
            connection("spare", "files", path=str(folder)),
            connection("lost", "files", path=str(folder / "lost")),
            connection("hook", "webhook", authentication={"method": "none"}, tables=tables),
            connection("out", "jsonl", path=str(folder / "out")),
        ],
        "orchestrations": [{"id": "yearly", "name": "Yearly", "cron_schedule": ORCHESTRATIONS}],
        "elt_syncs": [
            elt_sync("shop", "data", streams, sync_interval=SYNCS),
            elt_sync("bare", "data", [stream("people", id="bare.people")]),
            elt_sync("lost", "lost"),
            elt_sync("hook", "hook"),
        ],
        "transforms": [transform("count", "SELECT count(*) AS n FROM {{raw.shop.people}}", name="count_people")],
    }


@pytest.fixture(scope="module")
def controlled(data: Path) -> Iterator[LocalService]:
    with served(seed(data), control=True, schedules=True) as (service, _):
        yield service


def schedules(service: LocalService, **expected: str | None) -> None:
    for name, expression in expected.items():
        wait_for_schedule(service, name.replace("_", "."), expression)


def changed(api: Api, path: str, body: Any = None, *, method: str = "POST") -> EltSync:
    """Send a request that changes a sync, and check the sync in its response."""
    before = EltSync.model_validate(api.get(path.removesuffix("/orchestration"))).updated_at
    answer = api.client.request(method, path, json=body)
    assert answer.status_code == 200, answer.text
    sync = EltSync.model_validate(answer.json())
    assert sync.updated_at >= before
    assert answer.json() == api.get(f"/elt_syncs/{sync.id}")
    return sync


def test_disable_and_enable_a_sync(service: LocalService, api: Api) -> None:
    schedules(service, people=SYNCS, orders=STREAMS)
    # An active run continues.
    service.runs({"resources": {"people": {"minimum_duration": 0.3}}})
    url = api.post("/elt_streams/people/request_run")["status_url"]
    api.until(url, lambda run: run["status"] == "RUNNING")
    api.post("/elt_syncs/shop/disable", status=204)
    schedules(service, people=None, orders=None)
    sync = EltSync.model_validate(api.get("/elt_syncs/shop"))
    assert (sync.enabled, sync.status) == (False, "PAUSED")
    assert api.ended(url)["status"] == "COMPLETED"
    for path in ("request_run", "request_full_refresh"):
        api.refused("POST", f"/elt_streams/people/{path}", 400, code="sync_not_running")
    assert len(api.all_pages("/elt_stream_runs", elt_stream_id="people")) == 1
    api.post("/elt_syncs/shop/disable", status=204)
    api.post("/elt_syncs/shop/enable", status=204)
    schedules(service, people=SYNCS, orders=STREAMS)
    sync = EltSync.model_validate(api.get("/elt_syncs/shop"))
    assert (sync.enabled, sync.status) == (True, "RUNNING")
    assert api.run_stream("people").status == "COMPLETED"
    api.post("/elt_syncs/shop/enable", status=204)
    schedules(service, people=SYNCS)


def test_attach_and_detach_an_orchestration(service: LocalService, api: Api) -> None:
    attached = {"orchestration_workflow_id": "yearly"}
    path = "/elt_syncs/shop/orchestration"
    assert changed(api, path, attached).orchestration_workflow_id == "yearly"
    # A stream with its own interval keeps it.
    schedules(service, people=None, orders=STREAMS, bare_people=DAILY)
    assert api.run_orchestration("yearly").status == "COMPLETED"
    assert [entry["status"] for entry in api.all_pages("/elt_stream_runs", elt_stream_id="people")] == ["COMPLETED"]
    assert api.all_pages("/elt_stream_runs", elt_stream_id="bare.people") == []
    invalid: list[Any] = [{}, {"orchestration_workflow_id": None}, {"orchestration_workflow_id": 1}]
    for body in invalid:
        api.refused("POST", path, 400, json=body)
    assert api.get("/elt_syncs/shop")["orchestration_workflow_id"] == "yearly"

    changed(api, "/elt_syncs/bare/orchestration", attached)
    schedules(service, bare_people=None)
    for sync in ("shop", "bare", "shop"):
        detached = changed(api, f"/elt_syncs/{sync}/orchestration", method="DELETE")
        assert detached.orchestration_workflow_id is None
    # The own interval, else that of the sync, else daily.
    schedules(service, orders=STREAMS, people=SYNCS, bare_people=DAILY)


def test_delete_a_sync_with_and_without_tables(service: LocalService, api: Api) -> None:
    for stream_id in ("people", "bare.people"):
        assert api.run_stream(stream_id).status == "COMPLETED"
    run = api.all_pages("/elt_stream_runs", elt_stream_id="people")[0]
    api.post("/transforms/count/publish")
    for wrong in ("True", "1", "yes", "", "true,true"):
        query = {"removeDataReferences": wrong}
        api.refused("DELETE", "/elt_syncs/shop", 400, message="removeDataReferences", params=query)
    api.delete("/elt_syncs/shop", removeDataReferences="true")
    api.delete("/elt_syncs/bare")
    for path in ("/elt_syncs/shop", "/elt_syncs/shop/status", "/elt_streams/people", "/elt_streams/orders"):
        api.refused("GET", path, 404)
    for path in (f"/elt_stream_runs/{run['id']}", "/elt_stream_runs?elt_stream_id=people"):
        api.refused("GET", path, 404)
    api.refused("DELETE", "/elt_syncs/shop", 404)
    schedules(service, people=None, orders=None, bare_people=None)
    assert [entry["id"] for entry in api.all_pages("/elt_syncs")] == ["lost", "hook"]
    assert api.all_pages("/elt_streams") == []
    assert tables_of(service) == {"bare.people": 3}
    # A transform of its tables names the missing schema.
    api.refused("POST", "/transforms/count/publish", 400, message="shop")


def trigger_of(api: Api, stream: str) -> str:
    """Run a stream, and return the full sync trigger of the run."""
    assert api.run_stream(stream).status == "COMPLETED"
    status = EltSyncStatus.model_validate(api.get("/elt_syncs/shop/status"))
    latest = {entry.name: entry.latest_sync for entry in status.source_streams}[stream]
    assert latest is not None
    return str(latest.full_sync_trigger)


def test_request_and_cancel_full_refresh(api: Api) -> None:
    refresh, cancel = (f"/elt_streams/people/{name}_full_refresh" for name in ("request", "cancel"))
    assert [trigger_of(api, "people") for _ in range(2)] == ["INITIAL_SYNC", "NONE"]
    for body in (None, {}, {"reset_history_table": True}, {"reset_history_table": False}):
        api.post(refresh, body, status=204)
    # The request starts no run.
    assert "active_sync" not in api.get("/elt_syncs/shop/status")["source_streams"][0]
    assert [trigger_of(api, "people") for _ in range(2)] == ["USER", "NONE"]
    assert len(api.all_pages("/elt_stream_runs", elt_stream_id="people")) == 4
    invalid: list[Any] = [{"reset_history_table": "yes"}, {"reset_history_table": None}, {"reset": True}]
    for one in invalid:
        api.refused("POST", refresh, 400, json=one)
    api.post(refresh, status=204)
    api.post(cancel, status=204)
    assert trigger_of(api, "people") == "NONE"
    # Idempotent, also for a disabled sync.
    api.post("/elt_syncs/shop/disable", status=204)
    api.refused("POST", refresh, 400)
    api.post(cancel, status=204)
    api.post("/elt_syncs/shop/enable", status=204)
    assert trigger_of(api, "people") == "NONE"


def test_request_run(service: LocalService, api: Api) -> None:
    first = api.run_stream("people")
    service.runs({"scheduling_delay": 0.3})
    url = api.post("/elt_streams/people/request_run")["status_url"]
    # The URL is relative. Its list is empty until the run is scheduled, and then contains this run only.
    assert url.startswith(f"/elt_stream_runs?elt_stream_id=people&starting_after={first.id}&limit=1")
    assert api.first(url) is None
    run = api.ended(url)
    assert (run["status"], run["rows_synced"]) == ("COMPLETED", 3)
    third = api.run_stream("people")
    assert api.first(url) == run
    listed = [entry["id"] for entry in api.all_pages("/elt_stream_runs", elt_stream_id="people")]
    assert listed == [third.id, run["id"], first.id]


def test_set_and_clear_the_interval_of_a_stream(service: LocalService, api: Api) -> None:
    orchestration = "/elt_syncs/shop/orchestration"
    changed(api, orchestration, {"orchestration_workflow_id": "yearly"})
    schedules(service, people=None)
    assert api.get("/elt_streams/people")["sync_interval"] is None
    answer = api.post("/elt_streams/people/set_sync_interval", {"sync_interval": STREAMS})
    assert EltStream.model_validate(answer).sync_interval == STREAMS
    assert api.get("/elt_streams/people")["sync_interval"] == STREAMS
    # Neither the orchestration nor the interval of its sync applies.
    schedules(service, people=STREAMS)
    changed(api, orchestration, method="DELETE")
    schedules(service, people=STREAMS)

    for _ in range(2):
        api.post("/elt_streams/people/clear_sync_interval", status=204)
    assert api.get("/elt_streams/people")["sync_interval"] is None
    schedules(service, people=SYNCS)
    changed(api, orchestration, {"orchestration_workflow_id": "yearly"})
    schedules(service, people=None)


def test_invalid_run_ids(api: Api) -> None:
    for path in ("elt_stream_runs", "reverse_etl_sync_runs"):
        for wrong in ("x", "%20", "cGVvcGxl", "cGVvcGxlfDIwMjQ", "a" * 3000, "%00", "%F0%9F%92%A9", "="):
            api.refused("GET", f"/{path}/{wrong}", 400, code="invalid_run_id")


def test_invalid_source_streams_are_refused(api: Api) -> None:
    def refused(*streams: Any, message: str) -> None:
        body = {"source_streams": streams}
        api.refused("POST", "/elt_syncs/shop/source_streams", 400, message=message, json=body)

    before = api.get("/elt_syncs/shop")
    first = "source_streams.0"
    for wrong, message in (
        ({"name": "nobody"}, f"{first}.name"),
        ({"name": "peopel"}, "did you mean people?"),
        ({}, f"{first}.name"),
        ({"name": None}, f"{first}.name"),
        ("people", first),
    ):
        refused(wrong, message=message)
    for options, message in (
        ({"excluded_columns": ["shoes"]}, f"{first}.excluded_columns"),
        ({"hashed_columns": ["shoes"]}, f"{first}.hashed_columns"),
        ({"incremental_pointer_id": "shoes"}, f"{first}.incremental_pointer_id"),
        ({"excluded_columns": ["name"], "hashed_columns": ["NAME"]}, "hashed_columns"),
        ({"excluded_columns": ["id", "name", "age"]}, "excluded_columns"),
        ({"excluded_substreams": ["shoes"]}, f"{first}.excluded_substreams"),
        ({"full_sync_always": "yes"}, f"{first}.full_sync_always"),
        ({"full_sync_always": None}, f"{first}.full_sync_always"),
        ({"colour": "red"}, f"{first}.colour"),
    ):
        refused({"name": "people", **options}, message=message)
    refused({"name": "people"}, {"name": "People"}, message="source_streams.1.name")
    # All or nothing.
    refused({"name": "people", "full_sync_always": True}, {"name": "nobody"}, message="source_streams.1.name")
    invalid: list[Any] = [{"source_streams": None}, {"source_streams": {}}, {"streams": []}]
    for body in invalid:
        api.refused("POST", "/elt_syncs/shop/source_streams", 400, json=body)
    assert api.get("/elt_syncs/shop") == before
    assert api.post("/elt_syncs/shop/source_streams", {}, status=201) == {"source_streams": []}
    added = api.post("/elt_syncs/shop/source_streams", {"source_streams": [{"name": "people"}]}, status=201)
    assert AddedSourceStreams.model_validate(added).source_streams == ()


def new_sync(schema: str, **more: Any) -> dict[str, Any]:
    return {"connection_id": "spare", "destination_schema_name": schema, "sync_interval": SYNCS, **more}


def test_maximum_number_of_syncs_of_a_connection(api: Api) -> None:
    ids = [api.post("/elt_syncs", new_sync(f"s{number}"), status=201)["id"] for number in range(ROOM)]
    api.refused("POST", "/elt_syncs", 409, code="sync_limit_reached", message="connection_id", json=new_sync("more"))
    # Other connections are not affected, and a deletion makes room.
    api.post("/elt_syncs", new_sync("more", connection_id="lost"), status=201)
    api.delete(f"/elt_syncs/{ids[0]}")
    api.post("/elt_syncs", new_sync("s0"), status=201)
    api.refused("POST", "/elt_syncs", 409, json=new_sync("once_more"))
    assert len(api.all_pages("/elt_syncs", connection_id="spare")) == ROOM


def test_conflict_with_a_scheduled_or_running_stream(service: LocalService, api: Api) -> None:
    service.runs({"resources": {"people": {"scheduling_delay": 0.3, "minimum_duration": 0.3}}})
    path = "/elt_streams/people/request_run"
    url = api.post(path)["status_url"]
    assert "active_run_id" not in api.refused("POST", path, 409, code="run_already_scheduled")
    run = api.until(url, lambda _: True)
    assert api.refused("POST", path, 409, code="run_already_active")["active_run_id"] == run["id"]
    api.ended(url)
    # Neither a finished run nor a run of another stream is a conflict.
    api.post(path)
    api.post("/elt_streams/orders/request_run")


def test_custom_reports_fail_one_by_one(api: Api, data: Path) -> None:
    broken = data / "broken.csv.zip"
    broken.write_bytes(b"no archive")
    old, one = "SELECT * FROM people WHERE id > 1", "SELECT 1 AS one"
    cases = [
        ("shop", "Old People", old, "old_people"),
        ("nobody", "x", one, "not_found"),
        ("hook", "x", one, "unsupported_integration"),
        ("shop", "x", "SELECT shoes FROM people", "invalid_query"),
        ("lost", "x", "SELECT * FROM people", "connection_error"),
        ("shop", "x", "SELECT * FROM broken", "connection_error"),
        ("shop", "?!", one, "unknown"),
        ("bare", "Old People", old, "old_people"),
    ]
    reports = [{"elt_sync_id": sync, "name": name, "query": query} for sync, name, query, _ in cases]
    try:
        answer = CustomReportResults.model_validate(api.post("/custom_reports", {"reports": reports}, status=201))
    finally:
        broken.unlink()
    found = [
        (each.elt_sync_id, each.name, each.error.error_code if each.error else each.source_stream_name)
        for each in answer.results
    ]
    assert found == [(sync, name, result) for sync, name, _, result in cases]
    assert all((each.error is None) != (each.source_stream_name is None) for each in answer.results)
    assert all(each.error is None or "\n" not in each.error.message for each in answer.results)
    streams = {stream["name"]: stream["id"] for stream in api.get("/elt_syncs/shop")["source_streams"]}
    assert api.run_stream(streams["old_people"]).rows_synced == 2


def test_run_history_is_listed_for_three_months(service: LocalService, api: Api) -> None:
    ids = [api.run_stream("people").id for _ in range(3)]
    now = Clock().now()
    starts = [later(now, -days * 24 * 3600) for days in (400, 93, 91)]
    with changed_state(service) as state:
        for old, start in zip(ids, starts, strict=True):
            aged = str(RunId("people", start))
            state.execute(
                "UPDATE elt_stream_runs SET id = ?, started_at = ?, finished_at = ? WHERE id = ?",
                (aged, start, start, old),
            )
    for direction in ("desc", "asc"):
        shown = api.all_pages("/elt_stream_runs", elt_stream_id="people", sort_direction=direction, limit=1)
        assert [run["started_at"] for run in shown] == starts[2:]
    # An older run can be read by its ID. As a cursor, it leads to no older runs.
    old = str(RunId("people", starts[1]))
    assert api.get(f"/elt_stream_runs/{old}")["started_at"] == starts[1]
    assert api.all_pages("/elt_stream_runs", elt_stream_id="people", starting_after=old) == []


def test_default_limit_of_syncs_of_a_connection(data: Path) -> None:
    syncs = [elt_sync(f"sync{number}", "data") for number in range(9)]
    # The default limit is ten. It does not apply to the syncs of the seed.
    with LocalService({"connections": [connection("data", "files", path=str(data))], "elt_syncs": syncs}) as other:
        client = Api(other).client
        answers = [client.post("/elt_syncs", json=new_sync(f"more{n}", connection_id="data")) for n in range(3)]
    assert [answer.status_code for answer in answers] == [201, 409, 409]
