"""Tests of requests that create, change and delete orchestrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import journalled
from tests.support.local_service import LocalService

pytestmark = pytest.mark.slow


FIELDS = {"id", "name", "cron_schedule"}


@pytest.fixture
def api(service: LocalService) -> Api:
    return Api(service)


def create(api: Api, name: str, cron: str = "0 4 * * *") -> str:
    body = api.post("/orchestrations", {"name": name, "cron_schedule": cron}, status=201)
    assert set(body) == FIELDS
    assert (body["name"], body["cron_schedule"]) == (name, cron)
    return Orchestration.model_validate(body).id


def test_create_change_list(service: LocalService, api: Api) -> None:
    names = ["beta", "Alpha", "gamma", "alpha", "Ärger", "beta", "10", "naïve 🚀 \u00a0x", "x" * 255]
    ids = {create(api, name): name for name in names}
    assert len(ids) == len(names)
    for one, name in ids.items():
        assert api.get(f"/orchestrations/{one}")["name"] == name
    listed = api.all_pages("/orchestrations", limit=2)
    # The case of a to z makes no difference; what has the same name stands as it was created.
    expected = ["10", "Alpha", "alpha", "beta", "beta", "gamma", "naïve 🚀 \u00a0x", "Nightly", "x" * 255, "Ärger"]
    assert [entry["name"] for entry in listed] == expected
    assert [entry["id"] for entry in listed if entry["name"] == "beta"] == [
        one for one, name in ids.items() if name == "beta"
    ]

    one = next(iter(ids))
    assert api.post(f"/orchestrations/{one}", {"name": "Zeta"})["cron_schedule"] == "0 4 * * *"
    changed = api.post(f"/orchestrations/{one}", {"cron_schedule": "*/5 1-3 * jan mon"})
    assert changed == {"id": one, "name": "Zeta", "cron_schedule": "*/5 1-3 * jan mon"}
    assert api.post(f"/orchestrations/{one}", {}) == changed == api.get(f"/orchestrations/{one}")
    # It is on disk.
    service.kill()
    service.start()
    assert api.get(f"/orchestrations/{one}") == changed


BAD_VALUES: list[tuple[str, Any]] = [
    ("name", ""),
    ("name", " \t"),
    ("name", "two\nlines"),
    ("name", "nul\x00"),
    ("name", "half \ud800"),
    ("name", "x" * 256),
    ("name", None),
    ("name", 7),
    ("name", ["Nightly"]),
    ("cron_schedule", ""),
    ("cron_schedule", "daily"),
    ("cron_schedule", "0 0 * * * *"),
    ("cron_schedule", "60 * * * *"),
    ("cron_schedule", "0 0 \x00 * *"),
    ("cron_schedule", "\ud800 0 * * *"),
    ("cron_schedule", "0," * 5000 + "x * * * *"),
    ("cron_schedule", "9" * 400 + " * * * *"),
    ("cron_schedule", None),
    ("cron_schedule", 5),
    ("cron_schedule", {"cron": "0 0 * * *"}),
    ("surprise", "x"),
]


@pytest.mark.parametrize(("field", "value"), BAD_VALUES, ids=lambda value: repr(value)[:30])
def test_what_is_wrong_is_named(api: Api, field: str, value: Any) -> None:
    good: dict[str, Any] = {"name": "Good", "cron_schedule": "0 0 * * *"}
    before = api.get("/orchestrations")
    for path, body in (("/orchestrations", {**good, field: value}), ("/orchestrations/nightly", {field: value})):
        # As bytes: httpx would not send half a character.
        refused = api.refused("POST", path, 400, content=json.dumps(body), headers={"content-type": "application/json"})
        assert field in refused["message"] or "half a character" in refused["message"], refused
    assert api.get("/orchestrations") == before


def test_what_is_missing_is_named(api: Api) -> None:
    assert "name" in api.refused("POST", "/orchestrations", 400, json={"cron_schedule": "0 0 * * *"})["message"]
    assert "cron_schedule" in api.refused("POST", "/orchestrations", 400, json={"name": "x"})["message"]
    assert "cron_schedule" in api.refused("DELETE", "/orchestrations/nightly", 400)["message"]
    for path in ("/orchestrations", "/orchestrations/nightly"):
        for content in (
            b"",
            b"[]",
            b"null",
            b"{",
            b'"x"',
            b"[" * 10_000,
            b'{"name": "a", "name": ' + b"9" * 5_000 + b"}",
        ):
            api.refused("POST", path, 400, content=content, headers={"content-type": "application/json"})
    api.refused("POST", "/orchestrations/nowhere", 404, json={"name": "x"})
    api.refused("POST", "/orchestrations/nightly?surprise=1", 400, json={"name": "x"})
    api.refused("DELETE", "/orchestrations/nightly", 400, params={"cron_schedule": ["0 0 * * *", "1 0 * * *"]})


def test_a_cursor_stays_right_when_its_entry_is_deleted(api: Api) -> None:
    made = [create(api, name) for name in ("a", "b", "c", "d")]
    page = api.get("/orchestrations", limit=2)
    assert api.client.delete(f"/orchestrations/{made[1]}?cron_schedule=0 0 * * *").status_code == 204
    rest = api.all_pages("/orchestrations", starting_after=page["next_cursor"])
    assert [entry["name"] for entry in rest] == ["c", "d", "Nightly"]


def test_what_goes_on_when_its_orchestration_is_deleted(service: LocalService, api: Api, data: Path) -> None:
    service.runs({"resources": {"orders": {"minimum_duration": 2}}})
    api.post("/transforms/table/publish", {"wait_for_completion": True})
    # It waits for the stream, and so has not begun.
    ready = api.run_stream("people")
    api.client.patch("/transforms/table", json={"sql_template": "SELECT count(*) AS n FROM {{raw.shop.people}}"})
    api.post("/transforms/table/publish", {"wait_for_completion": True})
    api.post("/transforms/table/orchestration", {"orchestration_workflow_id": "nightly"})
    service.runs({"resources": {"people": {"minimum_duration": 2}}})
    first, second = (api.post("/orchestrations/nightly/request_run")["id"] for _ in range(2))
    api.until(f"/orchestration_runs/{first}", lambda run: run["status"] == "RUNNING")
    status_url = f"/elt_stream_runs?elt_stream_id=people&starting_after={ready.id}&limit=1&sort_direction=asc"
    api.until(status_url, lambda run: run["status"] == "RUNNING")
    builds = len(service.journal_runs("table"))

    assert api.client.delete("/orchestrations/nightly?cron_schedule=0 0 * * *").status_code == 204
    for run in (first, second):
        api.refused("GET", f"/orchestration_runs/{run}", 404)
    api.refused("GET", "/orchestration_runs?orchestration_id=nightly", 404)
    assert api.get("/orchestration_runs")["data"] == []
    # What had begun comes to its own end; what had not is not begun.
    assert api.ended(status_url)["status"] == "COMPLETED"
    journalled(service, "orders", 1)
    assert [run["status"] for run in service.journal_runs("nightly")] == ["GONE", "GONE"]
    assert len(service.journal_runs("table")) == builds
    assert len(service.journal_runs("orders")) == 1
    assert "stumbled" not in service.log


def test_a_part_that_is_deleted_while_it_runs_cancels_the_run(service: LocalService, api: Api) -> None:
    service.runs({"resources": {"orders": {"minimum_duration": 30}}})
    run = api.post("/orchestrations/nightly/request_run")["id"]
    api.until("/elt_stream_runs?elt_stream_id=orders", lambda load: load["status"] == "RUNNING")
    assert api.client.delete("/elt_streams/orders").status_code == 204
    assert api.ended(f"/orchestration_runs/{run}")["status"] == "CANCELED"
    assert journalled(service, "people", 1)[0]["status"] == "COMPLETED"
    assert api.run_orchestration("nightly").status == "COMPLETED"
