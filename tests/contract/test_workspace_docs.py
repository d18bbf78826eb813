"""Tests of the page about workspaces, against the local service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_datapipe.pipelines.plan import PlanNotEmptyError
from airflow_provider_datapipe.pipelines.workspace.applying import NotAppliedError
from airflow_provider_datapipe.pipelines.workspace.document import WorkspaceError
from tests.support.documents import Block, blocks
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, run

pytestmark = pytest.mark.slow


SECRET = "s3cret-of-the-settings"
PEOPLE = {
    "id": "people",
    "name": "people",
    "folder_path": "sales",
    "sql_template": "SELECT 1 AS id, 'x' AS name",
    "publish": True,
}


def page(language: str) -> list[Block]:
    return [block for block in blocks() if block.page == "docs/workspace.md" and block.language == language]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    folder = tmp_path_factory.mktemp("shop")
    for name in ("orders", "customers"):
        (folder / f"{name}.csv").write_text("id,name\n1,x\n")
    connections = [
        {"id": "shop", "integration_id": "files", "label": "Shop files", "settings": {"path": str(folder)}},
        {"id": "crm", "integration_id": "jsonl", "label": "CRM", "settings": {"path": str(folder / "out")}},
    ]
    with LocalService({"connections": connections, "transforms": [PEOPLE]}, control=True) as running:
        yield running


@pytest.fixture
def environment(running: LocalService, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Reset the service to its seed, and create the connections that the page names."""
    running.reset()
    connection = json.dumps({"conn_type": "datapipe", "host": running.base_url, "password": running.api_key})
    for name in ("SHOP", "DATAPIPE_DEFAULT"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", connection)
    return {
        **os.environ,
        "SHOP_TOKEN": SECRET,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (block,) = page("yaml")
    path = tmp_path / "workspace.yaml"
    path.write_text(block.text)
    return path


def test_the_commands_of_the_page_do_as_it_says(environment: dict[str, str], file: Path) -> None:
    (block,) = page("sh")
    done = subprocess.run(  # noqa: S603 - our own docs
        ["bash", "-euo", "pipefail", "-c", block.text],  # noqa: S607
        cwd=file.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "5 to create." in done.stdout
    assert "5 created." in done.stdout
    assert done.stdout.endswith("Nothing to do.\n")
    assert SECRET not in done.stdout + done.stderr
    assert {"elt_syncs", "orchestrations"} < json.loads((file.parent / "workspace.schema.json").read_text())[
        "properties"
    ].keys()


def test_what_is_wrong_is_told_as_the_page_shows(file: Path, environment: dict[str, str]) -> None:
    file.write_text(file.read_text().replace("0 2 * * *", "daily"))
    del environment["SHOP_TOKEN"]
    command = [sys.executable, "-m", "airflow_provider_datapipe.cli", "plan", "--connection", "shop"]
    done = subprocess.run(  # noqa: S603 - our own
        [*command, "--workspace", file.name],
        cwd=file.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == page("text")[0].text


def tasks(file: Path) -> dict[str, Any]:
    (block,) = page("python")
    names: dict[str, Any] = {}
    with DAG("page", schedule=None, template_searchpath=str(file.parent)) as dag:
        exec(block.text, names)  # noqa: S102 - our own docs
    return {task.task_id: task for task in dag.topological_sort()}


def test_the_tasks_of_the_page_plan_and_apply(environment: dict[str, str], file: Path) -> None:
    drift, apply = tasks(file).values()
    drift.environment = apply.environment = {"SHOP_TOKEN": SECRET}
    plan = run(drift)
    assert (plan["changed"], plan["counts"]["create"]) == (True, 5)
    drift.fail_on_changes, memory = "True", Memory()
    with pytest.raises(PlanNotEmptyError, match=r"workspace.yaml says: 5 things differ"):
        run(drift, memory)
    assert memory.pushed["return_value"] == plan
    report = run(apply)
    assert (report["failed"], report["counts"]["created"]) == (False, 5)
    assert run(drift)["changed"] is False
    assert run(apply)["counts"] == {**dict.fromkeys(report["counts"], 0), "unchanged": 5}
    assert SECRET not in json.dumps([plan, report])


def test_a_value_of_digits_may_have_become_a_number(environment: dict[str, str], file: Path) -> None:
    drift = tasks(file)["drift"]
    # As a DAG makes it that renders native objects.
    drift.environment = {"SHOP_TOKEN": 20261122}
    assert run(drift)["changed"] is True
    drift.environment = {"SHOP_TOKEN": 2.5}
    with pytest.raises(ValueError, match=r"environment\['SHOP_TOKEN'\] must be a text, not float"):
        run(drift)
    drift.environment = {"SHOP_TOKEN": None}
    with pytest.raises(WorkspaceError, match="the environment variable SHOP_TOKEN is not set"):
        run(drift)


def test_a_task_that_fails_has_its_report_all_the_same(environment: dict[str, str], file: Path) -> None:
    apply = tasks(file)["apply"]
    apply.environment = None
    with pytest.raises(WorkspaceError, match="the environment variable SHOP_TOKEN is not set"):
        run(apply)
    apply.environment = {"SHOP_TOKEN": SECRET}
    file.write_text(file.read_text().replace("- orders", "- nothing"))
    memory = Memory()
    with pytest.raises(NotAppliedError, match=r"1 thing failed. elt_stream raw_shop.nothing: .*the source offers no"):
        run(apply, memory)
    assert memory.pushed["return_value"]["counts"]["created"] == 4
