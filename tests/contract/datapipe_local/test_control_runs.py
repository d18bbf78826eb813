"""Tests of controlled runs, reset and seed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.controlled import ANY_STREAM, ORDERS, journalled, seed
from tests.contract.datapipe_local.partner import Partner
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream, transform
from tests.contract.datapipe_local.test_cli import failure
from tests.support.local_service import LocalService
from tests.support.processes import wait_for


def test_durations_of_all_resources_and_of_one(service: LocalService, api: Api) -> None:
    service.runs({"scheduling_delay": 1, "resources": {"people": {"scheduling_delay": 0, "minimum_duration": 0.4}}})
    orders, people = api.post(ORDERS)["status_url"], api.post("/elt_streams/people/request_run")["status_url"]
    assert api.until(people, lambda _: True)["status"] == "RUNNING"
    assert api.first(orders) is None
    assert api.ended(orders)["status"] == api.ended(people)["status"] == "COMPLETED"
    assert api.client.delete("/_local/runs").status_code == 204
    assert api.get("/_local/runs") == {"outcomes_left": {}}


def test_the_next_runs_fail(service: LocalService, api: Api) -> None:
    outcomes = [{"fail": "The source is on fire.", "times": 2}, {}, {"fail": "Another reason."}]
    service.runs({"resources": {"orders": {"outcomes": outcomes}}})
    statuses = [api.run_stream("orders").status for _ in range(4)]
    assert statuses == ["FAILED", "FAILED", "COMPLETED", "FAILED"]
    assert api.stream_status("shop", "orders")["latest_sync"]["error_message"] == "Another reason."
    assert api.run_stream("orders").status == api.run_stream("people").status == "COMPLETED"


def test_runs_of_every_kind_fail(service: LocalService, api: Api) -> None:
    def publish() -> tuple[str, str | None]:
        body = api.post("/transforms/table/publish", {"wait_for_completion": True})
        return body["materialization_status"], body.get("materialization_error")

    fail = {"outcomes": [{"fail": "On request."}]}
    service.runs({"resources": dict.fromkeys(("nightly", "table", "export"), fail)})
    assert api.get("/_local/runs")["outcomes_left"] == {"nightly": 1, "table": 1, "export": 1}
    assert api.run_orchestration("nightly").status == "FAILED"
    run = api.run_reverse("export")
    assert (run.status, run.error) == ("FAILED", "On request.")
    assert publish() == ("failed", "On request.")
    outcomes = {entry["resource_id"]: entry["status"] for entry in service.journal_runs()}
    streams = {"orders": "COMPLETED", "people": "COMPLETED"}
    assert outcomes == {"nightly": "FAILED", "export": "FAILED", "table": "failed", **streams}
    assert api.get("/_local/runs")["outcomes_left"] == {}
    assert api.run_orchestration("nightly").status == api.run_reverse("export").status == "COMPLETED"
    assert publish()[0] == "completed"


def test_a_load_in_chunks(service: LocalService, api: Api) -> None:
    service.runs({"resources": {"orders": {"minimum_duration": 0.1, "outcomes": [{"chunks": 2}]}}})
    url = api.post(ORDERS)["status_url"]
    first = api.ended(url)
    assert first["status"] == "CHUNK_COMPLETED"
    runs = journalled(service, "orders", 3)
    assert [run["status"] for run in runs] == ["CHUNK_COMPLETED", "CHUNK_COMPLETED", "COMPLETED"]
    assert [run["trigger"] for run in runs] == ["request", "continuation", "continuation"]
    assert len({run["run_id"] for run in runs}) == 3
    listed = api.all_pages("/elt_stream_runs", elt_stream_id="orders", sort_direction="asc")
    assert [run["id"] for run in listed] == [run["run_id"] for run in runs]
    # The last one has loaded all of it.
    assert listed[-1]["rows_synced"] == 2
    assert api.run_stream("orders").status == "COMPLETED"


def test_chunks_within_an_orchestration(service: LocalService, api: Api) -> None:
    service.runs({"resources": {"orders": {"outcomes": [{"chunks": 1}]}}})
    run = api.run_orchestration("nightly")
    assert run.status == "COMPLETED"
    entries = journalled(service, "orders", 2)
    assert {entry["orchestration_run_id"] for entry in entries} == {run.id}


@pytest.mark.slow
def test_an_outcome_survives_a_kill(data: Path) -> None:
    with LocalService(seed(data), control=True) as service:
        service.runs({"resources": {"orders": {"minimum_duration": 0.4, "outcomes": [{"fail": "Forced."}, {}]}}})
        api = Api(service)
        url = api.post(ORDERS)["status_url"]
        run = api.until(url, lambda _: True)
        service.kill()
        service.start()
        ended = api.ended(url)
        assert (ended["id"], ended["status"]) == (run["id"], "FAILED")
        assert [entry["run_id"] for entry in service.journal_runs("orders")] == [run["id"]]


def test_vanished_runs_are_not_listed(service: LocalService, api: Api) -> None:
    runs = {
        "elt_stream": ("orders", api.run_stream("orders").id),
        "reverse_etl_sync": ("export", api.run_reverse("export").id),
        "orchestration": ("nightly", api.run_orchestration("nightly").id),
    }
    service.runs({"resources": {resource: {"vanish": True} for resource, _ in runs.values()}})
    for kind, (resource, run_id) in runs.items():
        api.refused("GET", f"/{kind}_runs/{run_id}", 404)
        assert api.get(f"/{kind}_runs?{kind}_id={resource}")["data"] == []
    assert api.get("/orchestration_runs")["data"] == []
    assert set(api.stream_status("shop", "orders")) == {"name"}
    # Runs of other resources and later runs are listed; the journal has all.
    assert len(api.get("/elt_stream_runs?elt_stream_id=people")["data"]) == 1
    later = api.run_stream("orders")
    assert [entry["id"] for entry in api.get("/elt_stream_runs?elt_stream_id=orders")["data"]] == [later.id]
    assert len(service.journal_runs("orders")) == 3
    service.runs({})
    assert len(api.get("/elt_stream_runs?elt_stream_id=orders")["data"]) == 3


def test_an_active_run_that_vanishes_still_ends(service: LocalService, api: Api) -> None:
    service.runs({"minimum_duration": 0.4})
    url = api.post(ORDERS)["status_url"]
    run = api.until(url, lambda _: True)
    service.runs({"resources": {"orders": {"vanish": True}}})
    api.refused("GET", f"/elt_stream_runs/{run['id']}", 404)
    assert api.first(url) is None
    assert "active_sync" not in api.stream_status("shop", "orders")
    assert journalled(service, "orders", 1)[0]["status"] == "COMPLETED"


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ({"resources": {"nope": {}}}, "'nope'"),
        ({"resources": {"export": {"outcomes": [{"chunks": 1}]}}}, "only ELT streams"),
        ({"resources": {"orders": {"outcomes": [{"chunks": 1, "fail": "x"}]}}}, "fail or chunks"),
        ({"resources": {"orders": {"outcomes": [{"fail": ""}]}}}, "fail"),
        ({"scheduling_delay": -1}, "scheduling_delay"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_invalid_behavior_is_refused(service: LocalService, api: Api, behaviour: Any, message: str) -> None:
    service.runs({"scheduling_delay": 1})
    assert message in api.refused("PUT", "/_local/runs", 400, json=behaviour)["message"]
    assert api.get("/_local/runs") == {"scheduling_delay": 1, "outcomes_left": {}}


def test_a_reset_restores_the_seed(service: LocalService, api: Api) -> None:
    begin = {path: api.get(path) for path in ("/transforms/available_references", "/_local/runs", "/_local/faults")}
    api.run_stream("orders")
    api.run_reverse("export")
    api.run_orchestration("nightly")
    api.post("/transforms/table/publish", {"wait_for_completion": True})
    api.post("/elt_syncs/shop/disable", status=204)
    service.faults([{"path": "/connections", "status": 500, "times": "always"}])
    service.runs({"scheduling_delay": 3, "resources": {"orders": {"outcomes": [{"fail": "x"}]}}})
    service.reset()
    assert service.journal_runs() == service.journal_requests() == []
    assert {path: api.get(path) for path in begin} == begin
    for path in ("/elt_stream_runs?elt_stream_id=orders", "/orchestration_runs"):
        assert api.get(path)["data"] == []
    assert api.get("/connections")["data"]
    assert api.get("/elt_syncs/shop")["status"] == "NOT_STARTED"
    assert api.get("/transforms/table")["status"] == "draft"
    # Deliveries are forgotten: all records are new.
    assert api.run_reverse("export").synced_rows == 1
    assert api.run_stream("orders").rows_synced == 2


def test_a_reset_that_cannot_apply_a_seed_loses_nothing(data: Path) -> None:
    count = {"sql_template": "SELECT count(*) AS n FROM {{raw.shop.orders}}"}
    with served(seed(data), control=True) as (service, api):
        api.run_stream("orders")
        api.post("/_local/seed", {"transforms": [{"id": "n", "name": "n", "publish": True, **count}]})
        # The transform reads a stream that is not loaded after a reset.
        problem = "Unknown reference {{raw.shop.orders}}"
        refusal = api.client.post("/_local/reset")
        assert (refusal.status_code, problem in refusal.json()["message"]) == (400, True)
        assert api.run_stream("orders").rows_synced == 2
        service.stop()
        assert problem in failure("reset", "--home", service.home, "--keep-seed")
        service.start()
        query = {"sql": "SELECT count(*) AS rows, any_value(n) AS n FROM shop.orders, models.n"}
        assert api.post("/_local/query", query)["data"] == [{"rows": 2, "n": 2}]
        assert len(api.get("/elt_stream_runs?elt_stream_id=orders")["data"]) == 2


def test_a_reset_interrupts_active_runs(service: LocalService, api: Api) -> None:
    service.runs({"minimum_duration": 3600})
    api.until(api.post(ORDERS)["status_url"], lambda _: True)
    orchestration = api.post("/orchestrations/nightly/request_run")["id"]
    service.reset()
    assert service.journal_runs() == []
    api.refused("GET", f"/orchestration_runs/{orchestration}", 404)
    assert api.run_stream("orders").status == "COMPLETED"


def test_a_reset_ends_delayed_requests(service: LocalService, api: Api) -> None:
    service.faults([{"path": ANY_STREAM, "delay": 600}])
    seen: list[str] = []

    def request() -> None:
        try:
            api.client.post(ORDERS)
        except httpx.TransportError as error:
            seen.append(type(error).__name__)

    thread = threading.Thread(target=request)
    thread.start()
    wait_for("the request is in the journal", lambda: bool(service.journal_requests(ORDERS)), limit=60, interval=0.01)
    service.reset()
    thread.join(5)
    assert seen == ["RemoteProtocolError"]
    assert service.journal_runs() == []


@pytest.mark.slow
def test_a_reset_during_a_slow_delivery_is_refused(data: Path, partner: Partner) -> None:
    def slow(_: Any) -> tuple[int, dict[str, Any]]:
        time.sleep(4.5)
        return 200, {}

    partner.reset()
    partner.rule = slow
    wanted = seed(data)
    wanted["connections"][1] = connection("out", "http", url=partner.url)
    with served(wanted, control=True) as (service, api):
        url = api.post("/reverse_etl_syncs/export/request_run")["status_url"]
        wait_for("a record was received", lambda: bool(partner.received), limit=60, interval=0.01)
        assert api.refused("POST", "/_local/reset", 503)["error_code"] == "busy"
        # The delivery continues, and no record is sent twice.
        assert api.ended(url)["status"] == "COMPLETED"
        assert len(partner.received) == 1
        service.reset()
    partner.reset()


def test_many_resets(service: LocalService, api: Api) -> None:
    for _ in range(10):
        api.post(ORDERS)
        api.post("/transforms/table/publish")
        service.reset()
    assert api.run_stream("orders").status == "COMPLETED"
    assert "The engine failed in one step" not in service.log


def test_a_seed_for_a_running_service(service: LocalService, api: Api, data: Path) -> None:
    more = {
        "connections": [connection("more", "files", path=str(data))],
        "elt_syncs": [elt_sync("late", "more", [stream("orders", "orders.jsonl", id="late_orders")])],
        "transforms": [transform("built", "SELECT 7 AS x", materialization="table", publish=True)],
    }
    applied = {"connection": 1, "elt_sync": 1, "elt_stream": 1, "transform": 1}
    assert api.post("/_local/seed", more) == {"applied": applied}
    assert api.post("/_local/seed", more) == {"applied": {}}
    assert api.run_stream("late_orders").rows_synced == 2
    assert api.until("/transforms/built", lambda body: body["materialization_status"] == "completed")
    assert [run["trigger"] for run in service.journal_runs("built")] == ["seed"]
    service.reset()
    assert api.run_stream("late_orders").rows_synced == 2
    assert api.client.post("/_local/reset", json={"seed": "drop"}).status_code == 204
    assert api.get("/connections")["data"] == []
    # The other tests of this module use the service with its first seed.
    assert api.post("/_local/seed", seed(data))["applied"]["elt_stream"] == 2
    assert api.run_stream("orders").rows_synced == 2


@pytest.mark.parametrize(
    ("wrong", "message", "location"),
    [
        ({"surprise": 1}, "surprise: ", ["surprise"]),
        (
            {"connections": [{"id": "x", "integration_id": "odd", "label": "X"}]},
            "connections[0].integration_id: ",
            ["connections", 0, "integration_id"],
        ),
        (
            {"orchestrations": [{"id": "n", "name": "N", "cron_schedule": "never"}]},
            "orchestrations[0].cron_schedule: ",
            ["orchestrations", 0, "cron_schedule"],
        ),
    ],
)
def test_an_invalid_seed_changes_nothing(api: Api, wrong: Any, message: str, location: list[str | int]) -> None:
    before = api.get("/orchestrations")
    answer = api.client.post("/_local/seed", json={"runs": {"minimum_duration": 9}, **wrong})
    refused = answer.json()
    assert (answer.status_code, refused["error_code"], refused["location"]) == (400, "invalid_seed", location)
    assert refused["message"] == f"{message}{refused['reason']}"
    assert api.get("/orchestrations") == before
    assert api.run_stream("orders").status == "COMPLETED"
