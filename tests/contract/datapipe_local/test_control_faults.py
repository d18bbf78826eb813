"""Tests of injected faults: the bytes on the socket, and the requests that the service still executes."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import ANY_STREAM, ORDERS, journalled, seed
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

pytestmark = pytest.mark.slow

Json = dict[str, Any]


def fault(service: LocalService, **rule: Any) -> None:
    service.faults([{"method": "POST", "path": ANY_STREAM, **rule}])


def last_request(service: LocalService) -> Json:
    return service.journal_requests(ANY_STREAM)[-1]


def raw(service: LocalService) -> tuple[bytes, bool]:
    """Return the bytes of a response until the connection ends, and True if it ends with a reset."""
    head = f"POST {ORDERS} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {service.api_key}\r\ncontent-length: 2\r\n\r\n"
    received = b""
    with socket.create_connection(("127.0.0.1", int(service.base_url.rpartition(":")[2])), 5) as connection:
        connection.sendall(head.encode() + b"{}")
        try:
            while part := connection.recv(4096):
                received += part
        except ConnectionResetError:
            return received, True
    return received, False


@pytest.mark.parametrize(("when", "runs"), [("before", 0), ("after", 1)])
def test_a_dropped_connection(service: LocalService, api: Api, when: str, runs: int) -> None:
    fault(service, drop=True, when=when)
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        api.client.post(ORDERS)
    request = last_request(service)
    assert (request["committed"], request["status"]) == (bool(runs), None)
    assert request["service_status"] == (200 if runs else None)
    assert len(journalled(service, "orders", runs)) == runs
    # The rule acts once.
    api.run_stream("orders")
    assert len(journalled(service, "orders", runs + 1)) == runs + 1


def test_a_drop_sends_no_byte(service: LocalService) -> None:
    fault(service, drop=True, when="after", times=2)
    assert [raw(service), raw(service)] == [(b"", False), (b"", False)]


@pytest.mark.parametrize(("when", "runs"), [("before", 0), ("after", 1)])
def test_another_status(service: LocalService, api: Api, when: str, runs: int) -> None:
    fault(service, status=502, when=when, headers={"Retry-After": "7"}, body={"error_code": "bad_gateway"})
    answer = api.client.post(ORDERS)
    assert (answer.status_code, answer.headers["retry-after"]) == (502, "7")
    assert answer.json() == {"error_code": "bad_gateway"}
    request = last_request(service)
    assert (request["status"], request["committed"]) == (502, bool(runs))
    assert request["fault"] == {"rule": 0, "effect": "status", "when": when, "delay": 0}
    # The journal has the response that the client did not get.
    assert (request["status_url"] is not None) is bool(runs)
    assert len(journalled(service, "orders", runs)) == runs


@pytest.mark.parametrize("status", [204, 304, 503])
def test_bodies_of_other_statuses(service: LocalService, api: Api, status: int) -> None:
    fault(service, status=status)
    answer = api.client.post(ORDERS)
    assert answer.status_code == status
    assert ("error_code" in answer.text) is (status == 503)
    fault(service, status=503, body="<h1>no</h1>", headers={"content-type": "text/html"})
    answer = api.client.post(ORDERS)
    assert (answer.text, answer.headers["content-type"]) == ("<h1>no</h1>", "text/html")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_delay_beyond_the_timeout_of_the_client(service: LocalService, api: Api, when: str) -> None:
    fault(service, delay=0.8, when=when)
    with pytest.raises(httpx.ReadTimeout):
        api.client.post(ORDERS, timeout=0.2)
    # The service executes the request, though the client has gone.
    assert len(service.journal_runs("orders")) == (when == "after")
    assert len(journalled(service, "orders", 1)) == 1
    wait_for("the status", lambda: last_request(service)["service_status"] is not None, limit=5, interval=0.01)
    assert last_request(service)["status"] is None


def test_delays_that_the_client_waits_for(service: LocalService, api: Api) -> None:
    fault(service, delay=0.2, status=504)
    begin = time.monotonic()
    assert api.client.post(ORDERS).status_code == 504
    assert time.monotonic() - begin >= 0.2
    assert service.journal_runs() == []
    fault(service, delay=0.2, when="after")
    begin = time.monotonic()
    assert api.ended(api.post(ORDERS)["status_url"])["status"] == "COMPLETED"
    assert time.monotonic() - begin >= 0.2
    assert last_request(service)["status"] == 200


def test_a_reset_within_the_response(service: LocalService, api: Api) -> None:
    fault(service, reset=True, times=2)
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        api.client.post(ORDERS)
    assert last_request(service)["committed"]
    assert last_request(service)["status"] is None
    # On the socket: all of the head, half of the body, then a reset.
    received, is_reset = raw(service)
    assert is_reset
    begin, _, body = received.partition(b"\r\n\r\n")
    length = int(begin.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    assert len(body) == length // 2 > 0


@pytest.mark.parametrize(
    ("how", "when"),
    [("truncated", "after"), ("html", "before"), ("empty", "after"), ("other", "after"), ("other", "before")],
)
def test_malformed_responses(service: LocalService, api: Api, how: str, when: str) -> None:
    fault(service, malformed=how, when=when)
    answer = api.client.post(ORDERS)
    assert answer.status_code == 200
    if how == "other":
        assert isinstance(answer.json(), list)
    else:
        with pytest.raises(json.JSONDecodeError):
            answer.json()
    assert ("html" in answer.headers["content-type"]) is (how == "html")
    assert (answer.content == b"") is (how == "empty")
    assert len(service.journal_runs("orders")) == (when == "after")


def test_fields_of_responses_are_rewritten(service: LocalService, api: Api) -> None:
    url = api.post(ORDERS)["status_url"]
    run = api.ended(url)
    service.faults([
        {"method": "GET", "path": "/elt_stream_runs", "rewrite": {"status": "ODD"}, "remove": ["finished_at"]},
        {"method": "GET", "path": "/elt_stream_runs/{id}", "resource_id": "orders", "rewrite": {"status": "ODD"}},
        {
            "method": "GET",
            "path": "/elt_syncs/{id}/status",
            "rewrite": {"source_streams.latest_sync.status": "ODD", "source_streams.nowhere.status": 1},
        },
    ])  # fmt: skip
    # A request whose response stays the same does not count.
    assert api.get(f"/elt_stream_runs?elt_stream_id=orders&starting_after={run['id']}")["data"] == []
    seen = api.first(url)
    assert seen is not None
    assert (seen["status"], "finished_at" in seen) == ("ODD", False)
    assert api.get(f"/elt_stream_runs/{run['id']}") == {**run, "status": "ODD"}
    streams = api.get("/elt_syncs/shop/status")["source_streams"]
    statuses = {stream["name"]: stream.get("latest_sync", {}).get("status") for stream in streams}
    assert statuses == {"orders": "ODD", "people": None}
    assert api.first(url) == run


def test_skip_times_and_order(service: LocalService, api: Api) -> None:
    service.faults([
        {"path": "/connections", "status": 500, "skip": 1, "times": 2},
        {"path": "/**", "status": 501, "skip": 3, "times": "always"},
    ])  # fmt: skip
    assert [api.client.get("/connections").status_code for _ in range(7)] == [200, 500, 500, 200, 200, 501, 501]
    rules = api.get("/_local/faults")["data"]
    assert [(rule["passed"], rule["acted"]) for rule in rules] == [(1, 2), (3, 2)]


def test_a_rule_for_one_resource(service: LocalService, api: Api) -> None:
    run = api.run_orchestration("nightly")
    fault(service, resource_id="people", status=500, times="always")
    assert api.client.post(ORDERS).status_code == 200
    assert api.client.post("/elt_streams/people/request_run").status_code == 500
    for owner, path in [
        ("people", "/elt_stream_runs?elt_stream_id=people"),
        ("shop", "/elt_syncs/shop"),
        ("shop", "/elt_streams?elt_sync_id=shop"),
        ("nightly", f"/orchestration_runs/{run.id}"),
        ("nightly", "/orchestration_runs?orchestration_id=nightly"),
        ("view", "/transforms/view"),
    ]:
        service.faults([{"path": "/**", "resource_id": owner, "status": 500}])
        assert api.client.get("/connections").status_code == 200
        assert api.client.get(path).status_code == 500, path


def test_health_and_the_control_plane_never_fail(service: LocalService, api: Api) -> None:
    service.faults([{"path": "/**", "drop": True, "times": "always"}])
    assert api.client.get("/health").status_code == 200
    assert api.client.get("/_local/faults").status_code == 200
    with pytest.raises(httpx.RemoteProtocolError):
        api.client.get("/connections")
    # Without the key, the response does not reveal the fault.
    assert httpx.get(f"{service.base_url}/connections").status_code == 401
    assert api.client.delete("/_local/faults").status_code == 204
    assert api.client.get("/connections").status_code == 200


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"path": "/elt_stream/*/request_run", "drop": True}, "matches no path"),
        ({"path": "/health", "drop": True}, "matches no path"),
        ({"path": "/elt_streams/", "drop": True}, "matches no path"),
        ({"path": "/_local/reset", "drop": True}, "matches no path"),
        ({"method": "PATCH", "drop": True}, "takes GET"),
        ({}, "give an effect"),
        ({"drop": True, "status": 500}, "give one of"),
        ({"delay": 601}, "600"),
        ({"delay": -1}, "0"),
        ({"status": 100}, "200"),
        ({"status": 500, "times": 0}, "always"),
        ({"status": 500, "skip": -1}, "skip"),
        ({"drop": True, "body": {}}, "require status"),
        ({"status": 500, "headers": {"a b": "c"}}, "header"),
        ({"status": 500, "headers": {"a": "b\r\nc: d"}}, "header"),
        ({"status": 500, "headers": {"Content-Length": "1"}}, "the service itself sets"),
        ({"rewrite": {"a": 1}, "when": "before"}, "omit `when`"),
        ({"malformed": "odd"}, "malformed"),
        ({"explode": True}, "explode"),
        ({"path": "/webhooks/**", "method": "GET", "drop": True}, "takes POST, not GET"),
        ({"path": "/webhooks/*", "drop": True}, "matches no path"),
        ({"path": "/webhook/**", "drop": True}, "matches no path"),
        ({"path": "/authorize/**", "drop": True}, "matches no path"),
    ],
)
def test_invalid_rules_are_refused(service: LocalService, api: Api, rule: Json, message: str) -> None:
    kept = {"path": "/connections", "status": 500}
    service.faults([kept])
    assert message in api.refused("PUT", "/_local/faults", 400, json=[{"path": "/connections", **rule}])["message"]
    assert api.get("/_local/faults")["data"] == [{**kept, "passed": 0, "acted": 0}]


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_during_a_delay(data: Path, when: str) -> None:
    committed = when == "after"
    with LocalService(seed(data), control=True) as service:
        service.faults([{"path": ANY_STREAM, "delay": 600, "when": when, "times": 2}])
        with pytest.raises(httpx.ReadTimeout):
            Api(service).client.post(ORDERS, timeout=0.5)
        service.kill()
        service.start()
        request = service.journal_requests(ANY_STREAM)[-1]
        assert (request["committed"], request["service_status"], request["status"]) == (committed, None, None)
        assert request["fault"]["effect"] == "delay"
        runs = journalled(service, "orders", int(committed))
        found = [(run["request"], run["run_id"], run["trigger"], run["status"]) for run in runs]
        assert found == [(request["seq"], request["run_id"], "request", "COMPLETED")] * committed
        # The rules and their counts are still there.
        rules = Api(service).get("/_local/faults")["data"]
        assert [(rule["delay"], rule["acted"]) for rule in rules] == [(600, 1)]
        with pytest.raises(httpx.ReadTimeout):
            Api(service).client.post(ORDERS, timeout=0.2)
        # A stop does not wait for a delay.
        assert service.stop() == 0


def test_faults_under_load_act_exactly_as_often_as_set(service: LocalService) -> None:
    service.faults([{"path": "/connections", "status": 500, "skip": 20, "times": 30}])
    with httpx.Client(base_url=service.base_url, headers=service.headers) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.get("/connections").status_code, range(100)))
    assert (answers.count(500), answers.count(200)) == (30, 70)
    requests = service.journal_requests("/connections")
    assert len(requests) == 100
    assert len([request for request in requests if request["status"] == 500]) == 30
