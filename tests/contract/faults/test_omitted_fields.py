"""
Tests of services that omit schedule fields: no repeated requests, and one warning about unknown fields.

The first tests use a service that is written from the interface description alone, the last ones datapipe-local.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_provider_datapipe.cli.program import main
from airflow_provider_datapipe.operators.elt_streams import EltStreamClearIntervalOperator, EltStreamSetIntervalOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncCreateOperator, EltSyncUpdateOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationCreateOperator, OrchestrationUpdateOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlSyncUpdateOperator
from airflow_provider_datapipe.operators.schedules import (
    SchedulePauseOperator,
    ScheduleRestoreOperator,
    ScheduleSnapshotOperator,
)
from airflow_provider_datapipe.operators.transform_folders import TransformBulkDeployOperator
from airflow_provider_datapipe.operators.transforms import TransformDeployOperator, TransformDetachOperator
from airflow_provider_datapipe.operators.workspaces import WorkspaceApplyOperator, WorkspacePlanOperator
from airflow_provider_datapipe.resources.schedule_kinds import ScheduleNotPausableError
from tests.contract.seeds import NIGHTLY, changes, connect, elt_sync, reverse_etl_sync, send, transform
from tests.support.local_service import LocalService
from tests.support.omitting_service import OmittingService
from tests.support.tasks import Memory, run
from tests.support.workspaces import destination, operation, source

Serve = Callable[..., Any]

#: Schedule that no resource of the service has.
NEW = "0 9 * * *"
WORKSPACE = """\
orchestrations:
  - name: Nightly
    cron_schedule: 0 2 * * *
elt_syncs:
  - connection_label: Files
    destination_schema_name: shop
    sync_interval: 0 3 * * *
    orchestration: Nightly
    source_streams:
      - name: orders
        sync_interval: 0 * * * *
reverse_etl_syncs:
  - transform: people
    destination_connection_label: CRM
    object_type_id: contacts
    sync_interval: 0 5 * * *
    orchestration: Nightly
