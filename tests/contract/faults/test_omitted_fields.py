"""Tests of services that omit schedule fields: no repeated requests, and one warning about unknown fields."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_provider_datapipe.changes.schedule_kinds import NotHoldableError
from airflow_provider_datapipe.cli.program import main
from airflow_provider_datapipe.operators.elt_changes import (
    EltStreamClearIntervalOperator,
    EltStreamSetIntervalOperator,
    EltSyncCreateOperator,
    EltSyncUpdateOperator,
)
from airflow_provider_datapipe.operators.orchestration_changes import (
    OrchestrationCreateOperator,
    OrchestrationUpdateOperator,
)
from airflow_provider_datapipe.operators.reverse_etl_changes import ReverseEtlSyncUpdateOperator
from airflow_provider_datapipe.operators.schedule import (
    ScheduleNoteOperator,
    SchedulePutBackOperator,
    ScheduleTakeOffOperator,
)
from airflow_provider_datapipe.operators.transform_changes import (
    TransformBulkDeployOperator,
    TransformDeployOperator,
    TransformDetachOperator,
)
from airflow_provider_datapipe.operators.workspace import WorkspaceApplyOperator, WorkspacePlanOperator
from tests.support.omitting_service import OmittingService, elt_sync, everything, transform
from tests.support.tasks import Memory, run

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


@pytest.fixture(params=["newer", "older"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[OmittingService]:
    with connected(OmittingService(older=request.param == "older"), monkeypatch) as running:
        yield running


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> Iterator[OmittingService]:
    with connected(OmittingService(older=True), monkeypatch) as running:
        yield running


def connected(service: OmittingService, monkeypatch: pytest.MonkeyPatch) -> OmittingService:
    connection = {"conn_type": "datapipe", "host": service.url, "password": "a-key", "extra": {"poll_interval": 0.05}}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("DATAPIPE_API_KEY", "a-key")
    return service


@pytest.fixture(autouse=True)
def logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirect the log of operators to pytest, for all versions of Airflow."""
    monkeypatch.setattr(BaseOperator, "log", logging.getLogger("operators"), raising=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    file = tmp_path / "workspace.yaml"
    file.write_text(WORKSPACE)
    return file


def command(service: OmittingService, *arguments: str) -> int:
    return main([*arguments, "--base-url", service.url])


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [text for text in texts if "does not show" in text]


def test_apply_sends_nothing_again(service: OmittingService, workspace: Path) -> None:
    for _ in range(2):
        assert command(service, "apply", "--workspace", str(workspace)) == 0
    assert service.changes == []


def test_plan_exits_with_0_and_names_each_unknown_field_once(
    service: OmittingService, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(service, "plan", "--workspace", str(workspace)) == 0
    output = capsys.readouterr().out
    fields = {
        "sync_interval of an ELT sync that is attached to an orchestration": 1,
        "sync_interval of a reverse ETL sync that is attached to an orchestration": 1,
        "sync_interval of streams": int(service.older),
        "cron_schedule of orchestrations": int(service.older),
    }
    assert {field: output.count(f"does not show {field}") for field in fields} == fields
    assert output.endswith("Nothing to do.\n")


def test_an_unknown_schedule_goes_with_another_change(service: OmittingService, workspace: Path) -> None:
    workspace.write_text(
        WORKSPACE.replace("0 3", "30 3").replace(
            "orchestration: Nightly\n    source", "settings: {depth: 1}\n    source"
        )
    )
    assert command(service, "apply", "--workspace", str(workspace)) == 0
    assert service.changes == [
        ("POST", "/elt_syncs/shop", {"elt_settings": {"depth": 1}, "sync_interval": "30 3 * * *"})
    ]


@pytest.mark.slow
def test_a_sync_that_is_detached_gets_its_schedule_first(service: OmittingService, workspace: Path) -> None:
    text = WORKSPACE.replace("0 3", "30 3").replace(
        "orchestration: Nightly\n    source", "orchestration: null\n    source"
    )
    workspace.write_text(text)
    for _ in range(2):
        assert command(service, "apply", "--workspace", str(workspace)) == 0
    assert [change[:2] for change in service.changes] == [
        ("POST", "/elt_syncs/shop"),
        ("DELETE", "/elt_syncs/shop/orchestration"),
    ]
    assert service.shown("elt_syncs", "shop")["sync_interval"] == "30 3 * * *"
    assert command(service, "plan", "--workspace", str(workspace)) == 0


@pytest.mark.slow
def test_a_schedule_that_is_shown_is_compared(service: OmittingService, workspace: Path) -> None:
    service.held["elt_syncs"]["shop"] |= {"orchestration_workflow_id": None, "sync_interval": None}
    workspace.write_text(WORKSPACE.replace("orchestration: Nightly\n    source", "orchestration: null\n    source"))
    assert command(service, "plan", "--workspace", str(workspace)) == 3
    for _ in range(2):
        assert command(service, "apply", "--workspace", str(workspace)) == 0
    assert service.changes == [("POST", "/elt_syncs/shop", {"sync_interval": "0 3 * * *"})]


def test_resend_sends_unknown_schedules_once(older: OmittingService, workspace: Path) -> None:
    assert command(older, "apply", "--workspace", str(workspace), "--resend") == 0
    assert {change[1] for change in older.changes} == {
        "/elt_syncs/shop",
        "/elt_streams/shop.orders/set_sync_interval",
        "/orchestrations/nightly",
    }


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


def test_pull_keeps_what_the_file_says_of_unknown_fields(service: OmittingService, workspace: Path) -> None:
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
    assert [change[1] for change in service.changes] == [
        "/reverse_etl_syncs/contacts/deactivate",
        "/reverse_etl_syncs/contacts",
        "/reverse_etl_syncs/contacts/activate",
    ]


def test_create_operators_send_no_unknown_schedule(older: OmittingService, caplog: pytest.LogCaptureFixture) -> None:
    sync = EltSyncCreateOperator(
        task_id="s",
        connection_id="in",
        destination_schema_name="shop",
        sync_interval="0 9 * * *",
        if_exists="update",
    )
    orchestration = OrchestrationCreateOperator(
        task_id="o", name="Nightly", cron_schedule="0 9 * * *", if_exists="update"
    )
    for task in (sync, orchestration):
        caplog.clear()
        result = run(task)
        assert (result["action"], len(warnings_in(caplog)), older.changes) == ("none", 1, [])


@pytest.mark.parametrize(
    ("task", "change"),
    [
        (
            EltSyncUpdateOperator(task_id="t", sync_id="shop", sync_interval="0 9 * * *"),
            ("POST", "/elt_syncs/shop", {"sync_interval": "0 9 * * *"}),
        ),
        (
            EltStreamSetIntervalOperator(task_id="t", stream_id="shop.orders", sync_interval="0 9 * * *"),
            ("POST", "/elt_streams/shop.orders/set_sync_interval", {"sync_interval": "0 9 * * *"}),
        ),
        (
            EltStreamClearIntervalOperator(task_id="t", stream_id="shop.orders"),
            ("POST", "/elt_streams/shop.orders/clear_sync_interval", None),
        ),
        (
            OrchestrationUpdateOperator(task_id="t", orchestration_id="nightly", cron_schedule="0 9 * * *"),
            ("POST", "/orchestrations/nightly", {"cron_schedule": "0 9 * * *"}),
        ),
        (
            TransformDetachOperator(task_id="t", transform_id="people", cron_expression="0 9 * * *"),
            ("DELETE", "/transforms/people/orchestration", None),
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_operator_for_one_field_sends_it_with_one_warning(
    older: OmittingService, caplog: pytest.LogCaptureFixture, task: Any, change: Any
) -> None:
    result = run(task)
    assert (result["changed"], older.changes, len(warnings_in(caplog))) == (True, [change], 1)


def deploy(**fields: Any) -> TransformDeployOperator:
    return TransformDeployOperator(
        task_id="t", name="people", **{"sql_template": "SELECT 1 AS id", "cron_expression": "0 4 * * *"} | fields
    )


def test_deploy_sends_no_unknown_schedule(older: OmittingService, caplog: pytest.LogCaptureFixture) -> None:
    result = run(deploy())
    assert (result["action"], older.changes, len(warnings_in(caplog))) == ("none", [], 1)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"documentation": "People."}, {"sql_template": "SELECT 2 AS id"}])
def test_deploy_sends_an_unknown_schedule_with_another_change(older: OmittingService, changed: Any) -> None:
    run(deploy(cron_expression="0 9 * * *", **changed))
    assert older.held["transforms"]["people"]["cron_expression"] == "0 9 * * *"


def test_deploy_of_a_folder_sends_no_unknown_schedule(
    older: OmittingService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "people.sql").write_text("-- ---\n-- schedule: 0 4 * * *\n-- ---\nSELECT 1 AS id\n")
    result = run(TransformBulkDeployOperator(task_id="t", folder=str(tmp_path)))
    assert (result["counts"]["unchanged"], older.changes, len(warnings_in(caplog))) == (1, [], 1)


def test_plan_and_deploy_of_a_folder_on_the_command_line(
    older: OmittingService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "people.sql"
    file.write_text("-- ---\n-- schedule: 0 4 * * *\n-- ---\nSELECT 1 AS id\n")
    for name in ("plan", "deploy"):
        assert command(older, name, "--transforms", str(tmp_path)) == 0
        assert capsys.readouterr().out.count("does not show cron_expression") == 1
    before = file.read_text()
    assert command(older, "pull", "--transforms", str(tmp_path)) == 0
    assert (file.read_text(), older.changes) == (before, [])
    assert command(older, "deploy", "--transforms", str(tmp_path), "--resend") == 0
    assert older.changes == [("PATCH", "/transforms/people", {"cron_expression": "0 4 * * *"})]


class Task(Memory):
    """Task state of a schedule task, without XComs of other tasks."""

    run_id = "r"
    map_index = -1
    try_number = 1

    def xcom_pull(self, task_ids: str, key: str, map_indexes: int) -> Any:
        return None


def paused_and_restored(service: OmittingService, **what: Any) -> tuple[Any, Any, Any]:
    """Run the three schedule tasks, and return the resources of the service before, between and after."""
    before = json.dumps(service.held, sort_keys=True)
    noted = run(ScheduleNoteOperator(task_id="note", **what), Task())
    assert service.changes == []
    run(ScheduleTakeOffOperator(task_id="take_off", noted=noted), Task())
    meanwhile = json.dumps(service.held, sort_keys=True)
    run(SchedulePutBackOperator(task_id="put_back", noted=noted), Task())
    return before, meanwhile, json.dumps(service.held, sort_keys=True)


def test_an_attached_elt_sync_needs_its_schedule_to_be_paused(service: OmittingService) -> None:
    with pytest.raises(NotHoldableError, match=r"attached to orchestration nightly.*does not show its sync_interval"):
        run(ScheduleNoteOperator(task_id="note", elt_sync_id="shop"), Task())
    before, meanwhile, after = paused_and_restored(service, elt_sync_id="shop", cron_schedule="0 3 * * *")
    assert (meanwhile != before, after) == (True, before)


def test_an_attached_reverse_etl_sync_is_paused_and_restored(service: OmittingService) -> None:
    service.held["reverse_etl_syncs"]["contacts"]["sync_interval"] = None
    before, meanwhile, after = paused_and_restored(service, reverse_etl_sync_id="contacts")
    assert (meanwhile != before, after) == (True, before)


@pytest.mark.parametrize("attached", [None, "nightly"])
@pytest.mark.parametrize("schedule", ["0 4 * * *", None])
def test_a_table_with_an_unknown_schedule_is_paused(
    monkeypatch: pytest.MonkeyPatch, attached: str | None, schedule: str | None
) -> None:
    held = everything() | {"transforms": [transform(cron_expression=schedule, orchestration_workflow_id=attached)]}
    with connected(OmittingService(held, older=True), monkeypatch) as service:
        with pytest.raises(NotHoldableError, match="does not show its cron_expression"):
            run(ScheduleNoteOperator(task_id="note", transform_id="people"), Task())
        given = schedule or "none"
        before, meanwhile, after = paused_and_restored(service, transform_id="people", cron_schedule=given)
        assert (meanwhile != before, after) == (bool(attached or schedule), before)


def test_an_elt_sync_that_is_not_attached_shows_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    held = everything() | {"elt_syncs": [elt_sync(orchestration_workflow_id=None)]}
    with connected(OmittingService(held, older=True), monkeypatch) as service:
        before, meanwhile, after = paused_and_restored(service, elt_sync_id="shop")
        assert (meanwhile != before, after) == (True, before)
