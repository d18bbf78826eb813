"""Tests of workspaces and paused schedules with datapipe-local, which omits the same fields as the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_datapipe.cli.program import main
from airflow_provider_datapipe.operators.schedule import (
    ScheduleNoteOperator,
    SchedulePutBackOperator,
    ScheduleTakeOffOperator,
)
from tests.support.local_service import LocalService
from tests.support.tasks import run
from tests.support.workspaces import destination, operation, source

ATTACHED = {"orchestration_workflow_id": "nightly"}
SEED: dict[str, Any] = {
    "connections": [source("in", "Shop"), destination("out", "CRM")],
    "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
    "elt_syncs": [
        {
            "id": "raw",
            "connection_id": "in",
            "destination_schema_name": "raw",
            "sync_interval": "0 3 * * *",
            "source_streams": [{"id": "raw.orders", "name": "orders", "table": "orders", "sync_interval": "0 * * * *"}],
            **ATTACHED,
        }
    ],
    "transforms": [{"id": "people", "name": "people", "publish": True, "sql_template": "SELECT 1 AS id, 'x' AS name"}],
    "reverse_etl_syncs": [
        {
            "id": "things",
            "source_id": "people",
            "destination_connection_id": "out",
            "object_type_id": "things",
            "operation": operation(),
            "sync_interval": "0 5 * * *",
            **ATTACHED,
        }
    ],
}
WORKSPACE = """\
orchestrations:
  - {name: Nightly, cron_schedule: 0 2 * * *}
elt_syncs:
  - connection_label: Shop
    destination_schema_name: raw
    sync_interval: 0 3 * * *
    orchestration: Nightly
    source_streams: [{name: orders, sync_interval: 0 * * * *}]
reverse_etl_syncs:
  - transform: people
    destination_connection_label: CRM
    object_type_id: things
    sync_interval: 0 5 * * *
    orchestration: Nightly
"""


@pytest.fixture(scope="module", params=[False, True], ids=["newer", "older"])
def running(request: pytest.FixtureRequest) -> Iterator[LocalService]:
    with LocalService(SEED | {"responses": {"older_description": request.param}}, control=True) as service:
        yield service


@pytest.fixture
def service(running: LocalService, monkeypatch: pytest.MonkeyPatch) -> LocalService:
    running.reset()
    connection = {"conn_type": "datapipe", "host": running.base_url, "password": running.api_key}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("DATAPIPE_API_KEY", running.api_key)
    return running


def command(service: LocalService, *arguments: str) -> int:
    return main([*arguments, "--base-url", service.base_url])


def changes(service: LocalService) -> list[str]:
    return [f"{one['method']} {one['path']}" for one in service.journal_requests() if one["method"] != "GET"]


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    file = tmp_path / "workspace.yaml"
    file.write_text(WORKSPACE)
    return str(file)


def test_plan_and_apply_of_what_is_there_change_nothing(service: LocalService, workspace: str) -> None:
    assert command(service, "plan", "--workspace", workspace) == 0
    assert command(service, "apply", "--workspace", workspace) == 0
    assert changes(service) == []


def test_pull_changes_no_file_that_is_up_to_date(service: LocalService, workspace: str) -> None:
    assert command(service, "pull", "--workspace", workspace) == 0
    assert Path(workspace).read_text() == WORKSPACE


def test_apply_detaches_a_sync_with_the_schedule_of_the_file(service: LocalService, workspace: str) -> None:
    text = WORKSPACE.replace("0 3", "30 3").replace(
        "    orchestration: Nightly\n    source", "    orchestration: null\n    source"
    )
    Path(workspace).write_text(text)
    assert command(service, "apply", "--workspace", workspace) == 0
    assert command(service, "plan", "--workspace", workspace) == 0
    assert changes(service) == ["POST /elt_syncs/raw", "DELETE /elt_syncs/raw/orchestration"]


def test_the_schedule_of_an_attached_sync_is_restored(service: LocalService) -> None:
    path = f"{service.base_url}/elt_syncs/raw"
    before = httpx.get(path, headers=service.headers).json()
    noted = run(ScheduleNoteOperator(task_id="note", elt_sync_id="raw", cron_schedule="0 3 * * *"))
    run(ScheduleTakeOffOperator(task_id="take_off", noted=noted))
    meanwhile = httpx.get(path, headers=service.headers).json()
    assert ("orchestration_workflow_id" in meanwhile, meanwhile["sync_interval"]) == (
        False,
        noted["held"]["sync_interval"],
    )
    run(SchedulePutBackOperator(task_id="put_back", noted=noted))
    after = httpx.get(path, headers=service.headers).json()
    assert after["orchestration_workflow_id"] == before["orchestration_workflow_id"] == "nightly"
    detached = httpx.delete(f"{path}/orchestration", headers=service.headers).json()
    assert detached["sync_interval"] == "0 3 * * *"
