"""Tests of the rows of "Errors" and "Limits" that concern several areas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.ids import RunId
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import seed
from tests.contract.interface_table import ROWS, Row
from tests.support.local_service import LocalService

MAPPING = {"source_property_id": "x", "destination_property_id": "x", "primary_key": True}
OPERATION = {"mode": "upsert", "mappings": [MAPPING]}
ATTACH = {"orchestration_workflow_id": "nightly"}
#: Bodies that are good, so that the id alone is wrong.
BODIES: dict[str, Any] = {
    "POST /elt_streams/{id}/set_sync_interval": {"sync_interval": "0 0 * * *"},
    "POST /elt_syncs/{id}": {},
    "POST /elt_syncs/{id}/orchestration": ATTACH,
    "POST /elt_syncs/{id}/source_streams": {"source_streams": [{"name": "orders"}]},
    "POST /orchestrations/{id}": {"name": "Other"},
    "POST /reverse_etl_failed_records/retry": {"record_ids": ["1"]},
    "POST /reverse_etl_syncs/{id}": {"object_type_id": "ones", "operation": OPERATION},
    "PATCH /transforms/{id}": {"name": "other"},
    "POST /transforms/{id}/orchestration": ATTACH,
    "POST /transforms/{id}/publish": {},
    "POST /transforms/{id}/rematerialize": {},
}
#: Queries that are good; each id in them is then replaced in turn.
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
#: What in a query is the id of a resource, if it must be given.
IDS = frozenset({"connection_id", "source_id", "reverse_etl_sync_id", "elt_stream_id"})
#: Filters: nothing has an id that nobody has.
FILTERS = {
    "GET /elt_streams": "elt_sync_id",
    "GET /elt_syncs": "connection_id",
    "GET /reverse_etl_syncs": "destination_connection_id",
}
#: All others: they make something, list everything, or name nothing by an id but a filter.
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
#: Ids in bodies.
IN_BODIES = {
    "/elt_syncs/shop/orchestration": {"orchestration_workflow_id": "nowhere"},
    "/transforms/table/orchestration": {"orchestration_workflow_id": "nowhere"},
}
#: Nobody has the first; the second is the id of something else.
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


def test_error_not_found(service: LocalService) -> None:
    """Expect 404 for an unknown resource, stream, job, sync or workflow, at every endpoint that names one."""
    api = Api(service)
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
            answer = api.client.request(row.method, path, **request)
            assert (answer.status_code, answer.json()["error_code"]) == (404, "not_found"), (row.name, path, query)
            assert answer.json()["message"]
    assert without_ids == WITHOUT_IDS
    for path, body in IN_BODIES.items():
        assert api.refused("POST", path, 404, json=body)["error_code"] == "not_found"
    for name, parameter in FILTERS.items():
        page = api.get(name.removeprefix("GET "), **{parameter: "nowhere"})
        assert (page["data"], page["has_more"]) == ([], False)
    api.refused("GET", "/orchestration_runs", 404, params={"orchestration_id": "nowhere"})
    # Nothing of all that has changed anything.
    assert api.get("/connections")["data"][0]["id"] == "data"
    assert api.get("/elt_syncs/shop")["orchestration_workflow_id"] == "nightly"


BAD_CRONS = (
    "",
    " ",
    "daily",
    "@daily",
    "0 0 * *",
    "0 0 * * * *",
    "60 0 * * *",
    "0 24 * * *",
    "* * * * mo",
    "\x00 0 * * *",
)


def test_error_invalid_cron_expression(service: LocalService) -> None:
    """Expect 400 for a bad or missing cron expression: set_sync_interval, orchestration delete, transform detach."""
    api = Api(service)
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
            refused = api.refused(method, path, 400, **request)
            assert refused["message"].startswith(f"{field}: "), refused
    # Missing; that of a transform may be left out.
    for body in (None, {}, {"sync_interval": None}, {"sync_interval": 5}, {"cron": "0 0 * * *"}):
        api.refused("POST", "/elt_streams/orders/set_sync_interval", 400, json=body)
    api.refused("DELETE", "/orchestrations/nightly", 400)
    assert [api.get(path) for path in paths] == before
    # And those that are right are taken.
    stream = api.post("/elt_streams/orders/set_sync_interval", {"sync_interval": "*/15 0-6 1,15 jan-mar mon"})
    assert stream["sync_interval"] == "*/15 0-6 1,15 jan-mar mon"
    detached = api.client.delete("/transforms/table/orchestration", params={"cron_expression": "0 1 * * *"})
    assert (detached.status_code, detached.json()["cron_expression"]) == (200, "0 1 * * *")
    assert api.client.delete("/orchestrations/nightly", params={"cron_schedule": "0 1 * * *"}).status_code == 204


NO_SIZES = ("0", "101", "-1", "1000000000", "1" * 5000, "x", "1.0", "1e1", "+1", "1_0", "", " ", "\u0661", "null")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Start a service with eleven connections, transforms and orchestrations."""
    folder: Path = tmp_path_factory.mktemp("many")
    (folder / "orders.jsonl").write_text('{"person": 1}\n')
    (folder / "people.csv").write_text("id\n1\n")
    wanted = seed(folder)
    for number in range(10):
        wanted["connections"].append(
            {"id": f"c{number}", "integration_id": "files", "label": "More", "settings": {"path": str(folder)}}
        )
        wanted["transforms"].append({"id": f"t{number}", "name": f"t{number}", "sql_template": "SELECT 1 AS x"})
        wanted["orchestrations"].append({"id": f"o{number}", "name": f"O {number}", "cron_schedule": "0 2 * * *"})
    with LocalService(wanted) as service:
        yield Api(service)


def test_limit_page_size(many: Api) -> None:
    """Expect page sizes of 1 to 100, 10 by default, at all list endpoints with ``limit``."""
    lists = {
        row.path: {name: QUERIES[name] for name, required in row.query.items() if required}
        for row in ROWS
        if "limit" in row.query
    }
    assert len(lists) == 11
    ids = {"/transforms/{id}/versions": "/transforms/table/versions"}
    for path, query in lists.items():
        address = ids.get(path, path)
        for wrong in NO_SIZES:
            refused = many.refused("GET", address, 400, params={**query, "limit": wrong})
            assert "limit" in refused["message"], (path, wrong)
        many.refused("GET", address, 400, params={**query, "limit": ["1", "2"]})
        for size in (1, 100):
            assert len(many.get(address, **query, limit=size)["data"]) <= size
    assert [many.post("/orchestrations/nightly/request_run")["status"] for _ in range(11)] == ["NOT_STARTED"] * 11
    for path in ("/connections", "/orchestrations", "/transforms", "/orchestration_runs"):
        page = many.get(path)
        assert (len(page["data"]), page["has_more"]) == (10, True), path
        assert len(many.get(path, limit=1)["data"]) == 1
        assert len(many.get(path, limit=100)["data"]) > 10
