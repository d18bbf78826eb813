"""Tests of the journal of requests and runs."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.contract.datapipe_local.api import Api, served
from tests.contract.datapipe_local.controlled import ORDERS, journalled, seed
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow


def test_without_the_option_there_is_no_control_plane(data: Path) -> None:
    with served(seed(data)) as (service, api):
        for method, path in [
            ("GET", "/_local/journal?kind=runs"),
            ("DELETE", "/_local/journal"),
            ("PUT", "/_local/faults"),
            ("PUT", "/_local/runs"),
            ("POST", "/_local/reset"),
            ("POST", "/_local/seed"),
        ]:
            assert api.refused(method, path, 404, json={}) == api.refused("GET", "/nowhere", 404)
        api.run_stream("orders")
        assert "control plane" not in service.log


@pytest.mark.parametrize(("value", "status"), [("1", 200), ("0", 404), ("", 404)])
def test_the_environment_enables_the_control_plane(value: str, status: int) -> None:
    with LocalService(environment={"DATAPIPE_LOCAL_CONTROL": value}) as service:
        assert Api(service).client.get("/_local/faults").status_code == status
        assert ("The control plane is on" in service.log) is (status == 200)


def test_the_control_plane_needs_the_key(service: LocalService) -> None:
    for key in ({}, {"x-api-key": "wrong"}):
        assert httpx.get(f"{service.base_url}/_local/journal?kind=runs", headers=key).status_code == 401
        assert httpx.post(f"{service.base_url}/_local/reset", headers=key).status_code == 401
    assert service.journal_requests() == []


def test_a_request_and_its_run(service: LocalService, api: Api) -> None:
    run = api.run_stream("orders")
    request = service.journal_requests(ORDERS)[0]
    assert (request["method"], request["path"], request["query"]) == ("POST", ORDERS, "")
    assert (request["resource_id"], request["fault"], request["committed"]) == ("orders", None, True)
    assert (request["status"], request["service_status"], request["run_id"]) == (200, 200, run.id)
    assert request["status_url"].startswith("/elt_stream_runs?elt_stream_id=orders")
    assert request["at"] <= request["answered_at"]
    (noted,) = journalled(service, "orders", 1)
    assert (noted["kind"], noted["run_id"], noted["status"]) == ("elt_stream", run.id, "COMPLETED")
    assert (noted["trigger"], noted["request"]) == ("request", request["seq"])
    assert noted["requested_at"] <= noted["started_at"] <= noted["finished_at"]


def test_reads_and_refusals_commit_nothing(service: LocalService, api: Api) -> None:
    api.get("/elt_syncs/shop/status")
    api.refused("POST", "/elt_streams/nope/request_run", 404)
    api.refused("POST", ORDERS, 400, json={"surprise": 1})
    api.refused("DELETE", "/connections", 405)
    api.client.get("/nowhere")
    api.client.get("/health")
    requests = service.journal_requests()
    assert [request["status"] for request in requests] == [200, 404, 400, 405]
    assert not any(request["committed"] for request in requests)
    assert service.journal_runs() == []


def test_every_change_is_committed(service: LocalService, api: Api) -> None:
    for path in ("/elt_syncs/shop/disable", "/elt_syncs/shop/enable", "/elt_streams/orders/request_full_refresh"):
        api.post(path, status=204)
    api.post("/transforms/view/publish")
    assert [request["committed"] for request in service.journal_requests()] == [True] * 4


def test_a_conflict_starts_no_second_run(service: LocalService, api: Api) -> None:
    service.runs({"scheduling_delay": 0.3})
    url = api.post(ORDERS)["status_url"]
    api.refused("POST", ORDERS, 409)
    assert [request["committed"] for request in service.journal_requests(ORDERS)] == [True, False]
    (waiting,) = service.journal_runs("orders")
    assert (waiting["status"], waiting["run_id"], waiting["started_at"]) == ("SCHEDULED", None, None)
    run = api.ended(url)
    assert [entry["run_id"] for entry in journalled(service, "orders", 1)] == [run["id"]]


def test_runs_of_all_kinds(service: LocalService, api: Api) -> None:
    api.post("/transforms/table/publish", {"wait_for_completion": True})
    api.post("/transforms/table/rematerialize", {"wait_for_completion": True})
    api.post("/transforms/view/publish")
    reverse, run = api.run_reverse("export"), api.run_orchestration("nightly")
    for stream in ("orders", "people"):
        (entry,) = journalled(service, stream, 1)
        assert (entry["trigger"], entry["orchestration_run_id"], entry["request"]) == ("orchestration", run.id, None)
    assert service.journal_requests("/orchestrations/**")[-1]["run_id"] == run.id
    journalled(service, "nightly", 1)
    requested = [entry for entry in service.journal_runs() if entry["trigger"] == "request"]
    assert [(entry["kind"], entry["resource_id"], entry["status"]) for entry in requested] == [
        ("transform", "table", "completed"),
        ("transform", "table", "completed"),
        ("transform", "view", "completed"),
        ("reverse_etl", "export", "COMPLETED"),
        ("orchestration", "nightly", "COMPLETED"),
    ]
    assert [entry["run_id"] for entry in requested[3:]] == [reverse.id, run.id]
    assert all(entry["finished_at"] for entry in requested)


def test_a_failed_run(service: LocalService, api: Api, data: Path) -> None:
    (data / "orders.jsonl").rename(data / "away")
    try:
        assert api.run_stream("orders").status == "FAILED"
    finally:
        (data / "away").rename(data / "orders.jsonl")
    assert journalled(service, "orders", 1)[0]["status"] == "FAILED"


def test_filters_pages_and_clearing(service: LocalService, api: Api) -> None:
    for stream in ("orders", "people", "orders"):
        api.run_stream(stream)
    runs = service.journal_runs()
    assert [run["resource_id"] for run in runs] == ["orders", "people", "orders"]
    assert service.journal_runs(after=runs[0]["seq"]) == runs[1:]
    page = api.get("/_local/journal", kind="runs", limit=1, resource_id="orders")
    assert (page["data"], page["total"]) == ([runs[0]], 2)
    requests = "/_local/journal?kind=requests&resource_id=people&path"
    assert api.get(f"{requests}=/elt_streams/{{id}}/request_run")["total"] == 1
    assert api.get(f"{requests}=/elt_streams")["total"] == 0
    assert api.client.delete("/_local/journal").status_code == 204
    assert service.journal_runs() == service.journal_requests() == []
    api.run_stream("orders")
    assert service.journal_runs()[0]["seq"] > runs[-1]["seq"]


def test_invalid_queries_of_the_journal(api: Api) -> None:
    for query in ("", "kind=all", *(f"kind=runs&{more}" for more in ("path=/x", "limit=0", "after=-1", "what=1"))):
        api.refused("GET", f"/_local/journal?{query}", 400)


def request_until_the_service_is_gone(api: Api) -> int:
    """Request runs until the service is gone, and return the number of accepted requests."""
    promised = 0
    while True:
        try:
            promised += api.client.post(ORDERS, timeout=5).status_code == 200
        except httpx.TransportError:
            return promised


def test_the_journal_is_exact_after_kills(data: Path) -> None:
    """Compare the runs in the journal with those of the service. Each has one request."""
    rng = random.Random(4)  # noqa: S311 - any instants will do, the same in each run of the test
    with LocalService(seed(data), control=True) as service:
        answered = 0
        for _ in range(6):
            api = Api(service)
            with ThreadPoolExecutor(3) as pool:
                futures = [pool.submit(request_until_the_service_is_gone, api) for _ in range(3)]
                time.sleep(rng.uniform(0.05, 0.3))
                service.kill()
            answered += sum(future.result() for future in futures)
            service.start()
        noted = journalled(service, "orders", len(service.journal_runs("orders")))
        known = Api(service).all_pages("/elt_stream_runs", elt_stream_id="orders", limit=100)
        assert sorted(run["run_id"] for run in noted) == sorted(run["id"] for run in known)
        requests = service.journal_requests(ORDERS)
        committed = {request["seq"] for request in requests if request["committed"]}
        assert committed == {run["request"] for run in noted}
        assert len(noted) == len(committed) >= answered > 0
        assert all(request["committed"] for request in requests if request["status"] == 200)
