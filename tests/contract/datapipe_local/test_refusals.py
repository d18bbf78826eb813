"""Tests of refused requests: unknown IDs, invalid cron expressions, and messages that name field, problem and fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from datapipe_local.storage.ids import RunId
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import operation
from tests.contract.interface_table import ROWS, Row

ATTACH = {"orchestration_workflow_id": "nightly"}
#: Valid bodies, so that only the ID is wrong.
BODIES: dict[str, Any] = {
    "POST /elt_streams/{id}/set_sync_interval": {"sync_interval": "0 0 * * *"},
    "POST /elt_syncs/{id}": {},
    "POST /elt_syncs/{id}/orchestration": ATTACH,
    "POST /elt_syncs/{id}/source_streams": {"source_streams": [{"name": "orders"}]},
    "POST /orchestrations/{id}": {"name": "Other"},
    "POST /reverse_etl_failed_records/retry": {"record_ids": ["1"]},
    "POST /reverse_etl_syncs/{id}": {"object_type_id": "ones", "operation": operation("x")},
    "PATCH /transforms/{id}": {"name": "other"},
    "POST /transforms/{id}/orchestration": ATTACH,
    "POST /transforms/{id}/publish": {},
    "POST /transforms/{id}/rematerialize": {},
}
#: Valid queries. The test replaces each ID in them.
QUERIES = {
    "connection_id": "out",
    "object_type_id": "ones",
    "object_type": "ones",
    "operation_mode": "upsert",
    "source_id": "view",
    "reverse_etl_sync_id": "export",
    "elt_stream_id": "orders",
    "cron_schedule": "0 0 * * *",
}
#: Required query parameters that are the ID of a resource.
IDS = frozenset({"connection_id", "source_id", "reverse_etl_sync_id", "elt_stream_id"})
#: Filters: an unknown ID selects nothing.
FILTERS = {
    "GET /elt_streams": "elt_sync_id",
    "GET /elt_syncs": "connection_id",
    "GET /reverse_etl_syncs": "destination_connection_id",
}
#: Endpoints without an ID but a filter.
WITHOUT_IDS = {
    "GET /connection_bridges",
    "POST /connection_bridges",
    "GET /connections",
    "POST /custom_reports",
    "GET /elt_streams",
    "GET /elt_syncs",
    "POST /elt_syncs",
    "GET /integrations",
    "GET /orchestration_runs",
    "GET /orchestrations",
    "POST /orchestrations",
    "GET /reverse_etl_syncs",
    "POST /reverse_etl_syncs",
    "GET /transforms",
    "POST /transforms",
    "GET /transforms/available_references",
    "POST /transforms/bulk",
    "POST /transforms/query_previews",
}
#: Unknown IDs in bodies.
IN_BODIES = {
    "/elt_syncs/shop/orchestration": {"orchestration_workflow_id": "nowhere"},
    "/transforms/table/orchestration": {"orchestration_workflow_id": "nowhere"},
}
#: An unknown ID, and the ID of another kind of resource.
UNKNOWN = ("nowhere", "data")
NO_RUN = str(RunId("nowhere", "2026-03-20T09:00:00.000Z"))


def wrong_ids(row: Row) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield paths and queries of an endpoint in which one ID is wrong."""
    query = {name: QUERIES[name] for name, required in row.query.items() if required}
    resource, brace, rest = row.path.partition("{")
    ids = ("shop" if row.path.startswith("/connections") else UNKNOWN[1], UNKNOWN[0])
    if brace:
        if row.path.startswith(("/elt_stream_runs", "/reverse_etl_sync_runs")):
            ids = (NO_RUN, str(RunId("orders", "2026-03-20T09:00:00.000Z")))
        for unknown in ids:
            yield f"{resource}{unknown}{rest.partition('}')[2]}", query
    for name in IDS & query.keys():
        for unknown in ("shop" if name == "connection_id" else UNKNOWN[1], UNKNOWN[0]):
            yield row.path, {**query, name: unknown}


def test_unknown_ids_are_not_found_at_every_endpoint(api: Api) -> None:
    api.post("/transforms/table/publish", {"wait_for_completion": True})
    without_ids = set()
    for row in ROWS:
        cases = list(wrong_ids(row))
        if not cases:
            without_ids.add(row.name)
        for path, query in cases:
            request: dict[str, Any] = {"params": query}
            if row.body != "none":
                request["json"] = BODIES.get(row.name, {})
            api.refused(row.method, path, 404, code="not_found", **request)
    assert without_ids == WITHOUT_IDS
    for path, body in IN_BODIES.items():
        api.refused("POST", path, 404, code="not_found", json=body)
    for name, parameter in FILTERS.items():
        page = api.get(name.removeprefix("GET "), **{parameter: "nowhere"})
        assert (page["data"], page["has_more"]) == ([], False)
    api.refused("GET", "/orchestration_runs", 404, params={"orchestration_id": "nowhere"})
    assert api.get("/connections")["data"][0]["id"] == "data"
    assert api.get("/elt_syncs/shop")["orchestration_workflow_id"] == "nightly"


