"""Tests of the examples in the docs against one local service."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.pipelines.plan import PlanNotEmptyError
from airflow_provider_datapipe.pipelines.workspace.applying import NotAppliedError
from airflow_provider_datapipe.pipelines.workspace.document import WorkspaceError
from datapipe_local.testing import DatapipeLocal
from datapipe_local.testing.clock import ServiceClock
from datapipe_local.testing.journal import Journal
from tests.contract.seeds import (
    FILES,
    OUT,
    ROWS,
    connect,
    elt_sync,
    mapped,
    page_blocks,
    page_tasks,
    reverse_etl_sync,
    transform,
)
from tests.support.airflow_versions import IMPORT_DAG_BAG
from tests.support.documents import ROOT, names_of, pages
from tests.support.local_service import LocalService
from tests.support.shell import bash
from tests.support.tasks import Memory, run

SECRET = "s3cret-of-the-settings"
PEOPLE = "SELECT 1 AS id, 'Ada' AS name"
ORDERS = "id,ordered_on\n0,2025-12-31\n1,2026-01-01\n2,2026-01-02\n3,2026-01-03\n"
SOURCES = {"orders.csv": ORDERS, "people.csv": ROWS, "customers.csv": ROWS}
SEED: dict[str, Any] = {
    "connections": [FILES | {"label": "Shop files"}, OUT | {"label": "CRM"}],
    "elt_syncs": [elt_sync("shop", "orders", "people", "gone"), elt_sync("closed", enabled=False)],
    "transforms": [
        transform("people", PEOPLE, folder_path="sales"),
        transform("adults", PEOPLE, folder_path="reports"),
        transform("customer_value", documentation="Old.", publish=False),
    ],
    "reverse_etl_syncs": [reverse_etl_sync("crm", "adults", object_type_id="adults", operation=mapped("id"))],
}


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, service, "shop")


def changes_tasks(module: str, **dag_arguments: Any) -> dict[str, Any]:
    """Return the tasks of the block of docs/changes.md that starts with the import of a module."""
    begin = f"from airflow_provider_datapipe.operators.{module} import "
    found = (block for block in page_blocks("changes.md") if block.first_line.startswith(begin))
    return page_tasks(found, **dag_arguments)


def environment(**more: str) -> dict[str, str]:
    """Return environment variables of a user, with the programs of this environment."""
    unwanted = ("AIRFLOW__", "AIRFLOW_HOME", "DATAPIPE", "PYTEST", "PYTHONDONTWRITEBYTECODE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return env | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"} | more


def test_changes_of_syncs_and_orchestrations() -> None:
    elt = changes_tasks("elt_syncs")
    assert list(elt) == ["sync", "streams"]
    sync, streams = run(elt["sync"]), run(elt["streams"])
    assert (sync["action"], sync["name"]) == ("created", "raw_shop")
    assert streams["details"]["added"] == ["orders", "customers"]
    assert streams["details"]["stream_ids"].keys() == {"orders", "customers"}
    assert (run(elt["sync"])["id"], run(elt["sync"])["action"]) == (sync["id"], "none")
    assert run(elt["streams"])["details"]["unchanged"] == ["orders", "customers"]

    assert run(changes_tasks("orchestrations")["nightly"])["action"] == "created"

    offered = changes_tasks("datapipe")["available"]
    offered.render_template_fields({"params": {"sync_id": sync["id"]}})
    assert [each["name"] for each in run(offered)] == ["customers", "orders", "people"]


def test_changes_of_reverse_etl_and_custom_reports() -> None:
    reverse = changes_tasks("reverse_etl_failed_records")
    assert list(reverse) == ["contacts", "hourly", "retry_timeouts"]
    made = run(reverse["contacts"])
    assert made["action"] == "created"
    for name in ("hourly", "retry_timeouts"):
        reverse[name].reverse_etl_sync_id = made["id"]
    hourly = run(reverse["hourly"])
    assert (hourly["action"], hourly["details"]["sync_interval"]) == ("updated", "0 * * * *")
    assert hourly["details"]["enabled"]
    assert run(reverse["retry_timeouts"])["details"] == {"failed_records": 0, "seen": 0, "requested": 0}

    reports, memory = changes_tasks("custom_reports")["reports"], Memory()
    reported = run(reports, memory)
    assert [one["action"] for one in reported["reports"]] == ["created", "failed"]
    assert reported["reports"][0]["source_stream_name"] == "big_orders"
    assert [one["action"] for one in run(reports)["reports"]] == ["none", "failed"]
    # Without tolerated errors the task fails, but still returns its result.
    reports.tolerated_errors = []
    with pytest.raises(Exception, match="1 of 2 custom reports were not created: 'Big Orders' of ELT sync gone"):
        run(reports, memory)
    assert memory.pushed["return_value"]["failed"] == 1


def test_changes_of_transforms_and_queries(tmp_path: Path) -> None:
    def tasks(module: str, ds: str = "2026-01-02") -> dict[str, Any]:
        found = changes_tasks(module, template_searchpath=[str(tmp_path)])
        for task in found.values():
            context: Any = {"ds": ds, "params": dict(task.params)}
            task.render_template_fields(context, task.dag.get_template_env())
        return found

    run(EltStreamRunOperator(task_id="load", stream_id="shop.orders"))
    (tmp_path / "models" / "sales").mkdir(parents=True)
    (tmp_path / "models" / "sales" / "orders.sql").write_text("SELECT * FROM {{model.sales.daily_orders}}")

    transforms = tasks("transform_folders")
    daily = run(transforms["daily"])
    assert (daily["name"], daily["action"], daily["published"]) == ("sales/daily_orders", "created", True)
    assert (daily["kind"], daily["status"], daily["outcome"]) == ("transform", "completed", "succeeded")
    again = run(transforms["daily"])
    assert (again["action"], again["changed"], again["published"]) == ("none", False, False)
    # A DAG run of an earlier day does not change the transform.
    earlier = run(tasks("transform_folders", ds="2026-01-01")["daily"])
    assert (earlier["action"], earlier["published"]) == ("none", False)
    assert run(transforms["models"])["transforms"]["sales/orders"]["result"] == "created"

    queries = tasks("query_previews")
    newest = run(queries["newest_orders"])
    assert [row["id"] for row in newest["rows"]] == [3, 2, 1]
    assert newest["is_complete"]
    assert all(run(queries[check])["passed"] for check in ("complete", "unique_ids", "row_count"))


@pytest.mark.slow
def test_runs_of_every_kind(service: LocalService, folder: Path) -> None:
    run(changes_tasks("orchestrations")["nightly"])
    tasks = page_tasks(page_blocks("running.md", "python"))
    done = {name: run(task) for name, task in tasks.items()}
    for name in ("orders", "by_name", "reload", "nightly", "publish", "rebuild", "send"):
        assert (name, done[name]["outcome"]) == (name, "succeeded")
    streams = {name: each["outcome"] for name, each in done["all_streams"]["streams"].items()}
    assert streams == {"orders": "succeeded", "people": "succeeded", "gone": "failed"}
    assert done["two_streams"]["streams"].keys() == {"orders", "people"}
    # One run for each task that loads the stream: orders, by_name, reload, all_streams, two_streams.
    assert len([each for each in service.journal_runs("shop.orders") if each["trigger"] == "request"]) == 5
    assert done["retry_timeouts"]["details"]["failed_records"] == 0
    assert json.loads((folder / "out" / "adults.jsonl").read_text()) == {"id": 1}


def names_of_hook_page(file: str) -> dict[str, Any]:
    (block,) = (block for block in page_blocks("hook.md") if block.file == file)
    return names_of(block.text)


def test_tasks_with_the_hook() -> None:
    load = EltStreamRunOperator(task_id="load", stream_id="shop.orders", poll_interval=0.05)
    loaded = {run(load)["run_id"] for _ in range(4)}
    tasks = {task.task_id: task for task in names_of_hook_page("dags/inventory.py")["dag"].tasks}
    assert run(tasks["disabled_syncs"]) == ["closed"]
    rows = run(tasks["rows_of_the_last_runs"])
    assert (set(rows.values()), set(rows) < loaded, len(rows)) == ({4}, True, 3)
    assert run(tasks["documented"]) == "Old."
    assert run(tasks["documented"]) == "One row for each customer."


def test_coroutines_with_the_hook() -> None:
    names = names_of_hook_page("plugins/counts.py")
    counts = {"syncs": len(SEED["elt_syncs"]), "transforms": len(SEED["transforms"])}
    assert asyncio.run(names["count_resources"]()) == counts
    assert [asyncio.run(names["is_enabled"](sync)) for sync in ("shop", "closed")] == [True, False]


def test_introduction_of_the_interface() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", pages()["docs/interface_introduction.md"], re.DOTALL)
    names = names_of(code)
    assert (names["transform"].name, names["transform"].sql_template) == ("orders", "SELECT 1")


def test_page_lists_all_public_methods_of_the_hook() -> None:
    table = pages()["docs/hook.md"].partition("| Method |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.removeprefix("| ").partition("|")[0].replace("await ", "") for row in table]
    names = {name.partition("(")[0] for cell in cells for name in cell.split("`") if "(" in name}
    # Methods for operators, triggers and Airflow.
    inner = {"run", "run_concurrently", "aget_settings", "test_connection"}
    there = {name for name, each in vars(DatapipeHook).items() if callable(each) and not name.startswith("_")}
    assert names == there - inner


MIGRATION_DAGS = ("http_operator", "poller", "moved")
#: Each example runs once normally, and once with a lost response to the request for a run.
RUN_ALL = """
import json, sys
import httpx
from airflow.utils.db import initdb

