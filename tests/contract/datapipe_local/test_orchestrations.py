"""Tests of requests that create, change, delete and run orchestrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import journalled
from tests.support.local_service import LocalService

ATTACHED = {"orchestration_workflow_id": "nightly"}


def create(api: Api, name: str, cron: str = "0 4 * * *") -> str:
    body = api.post("/orchestrations", {"name": name, "cron_schedule": cron}, status=201)
    assert body == {"id": body["id"], "name": name, "cron_schedule": cron}
    return Orchestration.model_validate(body).id


@pytest.mark.slow
def test_create_change_and_list(service: LocalService, api: Api) -> None:
    names = ["beta", "Alpha", "gamma", "alpha", "Ärger", "beta", "10", "naïve 🚀 \u00a0x", "x" * 255]
    ids = {create(api, name): name for name in names}
    assert len(ids) == len(names)
    listed = api.all_pages("/orchestrations", limit=2)
    # By name without regard to the case of ASCII letters, then by creation.
    expected = ["10", "Alpha", "alpha", "beta", "beta", "gamma", "naïve 🚀 \u00a0x", "Nightly", "x" * 255, "Ärger"]
    assert [entry["name"] for entry in listed] == expected
    betas = [one for one, name in ids.items() if name == "beta"]
    assert [entry["id"] for entry in listed if entry["name"] == "beta"] == betas

    one = betas[0]
    assert api.post(f"/orchestrations/{one}", {"name": "Zeta"})["cron_schedule"] == "0 4 * * *"
    changed = api.post(f"/orchestrations/{one}", {"cron_schedule": "*/5 1-3 * jan mon"})
    assert changed == {"id": one, "name": "Zeta", "cron_schedule": "*/5 1-3 * jan mon"}
    assert api.post(f"/orchestrations/{one}", {}) == changed == api.get(f"/orchestrations/{one}")
    service.kill()
    service.start()
    assert api.get(f"/orchestrations/{one}") == changed


INVALID: list[tuple[str, Any]] = [
    *(("name", name) for name in ("", " \t", "two\nlines", "nul\x00", "half \ud800", "x" * 256, None, 7, ["Nightly"])),
    *(("cron_schedule", cron) for cron in ("", "daily", "0 0 * * * *", "60 * * * *", "0 0 \x00 * *", "\ud800 0 * * *")),
    *(("cron_schedule", cron) for cron in ("0," * 5000 + "x * * * *", "9" * 400 + " * * * *", None, 5, {"cron": ""})),
    ("surprise", "x"),
]


@pytest.mark.slow
def test_invalid_fields_are_refused(api: Api) -> None:
    before = api.get("/orchestrations")
    for field, value in INVALID:
        whole = {"name": "Good", "cron_schedule": "0 0 * * *", field: value}
        for path, body in (("/orchestrations", whole), ("/orchestrations/nightly", {field: value})):
            message = api.refused("POST", path, 400, json=body)["message"]
            assert field in message or "half a character" in message, value
    api.refused("POST", "/orchestrations", 400, message="name", json={"cron_schedule": "0 0 * * *"})
    api.refused("POST", "/orchestrations", 400, message="cron_schedule", json={"name": "x"})
    assert api.get("/orchestrations") == before


@pytest.mark.slow
def test_cursor_stays_valid_when_its_entry_is_deleted(api: Api) -> None:
    made = [create(api, name) for name in ("a", "b", "c", "d")]
    page = api.get("/orchestrations", limit=2)
    api.delete(f"/orchestrations/{made[1]}", cron_schedule="0 0 * * *")
    rest = api.all_pages("/orchestrations", starting_after=page["next_cursor"])
    assert [entry["name"] for entry in rest] == ["c", "d", "Nightly"]


def test_delete_gives_its_schedule_to_attached_resources(api: Api, data: Path) -> None:
    (data / "out").mkdir(exist_ok=True)
    for transform in ("table", "view"):
        api.post(f"/transforms/{transform}/publish", {"wait_for_completion": True})
        api.post(f"/transforms/{transform}/orchestration", ATTACHED)
    api.post("/reverse_etl_syncs/export/deactivate", status=204)
    export = api.get("/reverse_etl_syncs/export")
    definition = {name: export[name] for name in ("object_type_id", "operation", "settings")}
    api.post("/reverse_etl_syncs/export", {**definition, **ATTACHED})
    other = create(api, "Other")
    paths = ("/elt_syncs/shop", "/transforms/table", "/transforms/view", "/reverse_etl_syncs/export")
    before = {path: api.get(path) for path in paths}
    assert {body["orchestration_workflow_id"] for body in before.values()} == {"nightly"}

    api.delete("/orchestrations/nightly", cron_schedule="0 5 * * *")
    api.refused("GET", "/orchestrations/nightly", 404)
    api.refused("DELETE", "/orchestrations/nightly", 404, params={"cron_schedule": "0 5 * * *"})
    assert [entry["id"] for entry in api.get("/orchestrations")["data"]] == [other]
    after = {path: api.get(path) for path in paths}
    assert all("orchestration_workflow_id" not in body for body in after.values())
    assert after["/elt_syncs/shop"]["sync_interval"] == "0 5 * * *"
    assert after["/transforms/table"]["cron_expression"] == "0 5 * * *"
    assert after["/transforms/table"]["rebuild_trigger"] == "schedule"
    assert after["/reverse_etl_syncs/export"]["sync_interval"] == "0 5 * * *"
    # A view is never built, and has no schedule.
    assert after["/transforms/view"]["cron_expression"] is None
    assert after["/transforms/view"]["rebuild_trigger"] == "none"
    assert all(after[path]["updated_at"] > before[path]["updated_at"] for path in paths)


def test_requested_runs_run_one_after_the_other(service: LocalService, api: Api) -> None:
    assert api.get("/orchestration_runs")["data"] == []
    service.runs({"minimum_duration": 0.2})
    runs = [api.post("/orchestrations/nightly/request_run") for _ in range(2)]
    assert [(run["status"], run["orchestration_id"]) for run in runs] == [("NOT_STARTED", "nightly")] * 2
    assert not any(run.get("started_at") for run in runs)
    first, second = (api.ended(f"/orchestration_runs/{run['id']}") for run in runs)
    assert first["status"] == second["status"] == "COMPLETED"
    assert first["due_at"] <= first["started_at"]
    assert first["finished_at"] <= second["started_at"]
    loads = journalled(service, "orders", 2)
    assert [load["orchestration_run_id"] for load in loads] == [run["id"] for run in runs]
    # The list has the newest first.
    third = api.run_orchestration(create(api, "Other"))
    listed = [entry["id"] for entry in api.all_pages("/orchestration_runs", limit=1)]
    assert listed == [third.id, second["id"], first["id"]]
    listed = [entry["id"] for entry in api.all_pages("/orchestration_runs", orchestration_id="nightly")]
    assert listed == [second["id"], first["id"]]


@pytest.mark.slow
def test_delete_while_runs_are_active_or_queued(service: LocalService, api: Api) -> None:
    ready = api.run_stream("people")
    # The table waits for the stream, and is not built before the deletion.
    sql = {"sql_template": "SELECT count(*) AS n FROM {{raw.shop.people}}"}
    api.client.patch("/transforms/table", json=sql).raise_for_status()
    api.post("/transforms/table/publish", {"wait_for_completion": True})
    api.post("/transforms/table/orchestration", ATTACHED)
    service.runs({"resources": {"people": {"minimum_duration": 2}}})
    first, second = (api.post("/orchestrations/nightly/request_run")["id"] for _ in range(2))
    api.until(f"/orchestration_runs/{first}", lambda run: run["status"] == "RUNNING")
    status_url = f"/elt_stream_runs?elt_stream_id=people&starting_after={ready.id}&limit=1&sort_direction=asc"
    api.until(status_url, lambda run: run["status"] == "RUNNING")
    builds = len(service.journal_runs("table"))

    api.delete("/orchestrations/nightly", cron_schedule="0 0 * * *")
    for run in (first, second):
        api.refused("GET", f"/orchestration_runs/{run}", 404)
    api.refused("GET", "/orchestration_runs?orchestration_id=nightly", 404)
    assert api.get("/orchestration_runs")["data"] == []
    # Parts that are running finish. No other part starts.
    assert api.ended(status_url)["status"] == "COMPLETED"
    journalled(service, "orders", 1)
    assert [run["status"] for run in service.journal_runs("nightly")] == ["GONE", "GONE"]
    assert len(service.journal_runs("table")) == builds
    assert len(service.journal_runs("orders")) == 1
    assert "The engine failed in one step" not in service.log


@pytest.mark.slow
def test_deleted_part_cancels_the_run(service: LocalService, api: Api) -> None:
    service.runs({"resources": {"orders": {"minimum_duration": 30}}})
    run = api.post("/orchestrations/nightly/request_run")["id"]
    api.until("/elt_stream_runs?elt_stream_id=orders", lambda load: load["status"] == "RUNNING")
    api.delete("/elt_streams/orders")
    assert api.ended(f"/orchestration_runs/{run}")["status"] == "CANCELED"
    assert journalled(service, "people", 1)[0]["status"] == "COMPLETED"
    assert api.run_orchestration("nightly").status == "COMPLETED"
