"""Tests of orchestrations: the order of attached resources, and the effect of a failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.orchestrations import Orchestration, OrchestrationRun
from tests.contract.datapipe_local.api import Api
from tests.support.local_service import LocalService

ATTACHED = {"orchestration_workflow_id": "nightly"}


def reverse(sync_id: str, source_id: str) -> dict[str, Any]:
    mappings = [{"source_property_id": "n", "destination_property_id": "n", "primary_key": True}]
    return {
        "id": sync_id,
        "source_id": source_id,
        "destination_connection_id": "exports",
        "object_type_id": sync_id,
        "operation": {"mode": "upsert", "mappings": mappings},
        **ATTACHED,
    }


def transform(name: str, sql: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "sql_template": sql, **more}


@pytest.fixture(scope="module")
def service(data: Path) -> Iterator[LocalService]:
    def sync(name: str, file: str, **more: Any) -> dict[str, Any]:
        return {
            "id": name,
            "connection_id": "data",
            "destination_schema_name": name,
            "source_streams": [{"id": f"{name}.all", "name": "all_rows", "file": file}],
            **more,
        }

    seed = {
        "connections": [
            {"id": "data", "integration_id": "files", "label": "Data", "settings": {"path": str(data)}},
            {"id": "exports", "integration_id": "jsonl", "label": "Exports", "settings": {"path": "./exports"}},
        ],
        "orchestrations": [
            {"id": "weekly", "name": "weekly", "cron_schedule": "0 2 * * 0"},
            {"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"},
            {"id": "always", "name": "Always", "cron_schedule": "* * * * *"},
        ],
        "elt_syncs": [
            sync("good", "changing.csv", **ATTACHED),
            sync("bad", "fickle.csv", **ATTACHED),
            sync("paused", "nowhere.csv", enabled=False, **ATTACHED),
            sync("apart", "nowhere.csv"),
        ],
        "transforms": [
            # Attached in the wrong order on purpose, and with one in between that is not attached.
            transform("top", "SELECT * FROM {{model.mid}}", materialization="table", **ATTACHED),
            transform("mid", "SELECT * FROM {{model.base}}"),
            transform("base", "SELECT count(*) AS n FROM {{raw.good.all_rows}}", materialization="table", **ATTACHED),
            transform("of_bad", "SELECT count(*) AS n FROM {{raw.bad.all_rows}}", materialization="table", **ATTACHED),
            transform("draft", "SELECT nope", **ATTACHED),
        ],
        "reverse_etl_syncs": [reverse("top_out", "top"), reverse("bad_out", "of_bad")],
    }
    (data / "changing.csv").write_text("a\n1\n")
    (data / "fickle.csv").write_text("a\n1\n")
    with LocalService(seed) as service:
        api = Api(service)
        for stream in ("good.all", "bad.all"):
            assert api.run_stream(stream).status == "COMPLETED"
        for name in ("base", "mid", "top", "of_bad"):
            api.post(f"/transforms/{name}/publish", {"wait_for_completion": True})
        yield service
        assert "Traceback" not in service.log


def exported(service: LocalService, sync_id: str) -> list[int]:
    file = service.folder / "exports" / f"{sync_id}.jsonl"
    return [json.loads(line)["n"] for line in file.read_text().splitlines()] if file.exists() else []


def test_a_run_takes_everything_through_in_order(service: LocalService, data: Path) -> None:
    api = Api(service)
    names = [Orchestration.model_validate(entry).name for entry in api.all_pages("/orchestrations", limit=2)]
    assert names == ["Always", "Nightly", "weekly"]
    assert api.get("/orchestrations/nightly")["name"] == "Nightly"

    # The new rows arrive at the end only if every stage saw the one before it.
    (data / "changing.csv").write_text("a\n1\n2\n3\n")
    run = api.run_orchestration("nightly")
    assert run.status == "COMPLETED"
    assert run.started_at is not None
    assert run.due_at <= run.started_at
    assert exported(service, "top_out") == [3]
    assert exported(service, "bad_out") == [1]
    assert api.get("/elt_stream_runs", elt_stream_id="apart.all")["data"] == []
    assert api.get("/elt_stream_runs", elt_stream_id="paused.all")["data"] == []

    # A failure stops what depends on it, and nothing else.
    (data / "fickle.csv").unlink()
    (data / "changing.csv").write_text("a\n" + "1\n" * 5)
    built_before = api.get("/transforms/of_bad")["updated_at"]
    assert api.run_orchestration("nightly").status == "FAILED"
    assert exported(service, "top_out") == [3, 5]
    assert len(api.get("/reverse_etl_sync_runs", reverse_etl_sync_id="bad_out")["data"]) == 1
    assert api.get("/transforms/of_bad")["updated_at"] == built_before

    # The list is by due date, the newest first.
    api.run_orchestration("weekly")
    runs = [OrchestrationRun.model_validate(entry) for entry in api.all_pages("/orchestration_runs", limit=1)]
    assert [entry.orchestration_id for entry in runs] == ["weekly", "nightly", "nightly"]
    assert [entry.status for entry in runs] == ["COMPLETED", "FAILED", "COMPLETED"]
    assert len(api.all_pages("/orchestration_runs", orchestration_id="nightly")) == 2


def test_two_requests_make_two_runs_one_after_the_other(service: LocalService, data: Path) -> None:
    (data / "fickle.csv").write_text("a\n1\n")
    api = Api(service)
    loads = len(api.all_pages("/elt_stream_runs", elt_stream_id="good.all"))
    first, second = (api.post("/orchestrations/nightly/request_run") for _ in range(2))
    assert first["id"] != second["id"]
    ended = [OrchestrationRun.model_validate(api.ended(f"/orchestration_runs/{run['id']}")) for run in (first, second)]
    assert [run.status for run in ended] == ["COMPLETED", "COMPLETED"]
    assert ended[0].finished_at is not None
    assert ended[1].started_at is not None
    assert ended[0].finished_at <= ended[1].started_at
    assert len(api.all_pages("/elt_stream_runs", elt_stream_id="good.all")) == loads + 2


def test_somebody_elses_run_is_waited_for(service: LocalService) -> None:
    api = Api(service)
    loads = len(api.all_pages("/elt_stream_runs", elt_stream_id="good.all"))
    url = api.post("/elt_streams/good.all/request_run")["status_url"]
    assert api.run_orchestration("nightly").status == "COMPLETED"
    assert api.ended(url)["status"] == "COMPLETED"
    assert len(api.all_pages("/elt_stream_runs", elt_stream_id="good.all")) == loads + 2
