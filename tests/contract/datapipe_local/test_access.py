"""Tests of authentication and error responses. test_hostile.py covers every route."""

from __future__ import annotations

import httpx
import pytest

from tests.contract.datapipe_local.api import Api
from tests.support.local_service import LocalService

JSON = {"content-type": "application/json"}
LISTS = [
    *("/connections", "/integrations", "/elt_syncs", "/elt_streams", "/orchestrations", "/orchestration_runs"),
    *("/transforms", "/reverse_etl_syncs", "/elt_stream_runs?elt_stream_id=people"),
    "/reverse_etl_sync_runs?reverse_etl_sync_id=export",
]
RETRY = "/reverse_etl_failed_records/retry?reverse_etl_sync_id=export"


@pytest.fixture(scope="module")
def api(controlled: LocalService) -> Api:
    return Api(controlled)


def test_health_needs_no_key(controlled: LocalService) -> None:
    answer = httpx.get(f"{controlled.base_url}/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("key", [None, "", "x", "é"])
@pytest.mark.parametrize("path", ["/connections", "/nowhere", "/health/", "//health", "/elt_syncs/shop"])
def test_everything_else_needs_the_key(controlled: LocalService, key: str | None, path: str) -> None:
    headers = [] if key is None else [(b"x-api-key", key.encode())]
    answer = httpx.get(f"{controlled.base_url}{path}", headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (401, "unauthorized")


def test_parameters_of_lists_are_strict(api: Api) -> None:
    for path in LISTS:
        api.get(path)
        join = "&" if "?" in path else "?"
        for query in (
            *("limit=0", "limit=1&limit=2", "starting_after=nonsense", "starting_after=", "starting_after=%00%ff"),
            *(f"starting_after={'A' * 10_000}", "sort=asc", "Limit=1"),
        ):
            field = query.partition("=")[0]
            assert api.refused("GET", f"{path}{join}{query}", 400)["message"].startswith(f"{field}: "), query


@pytest.mark.parametrize(("name", "owner"), [("elt_stream", "people"), ("reverse_etl_sync", "export")])
def test_parameters_of_lists_of_runs_are_strict(api: Api, name: str, owner: str) -> None:
    assert name in api.refused("GET", f"/{name}_runs", 400)["message"]
    assert "sort_direction" in api.refused("GET", f"/{name}_runs?{name}_id={owner}&sort_direction=up", 400)["message"]


def test_unknown_resources_are_named(api: Api) -> None:
    for kind in ("connections/{}/settings", "elt_syncs/{}", "elt_streams/{}", "orchestrations/{}", "transforms/{}"):
        assert api.refused("GET", f"/{kind.format('nope')}", 404)["message"].endswith("with the id 'nope'.")
        for unknown in ("%00", "%FF", "a" * 8_000, "❤"):
            api.refused("GET", f"/{kind.format(unknown)}", 404)


@pytest.mark.parametrize("path", ["/elt_streams/people/request_run", "/transforms/view/publish", RETRY])
def test_bodies_are_strict(api: Api, path: str) -> None:
    assert "surprise: " in api.refused("POST", path, 400, json={"surprise": 1})["message"]
    for content in (b"{", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000):
        api.refused("POST", path, 400, content=content, headers=JSON)
    api.refused("POST", path, 400, data={"surprise": "1"})
    api.refused("POST", f"{path}{'&' if '?' in path else '?'}surprise=1", 400, json={"record_ids": []})


@pytest.mark.parametrize("ids", ["x", None, [1], [None], {"a": 1}])
def test_record_ids_are_text(api: Api, ids: object) -> None:
    assert "record_ids" in api.refused("POST", RETRY, 400, json={"record_ids": ids})["message"]


def test_lone_surrogates_are_refused(api: Api) -> None:
    api.refused("POST", RETRY, 400, content=b'{"record_ids": ["\\ud800"]}', headers=JSON)
    for content in (b'{"name": "\\ud800"}', b'{"version_id": "\\ud800"}', b'{"\\ud800": 1}'):
        api.refused("POST", "/transforms/view/publish", 400, content=content, headers=JSON)


def test_unknown_paths_and_methods(api: Api) -> None:
    for path in ("/web", "/nowhere", "/elt_syncs/", "/elt_syncs/shop/", "/elt_syncs/shop/x", "/%2e%2e"):
        api.refused("GET", path, 404)
    for method, path in (("DELETE", "/connections"), ("PUT", "/elt_syncs/shop")):
        assert api.refused(method, path, 405)["error_code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("path", "name", "owner", "ids"),
    [
        ("/elt_syncs", "connection_id", "data", ["shop"]),
        ("/elt_streams", "elt_sync_id", "shop", ["orders", "people"]),
        ("/reverse_etl_syncs", "destination_connection_id", "out", ["export"]),
    ],
)
def test_lists_are_filtered_by_their_owner(api: Api, path: str, name: str, owner: str, ids: list[str]) -> None:
    assert [one["id"] for one in api.get(path, **{name: owner})["data"]] == ids
    assert api.get(path, **{name: "other"})["data"] == []


def test_unknown_filters_are_refused(api: Api) -> None:
    api.refused("GET", "/transforms?status=done", 400)
