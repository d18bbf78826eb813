"""Tests of authentication and error responses. test_hostile.py covers every route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.contract.datapipe_local.api import Api
from tests.support.local_service import LocalService

if TYPE_CHECKING:
    pass

SEED = {
    "connections": [
        {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": "/nowhere"}},
        {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": "out"}},
    ],
    "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
    "elt_syncs": [
        {
            "id": "shop",
            "connection_id": "data",
            "destination_schema_name": "shop",
            "source_streams": [{"id": "people", "name": "people", "file": "people.csv"}],
        }
    ],
    "transforms": [{"id": "one", "name": "one", "sql_template": "SELECT 1 AS x", "publish": True}],
    "reverse_etl_syncs": [
        {
            "id": "export",
            "source_id": "one",
            "destination_connection_id": "out",
            "object_type_id": "ones",
            "operation": {
                "mode": "upsert",
                "mappings": [{"source_property_id": "x", "destination_property_id": "x", "primary_key": True}],
            },
        }
    ],
}
LISTS = [
    "/connections",
    "/integrations",
    "/elt_syncs",
    "/elt_streams",
    "/elt_stream_runs?elt_stream_id=people",
    "/orchestrations",
    "/orchestration_runs",
    "/transforms",
    "/reverse_etl_syncs",
    "/reverse_etl_sync_runs?reverse_etl_sync_id=export",
]
ONES = [
    ("DELETE", "/connections/{}"),
    ("GET", "/connections/{}/settings"),
    ("GET", "/elt_syncs/{}"),
    ("POST", "/elt_syncs/{}/enable"),
    ("POST", "/elt_syncs/{}/disable"),
    ("GET", "/elt_syncs/{}/status"),
    ("GET", "/elt_streams/{}"),
    ("POST", "/elt_streams/{}/request_run"),
    ("POST", "/elt_streams/{}/request_full_refresh"),
    ("POST", "/elt_streams/{}/cancel_full_refresh"),
    ("GET", "/elt_stream_runs?elt_stream_id={}"),
    ("GET", "/orchestrations/{}"),
    ("POST", "/orchestrations/{}/request_run"),
    ("GET", "/orchestration_runs?orchestration_id={}"),
    ("GET", "/orchestration_runs/{}"),
    ("GET", "/transforms/{}"),
    ("GET", "/transforms/{}/schema"),
    ("POST", "/transforms/{}/publish"),
    ("POST", "/transforms/{}/rematerialize"),
    ("GET", "/reverse_etl_syncs/{}"),
    ("DELETE", "/reverse_etl_syncs/{}"),
    ("GET", "/reverse_etl_syncs/object_types?connection_id={}"),
    ("GET", "/reverse_etl_syncs/available_operations?object_type_id=x&connection_id={}"),
    (
        "GET",
        "/reverse_etl_syncs/destination_schema?connection_id=out&object_type_id=x&operation_mode=insert&source_id={}",
    ),
    ("POST", "/reverse_etl_syncs/settings_schema?object_type=x&connection_id={}"),
    ("POST", "/reverse_etl_syncs/{}/activate"),
    ("POST", "/reverse_etl_syncs/{}/deactivate"),
    ("POST", "/reverse_etl_syncs/{}/request_run"),
    ("GET", "/reverse_etl_sync_runs?reverse_etl_sync_id={}"),
    ("GET", "/reverse_etl_failed_records?reverse_etl_sync_id={}"),
    ("GET", "/reverse_etl_failed_records/count?reverse_etl_sync_id={}"),
    ("POST", "/reverse_etl_failed_records/retry_all?reverse_etl_sync_id={}"),
]
RUNS = ["/elt_stream_runs/{}", "/reverse_etl_sync_runs/{}"]


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with LocalService(SEED) as service:
        yield service
        # Whatever the tests of this module have sent: nothing of it was a defect, and the key is nowhere.
        assert "Traceback" not in service.log
        assert service.api_key not in service.log


@pytest.fixture(scope="module")
def api(service: LocalService) -> Api:
    return Api(service)


def test_health_needs_no_key(service: LocalService) -> None:
    answer = httpx.get(f"{service.base_url}/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("key", [None, "", "x", "é"])
@pytest.mark.parametrize("path", ["/connections", "/nowhere", "/health/", "//health", "/elt_syncs/shop"])
def test_everything_else_does(service: LocalService, key: str | None, path: str) -> None:
    headers = {} if key is None else {"x-api-key": key.encode()}
    answer = httpx.get(f"{service.base_url}{path}", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.json()["error_code"] == "unauthorized"


def test_two_keys_are_none(service: LocalService) -> None:
    headers = [("x-api-key", service.api_key), ("x-api-key", "other")]
    assert httpx.get(f"{service.base_url}/connections", headers=headers).status_code == 401


@pytest.mark.parametrize("path", LISTS)
def test_lists_are_strict(api: Api, path: str) -> None:
    api.get(path)
    join = "&" if "?" in path else "?"
    for query, field in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=ten", "limit"),
        ("limit=1e2", "limit"),
        ("limit=", "limit"),
        (f"limit={'9' * 400}", "limit"),
        ("limit=1&limit=2", "limit"),
        ("starting_after=nonsense", "starting_after"),
        ("starting_after=", "starting_after"),
        ("starting_after=%00%ff", "starting_after"),
        (f"starting_after={'A' * 10_000}", "starting_after"),
        ("sort=asc", "sort"),
        ("Limit=1", "Limit"),
    ]:
        assert api.refused("GET", f"{path}{join}{query}", 400)["message"].startswith(f"{field}: "), query


@pytest.mark.parametrize("name", ["elt_stream", "reverse_etl_sync"])
def test_lists_of_runs_are_strict(api: Api, name: str) -> None:
    owner = {"elt_stream": "people", "reverse_etl_sync": "export"}[name]
    assert name in api.refused("GET", f"/{name}_runs", 400)["message"]
    assert "sort_direction" in api.refused("GET", f"/{name}_runs?{name}_id={owner}&sort_direction=up", 400)["message"]


@pytest.mark.parametrize(("method", "path"), ONES)
@pytest.mark.parametrize("unknown", ["nope", "%00", "%FF", "..%2f..", "a" * 8_000, "'; DROP TABLE elt_syncs; --", "❤"])
def test_what_is_not_there_is_named(api: Api, method: str, path: str, unknown: str) -> None:
    said = api.refused(method, path.format(unknown), 404)
    if unknown == "nope":
        assert said["message"].endswith("with the id 'nope'.")


@pytest.mark.parametrize("path", RUNS)
@pytest.mark.parametrize("run_id", ["nope", "A" * 8_000, "%00", "cGVvcGxlfHRvZGF5"])
def test_what_is_no_run_id_is_refused(api: Api, path: str, run_id: str) -> None:
    assert api.refused("GET", path.format(run_id), 400)["error_code"] == "invalid_run_id"


@pytest.mark.parametrize("path", RUNS)
def test_a_run_that_is_not_there(api: Api, path: str) -> None:
    # people|2020-01-01T00:00:00.000Z
    api.refused("GET", path.format("cGVvcGxlfDIwMjAtMDEtMDFUMDA6MDA6MDAuMDAwWg"), 404)


@pytest.mark.parametrize(
    "path",
    [
        "/elt_streams/people/request_run",
        "/elt_streams/people/request_full_refresh",
        "/elt_syncs/shop/enable",
        "/orchestrations/nightly/request_run",
        "/transforms/one/publish",
        "/transforms/one/rematerialize",
        "/reverse_etl_syncs/export/request_run",
        "/reverse_etl_failed_records/retry?reverse_etl_sync_id=export",
    ],
)
def test_bodies_are_strict(api: Api, path: str) -> None:
    assert "surprise: " in api.refused("POST", path, 400, json={"surprise": 1})["message"]
    for content in (b"{", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000):
        api.refused("POST", path, 400, content=content, headers={"content-type": "application/json"})
    api.refused("POST", path, 400, content=b"surprise=1", headers={"content-type": "application/x-www-form-urlencoded"})
    api.refused("POST", f"{path}{'&' if '?' in path else '?'}surprise=1", 400, json={"record_ids": []})


@pytest.mark.parametrize("ids", ["x", None, [1], [None], {"a": 1}])
def test_record_ids_are_text(api: Api, ids: object) -> None:
    path = "/reverse_etl_failed_records/retry?reverse_etl_sync_id=export"
    assert "record_ids" in api.refused("POST", path, 400, json={"record_ids": ids})["message"]


def test_half_a_character_is_no_text(api: Api) -> None:
    path = "/reverse_etl_failed_records/retry?reverse_etl_sync_id=export"
    content = b'{"record_ids": ["\\ud800"]}'
    api.refused("POST", path, 400, content=content, headers={"content-type": "application/json"})
    for content in (b'{"name": "\\ud800"}', b'{"version_id": "\\ud800"}', b'{"\\ud800": 1}'):
        headers = {"content-type": "application/json"}
        api.refused("POST", "/transforms/one/publish", 400, content=content, headers=headers)


@pytest.mark.parametrize(
    "path", ["/web", "/nowhere", "/elt_syncs/", "/elt_syncs/shop/", "/elt_syncs/shop/x", "/%2e%2e"]
)
def test_paths_that_are_none(api: Api, path: str) -> None:
    api.refused("GET", path, 404)


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/connections"), ("PUT", "/elt_syncs/shop")])
def test_methods_that_are_none(api: Api, method: str, path: str) -> None:
    assert api.refused(method, path, 405)["error_code"] == "method_not_allowed"


def test_filters_take_what_they_name(api: Api) -> None:
    assert [sync["id"] for sync in api.get("/elt_syncs", connection_id="data")["data"]] == ["shop"]
    assert api.get("/elt_syncs", connection_id="other")["data"] == []
    assert [stream["id"] for stream in api.get("/elt_streams", elt_sync_id="shop")["data"]] == ["people"]
    assert api.get("/elt_streams", elt_sync_id="other")["data"] == []
    assert api.get("/reverse_etl_syncs", destination_connection_id="other")["data"] == []
    assert len(api.get("/reverse_etl_syncs", destination_connection_id="out")["data"]) == 1
    api.refused("GET", "/transforms?status=done", 400)