"""


@pytest.fixture(params=[False, True], ids=["newer", "older"])
def service(request: pytest.FixtureRequest, serve: Serve) -> Any:
    return serve(OmittingService(older=request.param), poll_interval=0.05)


@pytest.fixture
def older(serve: Serve) -> Any:
    return serve(OmittingService(older=True), poll_interval=0.05)


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the API key of commands, and redirect the log of operators to pytest, for all versions of Airflow."""
    monkeypatch.setenv("DATAPIPE_API_KEY", "a-key")
    monkeypatch.setattr(BaseOperator, "log", logging.getLogger("operators"), raising=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    file = tmp_path / "workspace.yaml"
    file.write_text(WORKSPACE)
    return file


def command(service: OmittingService | LocalService, *arguments: str) -> int:
    return main([*arguments, "--base-url", service.url if isinstance(service, OmittingService) else service.base_url])


def plan(service: OmittingService | LocalService, workspace: Path) -> int:
    return command(service, "plan", "--workspace", str(workspace))


def apply(service: OmittingService | LocalService, workspace: Path) -> int:
    return command(service, "apply", "--workspace", str(workspace))


def changed_sync(schedule: str, other: str) -> str:
    """Return the workspace whose ELT sync has another schedule, and another line instead of its orchestration."""
    return WORKSPACE.replace("0 3", schedule).replace("orchestration: Nightly\n    source", f"{other}\n    source")


def detached(schedule: str) -> str:
    """Return the workspace whose ELT sync has another schedule and no orchestration."""
    return changed_sync(schedule, "orchestration: null")


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [text for text in texts if "does not show" in text]


def test_apply_sends_no_request_for_unknown_schedules(service: OmittingService, workspace: Path) -> None:
    for _ in range(2):
        assert apply(service, workspace) == 0
    assert service.changes == []


def test_plan_exits_with_0_and_names_each_unknown_field_once(
    service: OmittingService, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(service, workspace) == 0
    output = capsys.readouterr().out
    fields = {
        "sync_interval of an ELT sync that is attached to an orchestration": 1,
        "sync_interval of a reverse ETL sync that is attached to an orchestration": 1,
        "sync_interval of streams": int(service.older),
        "cron_schedule of orchestrations": int(service.older),
    }
    assert {field: output.count(f"does not show {field}") for field in fields} == fields
    assert output.endswith("Nothing to do.\n")


def test_unknown_schedule_is_sent_with_another_change(service: OmittingService, workspace: Path) -> None:
    workspace.write_text(changed_sync("30 3", "settings: {depth: 1}"))
    assert apply(service, workspace) == 0
    body = {"elt_settings": {"depth": 1}, "sync_interval": "30 3 * * *"}
    assert service.changes == [("POST", "/elt_syncs/shop", body)]


@pytest.mark.slow
def test_detached_sync_gets_its_schedule_before_the_detachment(service: OmittingService, workspace: Path) -> None:
    workspace.write_text(detached("30 3"))
    for _ in range(2):
        assert apply(service, workspace) == 0
    assert [change[:2] for change in service.changes] == [
        ("POST", "/elt_syncs/shop"),
        ("DELETE", "/elt_syncs/shop/orchestration"),
    ]
    assert service.shown("elt_syncs", "shop")["sync_interval"] == "30 3 * * *"
    assert plan(service, workspace) == 0


@pytest.mark.slow
def test_visible_schedule_is_compared(service: OmittingService, workspace: Path) -> None:
    service.held["elt_syncs"]["shop"] |= {"orchestration_workflow_id": None, "sync_interval": None}
    workspace.write_text(detached("0 3"))
    assert plan(service, workspace) == 3
    for _ in range(2):
        assert apply(service, workspace) == 0
    assert service.changes == [("POST", "/elt_syncs/shop", {"sync_interval": "0 3 * * *"})]


def test_resend_sends_unknown_schedules_once(older: OmittingService, workspace: Path) -> None:
    assert command(older, "apply", "--workspace", str(workspace), "--resend") == 0
    paths = {change[1] for change in older.changes}
    assert paths == {"/elt_syncs/shop", "/elt_streams/shop.orders/set_sync_interval", "/orchestrations/nightly"}


def test_a_retry_of_the_apply_task_sends_unknown_schedules(older: OmittingService, workspace: Path) -> None:
    memory = Memory()
    task = WorkspaceApplyOperator(task_id="apply", workspace=str(workspace))
    run(task, memory)
    assert older.changes == []
    memory.try_number = 2  # type: ignore[attr-defined] # as a task instance has
    run(task, memory)
    assert ("POST", "/elt_streams/shop.orders/set_sync_interval", {"sync_interval": "0 * * * *"}) in older.changes


@pytest.mark.parametrize("operator", [WorkspaceApplyOperator, WorkspacePlanOperator])
def test_the_workspace_operators_log_one_warning(
    older: OmittingService, workspace: Path, caplog: pytest.LogCaptureFixture, operator: Any
) -> None:
    result = run(operator(task_id="t", workspace=str(workspace)))
    assert (len(warnings_in(caplog)), len(result["warnings"]), older.changes) == (1, 4, [])


def test_pull_keeps_unknown_fields_of_the_file(service: OmittingService, workspace: Path) -> None:
    assert command(service, "pull", "--workspace", str(workspace)) == 0
    assert workspace.read_text() == WORKSPACE


def test_pull_writes_no_unknown_field_into_a_new_file(
    older: OmittingService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.yaml"
    assert command(older, "pull", "--workspace", str(file)) == 0
    text = file.read_text()
    assert ("sync_interval" in text, "cron_schedule" in text, "orchestration: Nightly" in text) == (False, False, True)
    assert "Add those that you know: Nightly, shop, shop.orders." in capsys.readouterr().out


@pytest.mark.parametrize("named", [{"orchestration_id": "nightly"}, {"orchestration_name": "Nightly"}])
def test_an_attached_reverse_etl_sync_stays_active(
    service: OmittingService, caplog: pytest.LogCaptureFixture, named: dict[str, str]
) -> None:
    task = ReverseEtlSyncUpdateOperator(task_id="t", reverse_etl_sync_id="contacts", sync_interval="0 5 * * *", **named)
    for tries in (1, 2):
        result = run(task)
        assert (result["changed"], service.changes, len(warnings_in(caplog))) == (False, [], tries)


def test_an_attached_reverse_etl_sync_is_detached(service: OmittingService) -> None:
    task = ReverseEtlSyncUpdateOperator(task_id="t", reverse_etl_sync_id="contacts", sync_interval="0 6 * * *")
    assert [run(task)["changed"] for _ in range(2)] == [True, False]
    path = "/reverse_etl_syncs/contacts"
    assert [change[1] for change in service.changes] == [f"{path}/deactivate", path, f"{path}/activate"]


def deploy(**fields: Any) -> TransformDeployOperator:
    fields = {"sql_template": "SELECT 1 AS id", "cron_expression": "0 4 * * *"} | fields
    return TransformDeployOperator(task_id="t", name="people", **fields)


UPDATE: dict[str, Any] = {"task_id": "t", "if_exists": "update"}


@pytest.mark.parametrize(
    "task",
    [
        EltSyncCreateOperator(connection_id="in", destination_schema_name="shop", sync_interval=NEW, **UPDATE),
        OrchestrationCreateOperator(name="Nightly", cron_schedule=NEW, **UPDATE),
        deploy(),
    ],
    ids=lambda task: type(task).__name__,
)
def test_operator_of_a_resource_sends_no_unknown_schedule(
    older: OmittingService, caplog: pytest.LogCaptureFixture, task: Any
) -> None:
    result = run(task)
    assert (result["action"], len(warnings_in(caplog)), older.changes) == ("none", 1, [])


INTERVAL, CRON = {"sync_interval": NEW}, {"cron_schedule": NEW}
DETACHMENT = "/transforms/people/orchestration"
STREAM = {"stream_id": "shop.orders"}
#: Operator and its arguments, and the request.
ONE_FIELD: list[tuple[Any, dict[str, str], tuple[str, str, Any]]] = [
    (EltSyncUpdateOperator, {"sync_id": "shop"} | INTERVAL, ("POST", "/elt_syncs/shop", INTERVAL)),
    (EltStreamSetIntervalOperator, STREAM | INTERVAL, ("POST", "/elt_streams/shop.orders/set_sync_interval", INTERVAL)),
    (EltStreamClearIntervalOperator, STREAM, ("POST", "/elt_streams/shop.orders/clear_sync_interval", None)),
    (OrchestrationUpdateOperator, {"orchestration_id": "nightly"} | CRON, ("POST", "/orchestrations/nightly", CRON)),
    (TransformDetachOperator, {"transform_id": "people", "cron_expression": NEW}, ("DELETE", DETACHMENT, None)),
]


@pytest.mark.parametrize(("kind", "arguments", "change"), ONE_FIELD)
def test_an_operator_for_one_field_sends_it_with_one_warning(
    older: OmittingService, caplog: pytest.LogCaptureFixture, kind: Any, arguments: dict[str, str], change: Any
) -> None:
    result = run(kind(task_id="t", **arguments))
    assert (result["changed"], older.changes, len(warnings_in(caplog))) == (True, [change], 1)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"documentation": "People."}, {"sql_template": "SELECT 2 AS id"}])
