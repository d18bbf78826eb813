"""Transforms as code: what `plan`, `deploy` and `pull` do, with the local service."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from airflow_provider_datapipe.cli.program import main
from tests.support.local_service import LocalService

SEED = {
    "runs": {"minimum_duration": 0.05},
    "orchestrations": [
        {"id": "night", "name": "Nightly", "cron_schedule": "0 2 * * *"},
        {"id": "twin.1", "name": "Twins", "cron_schedule": "0 2 * * *"},
        {"id": "twin.2", "name": "Twins", "cron_schedule": "0 2 * * *"},
    ],
}
FILES = {
    "staging/orders.sql": "SELECT 1 AS id, 'paid' AS status\n",
    "marts/paid.sql": """-- ---
-- materialization: table
-- schedule: 0 4 * * *
-- orchestration: Nightly
-- documentation: |
--   Who has paid.
--   */ -- all of it
-- checks:
--   - not_null: id
--   - unique: id
--   - accepted_values: {column: status, values: [paid]}
--   - SELECT count(*) > 0 FROM {{this}}
-- ---
SELECT * FROM {{model.staging.orders}} -- the last
;
""",
    "marts/odd name.sql": "-- ---\n-- name: top\n-- folder: ''\n-- ---\nSELECT id FROM {{model.marts.paid}}\n",
}


@pytest.fixture(scope="module")
def running() -> Iterator[LocalService]:
    with LocalService(SEED, control=True) as service:
        yield service


@pytest.fixture
def service(running: LocalService) -> LocalService:
    running.reset()
    return running


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Say = Callable[..., Said]


@pytest.fixture
def say(
    service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Say:
    """Give what runs a command on the folder `models`."""
    monkeypatch.setenv("DATAPIPE_API_KEY", service.api_key)
    (tmp_path / "models").mkdir()

    def run(command: str, *options: str) -> Said:
        common = ["--base-url", service.base_url, "--quiet", "--transforms", str(tmp_path / "models")]
        status = main([command, *common, *options])
        captured = capsys.readouterr()
        return Said(status, captured.out, captured.err)

    return run


@pytest.fixture
def models(tmp_path: Path, say: Say) -> Path:
    """Give the folder, with some files."""
    folder = tmp_path / "models"
    put(folder, FILES)
    return folder


def put(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())


def asked(service: LocalService, method: str, path: str, **more: Any) -> Any:
    answer = httpx.request(method, f"{service.base_url}{path}", headers=service.headers, **more).raise_for_status()
    return answer.json() if answer.content else None


def held(service: LocalService) -> dict[str, dict[str, Any]]:
    listed = asked(service, "GET", "/transforms?limit=100")["data"]
    return {f"{each['folder_path']}/{each['name']}".lstrip("/"): each for each in listed}


def changes(service: LocalService) -> list[str]:
    requests = service.journal_requests()
    return [f"{each['method']} {each['path']}" for each in requests if each["method"] != "GET"]


def actions(said: Said) -> dict[str, str]:
    return {each["name"]: each["action"] for each in said.json["items"]}


def results(said: Said) -> dict[str, str]:
    return {each["name"]: each["result"] for each in said.json["items"]}


def test_a_folder_is_planned_deployed_and_then_as_it_says(service: LocalService, say: Say, models: Path) -> None:
    planned = say("plan", "--format", "json")
    assert planned.status == 3, planned
    # In the order in which they are created.
    assert [each["name"] for each in planned.json["items"]] == ["staging/orders", "marts/paid", "top"]
    assert set(actions(planned).values()) == {"create"}
    assert changes(service) == []
    deployed = say("deploy", "--format", "json")
    assert deployed.status == 0, deployed
    assert results(deployed) == {"marts/paid": "created", "staging/orders": "created", "top": "created"}
    paid = held(service)["marts/paid"]
    assert (paid["materialization"], paid["materialization_status"]) == ("table", "completed")
    assert (paid["cron_expression"], paid["orchestration_workflow_id"]) == ("0 4 * * *", "night")
    assert paid["documentation"] == "Who has paid.\n*/ -- all of it\n"
    assert paid["sql_template"].startswith("SELECT * FROM")
    planned = say("plan")
    assert (planned.status, planned.out) == (0, "Nothing to do.\n")
    before = changes(service)
    assert say("deploy").out == "3 unchanged.\n"
    assert changes(service) == before
