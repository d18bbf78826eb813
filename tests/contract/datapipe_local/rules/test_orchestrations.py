"""Tests of the rows of orchestrations in "States and transitions"."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.controlled import journalled
from tests.support.local_service import LocalService


def test_orchestration_delete(service: LocalService, data: Path) -> None:
    """Require a valid ``cron_schedule``, else 400. Attached resources fall back to that schedule."""
    api = Api(service)
    attached = {"orchestration_workflow_id": "nightly"}
    (data / "out").mkdir(exist_ok=True)
    for transform in ("table", "view"):
        api.post(f"/transforms/{transform}/publish", {"wait_for_completion": True})
        api.post(f"/transforms/{transform}/orchestration", attached)
    api.post("/reverse_etl_syncs/export/deactivate", status=204)
    export = api.get("/reverse_etl_syncs/export")
    definition = {name: export[name] for name in ("object_type_id", "operation", "settings")}
    api.post("/reverse_etl_syncs/export", {**definition, **attached})
    other = api.post("/orchestrations", {"name": "Other", "cron_schedule": "0 9 * * *"}, status=201)["id"]
    paths = ("/elt_syncs/shop", "/transforms/table", "/transforms/view", "/reverse_etl_syncs/export")
    before = {path: api.get(path) for path in paths}
    assert {body["orchestration_workflow_id"] for body in before.values()} == {"nightly"}

    api.refused("DELETE", "/orchestrations/nightly", 400)
    for wrong in ("", "nightly", "0 5 * *", "0 5 * * * *", "61 5 * * *", "@daily"):
        refused = api.refused("DELETE", "/orchestrations/nightly", 400, params={"cron_schedule": wrong})
        assert refused["error_code"] == "invalid_cron_expression"
    api.refused("DELETE", "/orchestrations/nowhere", 404, params={"cron_schedule": "0 5 * * *"})
    assert {path: api.get(path) for path in paths} == before

    gone = api.client.delete("/orchestrations/nightly", params={"cron_schedule": "0 5 * * *"})
    assert (gone.status_code, gone.content) == (204, b"")
    api.refused("GET", "/orchestrations/nightly", 404)
    api.refused("DELETE", "/orchestrations/nightly", 404, params={"cron_schedule": "0 5 * * *"})
    assert [entry["id"] for entry in api.get("/orchestrations")["data"]] == [other]
    after = {path: api.get(path) for path in paths}
    assert all("orchestration_workflow_id" not in body for body in after.values())
    assert after["/elt_syncs/shop"]["sync_interval"] == "0 5 * * *"
    assert after["/transforms/table"]["cron_expression"] == "0 5 * * *"
    assert after["/transforms/table"]["rebuild_trigger"] == "schedule"
    assert after["/reverse_etl_syncs/export"]["sync_interval"] == "0 5 * * *"
    # A view is computed whenever it is read, and can have no schedule.
    assert after["/transforms/view"]["cron_expression"] is None
    assert after["/transforms/view"]["rebuild_trigger"] == "none"
    assert all(after[path]["updated_at"] > before[path]["updated_at"] for path in paths)


def test_orchestration_request_run(service: LocalService) -> None:
    """Schedule and return a run of an existing orchestration, also during another run."""
    api = Api(service)
    api.refused("POST", "/orchestrations/nowhere/request_run", 404)
    api.refused("POST", "/orchestrations/nightly/request_run", 400, json={"surprise": 1})
    assert api.get("/orchestration_runs")["data"] == []

    service.runs({"minimum_duration": 0.2})
    runs = [OrchestrationRun.model_validate(api.post("/orchestrations/nightly/request_run")) for _ in range(2)]
    assert [run.status for run in runs] == ["NOT_STARTED", "NOT_STARTED"]
    assert all(run.orchestration_id == "nightly" and run.started_at is None for run in runs)
    ended = [OrchestrationRun.model_validate(api.ended(f"/orchestration_runs/{run.id}")) for run in runs]
    assert [run.status for run in ended] == ["COMPLETED", "COMPLETED"]
    assert ended[0].finished_at is not None
    assert ended[1].started_at is not None
    assert ended[0].finished_at <= ended[1].started_at
    listed = api.get("/orchestration_runs", orchestration_id="nightly")["data"]
    assert [entry["id"] for entry in listed] == [ended[1].id, ended[0].id]
    # They really ran what is attached.
    loads = journalled(service, "orders", 2)
    assert [load["orchestration_run_id"] for load in loads] == [run.id for run in ended]