def test_deploy_sends_an_unknown_schedule_with_another_change(older: OmittingService, changed: Any) -> None:
    run(deploy(cron_expression=NEW, **changed))
    assert older.held["transforms"]["people"]["cron_expression"] == NEW


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the file of a transform."""
    (tmp_path / "people.sql").write_text("-- ---\n-- schedule: 0 4 * * *\n-- ---\nSELECT 1 AS id\n")
    return tmp_path


def test_deploy_of_a_folder_sends_no_unknown_schedule(
    older: OmittingService, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = run(TransformBulkDeployOperator(task_id="t", folder=str(folder)))
    assert (result["counts"]["unchanged"], older.changes, len(warnings_in(caplog))) == (1, [], 1)


def test_plan_and_deploy_of_a_folder_on_the_command_line(
    older: OmittingService, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("plan", "deploy"):
        assert command(older, name, "--transforms", str(folder)) == 0
        assert capsys.readouterr().out.count("does not show cron_expression") == 1
    file = folder / "people.sql"
    before = file.read_text()
    assert command(older, "pull", "--transforms", str(folder)) == 0
    assert (file.read_text(), older.changes) == (before, [])
    assert command(older, "deploy", "--transforms", str(folder), "--resend") == 0
    assert older.changes == [("PATCH", "/transforms/people", {"cron_expression": "0 4 * * *"})]


class Task(Memory):
    """Task state of a schedule task, without XComs of other tasks."""

    run_id = "r"
    map_index = -1
    try_number = 1

    def xcom_pull(self, task_ids: str, key: str, map_indexes: int) -> Any:
        return None


def paused_and_restored(service: OmittingService, **what: Any) -> tuple[bool, bool]:
    """Run the three schedule tasks. Return whether the second one changed, and the third one restored the service."""
    before = json.dumps(service.held, sort_keys=True)
    snapshot = run(ScheduleSnapshotOperator(task_id="snapshot", **what), Task())
    assert service.changes == []
    run(SchedulePauseOperator(task_id="pause", snapshot=snapshot), Task())
    meanwhile = json.dumps(service.held, sort_keys=True)
    run(ScheduleRestoreOperator(task_id="restore", snapshot=snapshot), Task())
    return meanwhile != before, json.dumps(service.held, sort_keys=True) == before


def test_an_attached_elt_sync_needs_its_schedule_to_be_paused(service: OmittingService) -> None:
    problem = "attached to orchestration nightly.*does not show its sync_interval"
    with pytest.raises(ScheduleNotPausableError, match=problem):
        run(ScheduleSnapshotOperator(task_id="snapshot", elt_sync_id="shop"), Task())
    assert paused_and_restored(service, elt_sync_id="shop", cron_schedule="0 3 * * *") == (True, True)


def test_an_attached_reverse_etl_sync_is_paused_and_restored(service: OmittingService) -> None:
    service.held["reverse_etl_syncs"]["contacts"]["sync_interval"] = None
    assert paused_and_restored(service, reverse_etl_sync_id="contacts") == (True, True)


@pytest.mark.parametrize("attached", [None, "nightly"])
@pytest.mark.parametrize("schedule", ["0 4 * * *", None])
def test_a_table_with_an_unknown_schedule_is_paused(
    older: OmittingService, attached: str | None, schedule: str | None
) -> None:
    older.held["transforms"]["people"] |= {"cron_expression": schedule, "orchestration_workflow_id": attached}
    with pytest.raises(ScheduleNotPausableError, match="does not show its cron_expression"):
        run(ScheduleSnapshotOperator(task_id="snapshot", transform_id="people"), Task())
    given = schedule or "none"
    is_changed = bool(attached or schedule)
    assert paused_and_restored(older, transform_id="people", cron_schedule=given) == (is_changed, True)


def test_schedule_of_an_unattached_elt_sync_is_visible(older: OmittingService) -> None:
    older.held["elt_syncs"]["shop"]["orchestration_workflow_id"] = None
    assert paused_and_restored(older, elt_sync_id="shop") == (True, True)


# datapipe-local, with the same resources.

ATTACHED = {"orchestration_workflow_id": "nightly"}
ORDERS = {"id": "shop.orders", "name": "orders", "table": "orders", "sync_interval": "0 * * * *"}
SEED: dict[str, Any] = {
    "connections": [source("in", "Files"), destination("out", "CRM")],
    "orchestrations": [NIGHTLY],
    "elt_syncs": [elt_sync("shop", connection_id="in", source_streams=[ORDERS], **ATTACHED)],
    "transforms": [transform("people", "SELECT 1 AS id, 'x' AS name")],
    "reverse_etl_syncs": [
        reverse_etl_sync("contacts", "people", object_type_id="contacts", operation=operation(), **ATTACHED)
    ],
}


@pytest.fixture(scope="module", params=[False, True], ids=["newer", "older"])
def running(request: pytest.FixtureRequest) -> Iterator[LocalService]:
    with LocalService(SEED | {"responses": {"older_description": request.param}}, control=True) as service:
        yield service


@pytest.fixture
def local(running: LocalService, monkeypatch: pytest.MonkeyPatch) -> LocalService:
    running.reset()
    connect(monkeypatch, running)
    monkeypatch.setenv("DATAPIPE_API_KEY", running.api_key)
    return running


def test_commands_do_not_change_current_resources(local: LocalService, workspace: Path) -> None:
    assert plan(local, workspace) == 0
    assert apply(local, workspace) == 0
    assert command(local, "pull", "--workspace", str(workspace)) == 0
    assert (workspace.read_text(), changes(local)) == (WORKSPACE, [])


def test_apply_detaches_a_sync_with_the_schedule_of_the_file(local: LocalService, workspace: Path) -> None:
    workspace.write_text(detached("30 3"))
    for _ in range(2):
        assert apply(local, workspace) == 0
    assert plan(local, workspace) == 0
    assert changes(local) == ["POST /elt_syncs/shop", "DELETE /elt_syncs/shop/orchestration"]
    assert send(local, "GET", "/elt_syncs/shop")["sync_interval"] == "30 3 * * *"


def test_the_schedule_of_an_attached_sync_is_restored(local: LocalService) -> None:
    snapshot = run(ScheduleSnapshotOperator(task_id="snapshot", elt_sync_id="shop", cron_schedule="0 3 * * *"))
    run(SchedulePauseOperator(task_id="pause", snapshot=snapshot))
    meanwhile = send(local, "GET", "/elt_syncs/shop")
    held = snapshot["paused"]["sync_interval"]
    assert ("orchestration_workflow_id" in meanwhile, meanwhile["sync_interval"]) == (False, held)
    run(ScheduleRestoreOperator(task_id="restore", snapshot=snapshot))
    assert send(local, "GET", "/elt_syncs/shop")["orchestration_workflow_id"] == "nightly"
    assert send(local, "DELETE", "/elt_syncs/shop/orchestration")["sync_interval"] == "0 3 * * *"