BAD_CRONS = [
    *("", " ", "daily", "@daily", "0 0 * *", "0 0 * * * *", "60 0 * * *", "0 24 * * *", "* * * * mo"),
    "\x00 0 * * *",
]


def test_invalid_cron_expressions(api: Api) -> None:
    api.post("/transforms/table/publish", {"wait_for_completion": True})
    api.post("/transforms/table/orchestration", ATTACH)
    paths = ("/elt_streams/orders", "/orchestrations/nightly", "/transforms/table", "/elt_syncs/shop")
    before = [api.get(path) for path in paths]
    for wrong in BAD_CRONS:
        for method, path, field, request in (
            ("POST", "/elt_streams/orders/set_sync_interval", "sync_interval", {"json": {"sync_interval": wrong}}),
            ("DELETE", "/orchestrations/nightly", "cron_schedule", {"params": {"cron_schedule": wrong}}),
            ("DELETE", "/transforms/table/orchestration", "cron_expression", {"params": {"cron_expression": wrong}}),
        ):
            api.refused(method, path, 400, code="invalid_cron_expression", message=f"{field}: ", **request)
    # Required, except for transforms.
    for body in (None, {}, {"sync_interval": None}, {"sync_interval": 5}, {"cron": "0 0 * * *"}):
        api.refused("POST", "/elt_streams/orders/set_sync_interval", 400, json=body)
    api.refused("DELETE", "/orchestrations/nightly", 400)
    assert [api.get(path) for path in paths] == before
    stream = api.post("/elt_streams/orders/set_sync_interval", {"sync_interval": "*/15 0-6 1,15 jan-mar mon"})
    assert stream["sync_interval"] == "*/15 0-6 1,15 jan-mar mon"
    detached = api.client.delete("/transforms/table/orchestration", params={"cron_expression": "0 1 * * *"})
    assert (detached.status_code, detached.json()["cron_expression"]) == (200, "0 1 * * *")
    api.delete("/orchestrations/nightly", cron_schedule="0 1 * * *")


STREAMS = "/elt_syncs/shop/source_streams"
MESSAGES: list[tuple[str, Any, str]] = [
    ("/orchestrations", {"name": "a"}, "cron_schedule: the field is required."),
    ("/orchestrations", {"name": "a", "cron_schedule": "0 0 * * *", "zz": 1},
     "zz: unknown field: remove it."),
    ("/orchestrations", {"name": 1, "cron_schedule": "0 0 * * *"}, "name: it has the wrong type: give a string."),
    ("/orchestrations", [], "body: it has the wrong type: give an object."),
    ("/elt_syncs/shop", {"elt_settings": []}, "elt_settings: it has the wrong type: give an object."),
    (STREAMS, {"source_streams": {}}, "source_streams: it has the wrong type: give an array."),
    (STREAMS, {"source_streams": [[]]}, "source_streams.0: it has the wrong type: give an object."),
    ("/transforms", {"name": "a", "sql_template": "SELECT 1", "publish": 1},
     "publish: it has the wrong type: give true or false."),
    ("/reverse_etl_failed_records/retry?reverse_etl_sync_id=export", {"record_ids": "1"},
     "record_ids: it has the wrong type: give an array."),
]  # fmt: skip
JSON = {"content-type": "application/json"}
NO_JSON: list[tuple[bytes, dict[str, str], str]] = [
    (b"", {}, "body: the field is required."),
    (b'{"name": }', JSON, "body: it is not valid JSON from character 9 on: send JSON."),
    (b"\xff", JSON, "body: it cannot be read: send JSON in UTF-8."),
    (b"{}", {}, "Content-Type: send the body as application/json."),
    (b"{}", {"content-type": "text/plain"},
     "Content-Type: send the body as application/json."),
]  # fmt: skip


def test_messages_name_the_field_and_the_fix(api: Api) -> None:
    for path, body, message in MESSAGES:
        refused = api.refused("POST", path, 400, code="invalid_request", json=body)
        assert refused["message"] == message
    refused = api.refused("GET", "/elt_stream_runs", 400, code="invalid_request")
    assert refused["message"] == "elt_stream_id: the field is required."


@pytest.mark.parametrize(("content", "headers", "message"), NO_JSON)
def test_body_that_is_not_json(api: Api, content: bytes, headers: dict[str, str], message: str) -> None:
    refused = api.refused("POST", "/orchestrations", 400, code="invalid_request", content=content, headers=headers)
    assert refused["message"] == message