initdb()
service = httpx.Client(base_url=sys.argv[1], headers={"x-api-key": sys.argv[2]})
bag = DagBag(sys.argv[3])
assert not bag.import_errors, bag.import_errors
lost = [{"path": "/elt_streams/*/request_run", "drop": True, "when": "after"}]
said = {}
for name in sys.argv[4:]:
    for case, faults in (("", []), ("lost", lost)):
        service.put("/_local/faults", json=faults).raise_for_status()
        before = service.get("/_local/journal", params={"kind": "runs"}).json()["total"]
        state = str(bag.dags[name].test().state)
        after = service.get("/_local/journal", params={"kind": "runs"}).json()["total"]
        said[f"{name} {case}".strip()] = [state, after - before]
print("said:", json.dumps(said))
"""


@pytest.mark.slow
def test_migration_before_and_after(service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, service, retry_budget=60)
    dags = ROOT / "docs" / "migration"
    http: dict[str, Any] = {"conn_type": "http", "host": service.base_url, "extra": service.headers}
    env = environment(
        AIRFLOW_HOME=str(tmp_path / "airflow"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(dags),
        AIRFLOW_CONN_SERVICE_HTTP=json.dumps(http),
    )
    arguments = [service.base_url, service.api_key, str(dags), *MIGRATION_DAGS]
    program = [sys.executable, "-c", IMPORT_DAG_BAG + RUN_ALL, *arguments]
    done = subprocess.run(program, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - our own docs
    said = re.search("^said: (.*)$", done.stdout, re.MULTILINE)
    assert said, done.stdout[-3000:] + done.stderr[-3000:]
    assert json.loads(said[1]) == {
        **{name: ["success", 1] for name in MIGRATION_DAGS},
        # The run was executed and the task has failed, so the retry starts another run.
        "http_operator lost": ["failed", 1],
        "poller lost": ["failed", 1],
        "moved lost": ["success", 1],
    }


def test_migration_page_includes_the_dags() -> None:
    included = re.findall(r"^```\{literalinclude\} migration/(\w+)\.py$", pages()["docs/migration.md"], re.MULTILINE)
    assert sorted(included) == sorted(MIGRATION_DAGS)


@pytest.mark.slow
def test_project_of_the_testing_page_passes_its_tests(tmp_path: Path) -> None:
    page = page_blocks("testing.md")
    install, make, command = (block.text.strip() for block in page if block.language == "sh")
    assert install == "pip install 'airflow-provider-datapipe[local]' pytest"
    env = {name: value for name, value in environment().items() if not name.startswith("AIRFLOW")}
    bash(make, tmp_path, env)
    for block in page:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
    passed = re.findall(r"^tests/test_\w+\.py::(\w+) PASSED", bash(f"{command} -v", tmp_path, env), re.MULTILINE)
    assert len(passed) == 4


def test_first_test_of_the_testing_page_is_short() -> None:
    (test,) = (block for block in page_blocks("testing.md") if block.file == "tests/test_shop.py")
    assert len(test.text.splitlines()) <= 10


def test_table_of_the_fixture_is_complete() -> None:
    table = pages()["docs/testing.md"].partition("## Fixture")[2].partition("## Test failures")[0]
    reported = set(re.findall(r"`(?:datapipe_local\.)?([a-z_.]+)[(`]", table))
    there = {name for name in vars(DatapipeLocal) if not name.startswith("_")}
    assert there <= reported, there - reported
    for kind, name in ((Journal, "journal"), (ServiceClock, "clock")):
        for found in re.findall(rf"`{name}\.(\w+)\(", table):
            assert hasattr(kind, found), found


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (block,) = page_blocks("workspace.md", "yaml")
    path = tmp_path / "workspace.yaml"
    path.write_text(block.text)
    return path


def workspace_tasks(file: Path, token: Any = SECRET) -> dict[str, Any]:
    tasks = page_tasks(page_blocks("workspace.md", "python"), template_searchpath=str(file.parent))
    for task in tasks.values():
        task.environment = {"SHOP_TOKEN": token}
    return tasks


@pytest.mark.slow
def test_commands_of_the_workspace_page(workspace: Path) -> None:
    (block,) = page_blocks("workspace.md", "sh")
    said = bash(f"( {block.text} ) 2>&1", workspace.parent, environment(SHOP_TOKEN=SECRET))
    assert "5 to create." in said
    # The other resources are not in the file.
    assert "5 created, 3 unchanged." in said
    assert said.endswith("Nothing to do.\n")
    assert SECRET not in said
    schema = json.loads((workspace.parent / "workspace.schema.json").read_text())
    assert {"elt_syncs", "orchestrations"} < schema["properties"].keys()


@pytest.mark.slow
def test_invalid_workspace_is_reported_as_the_page_shows(workspace: Path) -> None:
    workspace.write_text(workspace.read_text().replace("0 2 * * *", "daily"))
    command = "datapipe plan --connection shop --workspace workspace.yaml 2>&1 || test $? = 1"
    assert bash(command, workspace.parent, environment()) == page_blocks("workspace.md", "text")[0].text


@pytest.mark.slow
def test_tasks_of_the_workspace_page_plan_and_apply(workspace: Path) -> None:
    drift, apply = workspace_tasks(workspace).values()
    plan = run(drift)
    assert (plan["changed"], plan["counts"]["create"]) == (True, 5)
    drift.fail_on_changes, memory = "True", Memory()
    with pytest.raises(PlanNotEmptyError, match=r"does not match .*workspace.yaml: 5 resources differ"):
        run(drift, memory)
    assert memory.pushed["return_value"] == plan
    report = run(apply)
    assert (report["failed"], report["counts"]["created"]) == (False, 5)
    assert run(drift)["changed"] is False
    assert run(apply)["counts"] == {**dict.fromkeys(report["counts"], 0), "unchanged": 8}
    assert SECRET not in json.dumps([plan, report])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("token", "error"),
    [
        # Native rendering turns the text into a number.
        (20261122, None),
        (2.5, r"environment\['SHOP_TOKEN'\] must be a text, not float"),
        (None, "the environment variable SHOP_TOKEN is not set"),
    ],
)
def test_workspace_variable_of_digits_may_be_a_number(workspace: Path, token: Any, error: str | None) -> None:
    drift = workspace_tasks(workspace, token)["drift"]
    if error is None:
        assert run(drift)["changed"] is True
    else:
        with pytest.raises((ValueError, WorkspaceError), match=error):
            run(drift)


@pytest.mark.slow
def test_failed_workspace_task_has_its_report(workspace: Path) -> None:
    apply = workspace_tasks(workspace)["apply"]
    workspace.write_text(workspace.read_text().replace("- orders", "- nothing"))
    memory = Memory()
    problem = r"1 resource failed. elt_stream raw_shop.nothing: .*the source offers no"
    with pytest.raises(NotAppliedError, match=problem):
        run(apply, memory)
    assert memory.pushed["return_value"]["counts"]["created"] == 4
    apply.environment = None
    with pytest.raises(WorkspaceError, match="the environment variable SHOP_TOKEN is not set"):
        run(apply)
