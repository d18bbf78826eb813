"""Tests of the application of a workspace file: changes, independent failures, and kills."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from airflow_provider_datapipe.api.errors import TransportError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.cli.service import Progress, Service
from airflow_provider_datapipe.operators.workspaces import WorkspaceApplyOperator
from airflow_provider_datapipe.pipelines.plan import Plan, Report, Result, plan_text
from airflow_provider_datapipe.pipelines.workspace.applying import FileTaskState, apply
from airflow_provider_datapipe.pipelines.workspace.document import Document, WorkspaceError
from airflow_provider_datapipe.pipelines.workspace.planning import make_plan
from tests.contract.seeds import changes, connect, elt_sync, reverse_etl_sync, send, transform
from tests.support.local_service import LocalService
from tests.support.tasks import run as run_task
from tests.support.workspaces import SECRET, asked, destination, operation, source

pytestmark = pytest.mark.slow


T = TypeVar("T")
Json = dict[str, Any]

ORDERS = {"id": "old.orders", "name": "orders", "table": "orders", "sync_interval": "0 5 * * *"}
SEED: Json = {
    "connections": [source("in.1", "Shop"), destination("out.1", "CRM")],
    "orchestrations": [
        {"id": "old", "name": "Old", "cron_schedule": "0 1 * * *"},
        {"id": "unused", "name": "Unused", "cron_schedule": "0 1 * * *"},
    ],
    "elt_syncs": [
        elt_sync(
            "raw_old",
            connection_id="in.1",
            orchestration_workflow_id="old",
            elt_settings={"token": "before", "kept": 1},
            source_streams=[ORDERS, {"id": "old.Visits", "name": "Visits", "table": "Visits"}],
        ),
        elt_sync("raw_gone", connection_id="in.1"),
    ],
    "transforms": [transform("people", "SELECT 1 AS id, 'x' AS name", folder_path="sales")],
    "reverse_etl_syncs": [
        reverse_etl_sync(name, "people", destination_connection_id="out.1", object_type_id=name, operation=operation())
        for name in ("things", "gone")
    ],
}
FILE = """\
orchestrations:
  - {name: Nightly, cron_schedule: 0 2 * * *}
  - {name: Old, cron_schedule: 0 3 * * *}
elt_syncs:
  - connection_label: Shop
    destination_schema_name: raw_new
    sync_interval: 0 4 * * *
    enabled: false
    orchestration: Nightly
    start_date: 2026-01-31
    settings: {token: "${TOKEN}"}
    source_streams:
      - orders
      - {name: people, sync_interval: 0 6 * * *, excluded_columns: [note], full_sync_always: true}
  - connection_label: Shop
    destination_schema_name: raw_old
    sync_interval: 0 7 * * *
    orchestration: null
    settings: {token: "${TOKEN}", more: 2}
    source_streams:
      - {name: orders, sync_interval: null, full_sync_always: true}
      - {name: people}
reverse_etl_syncs:
  - transform: sales/people
    destination_connection_label: CRM
    object_type_id: things
    operation: {mode: mirror, mappings: [{source_property_id: id, destination_property_id: id, primary_key: true}]}
    orchestration: Nightly
  - source_id: raw.raw_new.orders
    destination_connection_label: CRM
    object_type_id: orders
    operation: {mode: insert, mappings: [{source_property_id: id, destination_property_id: id}]}
    sync_interval: 0 8 * * *
    enabled: false
"""


@pytest.fixture(scope="module")
def running() -> Iterator[LocalService]:
    with LocalService(SEED, control=True) as service:
        yield service


@pytest.fixture
def local(running: LocalService) -> LocalService:
    running.reset()
    return running


@pytest.fixture
def service(local: LocalService) -> Iterator[Service]:
    with asked(local) as service:
        yield service


def document(text: str) -> Document:
    return Document(text, "shop.yaml", {"TOKEN": SECRET})


def planned(service: Service, text: str = FILE, *, delete_orphans: bool = False) -> Plan:
    return make_plan(service, document(text), delete_orphans=delete_orphans).plan


def changed(plan: Plan) -> dict[str, Json]:
    return {
        f"{item.action} {item.name}": {each.field: [each.old, each.new] for each in item.changes}
        for item in plan.changes
    }


def done(report: Report) -> dict[str, str]:
    return {item.name: str(item.result) for item in report.items if item.result is not Result.UNCHANGED}


def one(resources: list[Json], **fields: Any) -> Json:
    """Return the resource with these fields."""
    (found,) = (each for each in resources if fields.items() <= each.items())
    return found


@pytest.fixture
def applied(service: Service, tmp_path: Path) -> Callable[..., Report]:
    def run(text: str = FILE, *, delete_orphans: bool = False, by: Service = service) -> Report:
        task_state = FileTaskState(tmp_path / ".shop.yaml.apply")
        return apply(by, document(text), task_state, delete_orphans=delete_orphans, wait_for_run=0)

    return run


Apply = Callable[..., Report]

_VOLATILE_FIELDS = ("id", "created_at", "updated_at", "status", "elt_sync_id", "transform_id")


def state(client: httpx.Client) -> Json:
    """Return the resources of the service without the fields that differ each time."""
    found: Json = {}
    for path in ("orchestrations", "elt_syncs", "elt_streams", "reverse_etl_syncs", "transforms"):
        page = client.get(f"/{path}", params={"limit": 100}).json()["data"]
        if path == "reverse_etl_syncs":
            page = [client.get(f"/{path}/{each['id']}").json() for each in page]
        found[path] = page
    schemas = {each["id"]: each["destination_schema_name"] for each in found["elt_syncs"]}
    names = {each["id"]: each["name"] for each in found["orchestrations"]}
    for each in found["elt_streams"]:
        each["schema"] = schemas[each["elt_sync_id"]]
    for entries in found.values():
        for each in entries:
            if "orchestration_workflow_id" in each:
                each["orchestration_workflow_id"] = names[each["orchestration_workflow_id"]]
            for field in _VOLATILE_FIELDS:
                each.pop(field, None)
        entries.sort(key=json.dumps)
    return found


ORPHANS = {"Unused", "Shop -> raw_gone", "raw_old.Visits", "sales/people -> CRM gone"}


def test_plan_lists_differences_without_secrets(service: Service) -> None:
    plan = planned(service)
    mapping = {"source_property_id": "id", "destination_property_id": "id"}
    assert changed(plan) == {
        "create Nightly": {"cron_schedule": [None, "0 2 * * *"]},
        "update Old": {"cron_schedule": ["0 1 * * *", "0 3 * * *"]},
        "create Shop -> raw_new": {
            "sync_interval": [None, "0 4 * * *"],
            "enabled": [None, False],
            "start_date": [None, "2026-01-31"],
            "settings.token": [None, "***"],
            "orchestration": [None, "Nightly"],
        },
        "create raw_new.orders": {},
        "create raw_new.people": {
            "full_sync_always": [None, True],
            "excluded_columns": [None, ["note"]],
            "sync_interval": [None, "0 6 * * *"],
        },
        "update Shop -> raw_old": {
            "sync_interval": ["(not shown)", "0 7 * * *"],
            "orchestration": ["Old", None],
            "settings.kept": ["***", None],
            "settings.more": [None, "***"],
            "settings.token": ["***", "***"],
        },
        "update raw_old.orders": {"full_sync_always": [False, True], "sync_interval": ["0 5 * * *", None]},
        "create raw_old.people": {},
        "update sales/people -> CRM things": {
            "operation": [operation(), {"mode": "mirror", "mappings": [mapping | {"primary_key": True}]}],
            "sync_interval": ["0 5 * * *", None],
            "orchestration": [None, "Nightly"],
        },
        "create raw.raw_new.orders -> CRM orders": {
            "operation": [None, {"mode": "insert", "mappings": [mapping]}],
            "sync_interval": [None, "0 8 * * *"],
            "enabled": [None, False],
        },
    }
    assert {item.name for item in plan.orphans} == ORPHANS
    reported = plan_text(plan) + json.dumps(plan.as_json())
    assert SECRET not in reported
    assert "before" not in reported


def test_second_apply_changes_nothing(
    local: LocalService, service: Service, applied: Apply, client: httpx.Client
) -> None:
    assert set(done(applied()).values()) == {"created", "updated"}
    plan = planned(service)
    assert changed(plan) == {}
    assert len(plan.orphans) == 4

    before, first = state(client), len(changes(local))
    report = applied()
    assert done(report) == {}
    # The service does not show excluded columns, so apply sends them each time, with a warning.
    assert [each.rpartition("/")[2] for each in changes(local)[first:]] == ["source_streams"]
    assert state(client) == before
    assert "excluded_columns" in report.warnings[0]

    assert one(before["elt_streams"], schema="raw_new", name="people")["sync_interval"] == "0 6 * * *"
    new, old = (one(before["elt_syncs"], destination_schema_name=schema) for schema in ("raw_new", "raw_old"))
    assert (new["enabled"], new["orchestration_workflow_id"], new["config"]) == (False, "Nightly", {"token": SECRET})
    assert (old["enabled"], old["sync_interval"], old.get("orchestration_workflow_id")) == (True, "0 7 * * *", None)
    things, orders = (one(before["reverse_etl_syncs"], object_type_id=name) for name in ("things", "orders"))
    # Deactivated for its update, and active again, because the file does not set enabled.
    assert (things["enabled"], things["operation"]["mode"], things.get("sync_interval")) == (True, "mirror", None)
    assert (orders["enabled"], orders["source_id"]) == (False, "raw_new.orders")


def test_orphans_are_deleted_only_with_delete_orphans(
    local: LocalService, service: Service, applied: Apply, client: httpx.Client
) -> None:
    assert {name for name, result in done(applied(delete_orphans=True)).items() if result == "deleted"} == ORPHANS
    plan = planned(service, delete_orphans=True)
    assert (changed(plan), plan.orphans) == ({}, ())
    # Omitted sections stay unchanged, and tables are never dropped.
    assert done(applied("orchestrations: [{name: Old}, {name: Nightly}]", delete_orphans=True)) == {}
    assert not any("removeDataReferences" in json.dumps(each) for each in local.journal_requests())
    assert len(state(client)["elt_syncs"]) == 2


def test_used_orchestration_is_not_deleted(service: Service, applied: Apply) -> None:
    plan = planned(service, "orchestrations: []", delete_orphans=True)
    assert [item.name for item in plan.changes] == ["Unused"]
    assert [item.name for item in plan.orphans] == ["Old"]
    assert plan.warnings == ("The orchestration 'Old' is not deleted, because it is used by: Shop -> raw_old.",)
    assert done(applied("orchestrations: []", delete_orphans=True)) == {"Unused": "deleted"}


NEW_SYNC = "{connection_label: Shop, destination_schema_name: raw_new, sync_interval: 0 1 * * *"
NEW_REVERSE_SYNC = """{transform: sales/people, destination_connection_label: CRM, object_type_id: new, operation: \
{mode: insert, mappings: [{source_property_id: id, destination_property_id: id}]}"""


NEW = [("elt_syncs", NEW_SYNC, "Shop -> raw_new"), ("reverse_etl_syncs", NEW_REVERSE_SYNC, "sales/people -> CRM new")]


@pytest.mark.parametrize(("section", "entry", "name"), NEW)
def test_orchestration_of_a_new_sync_is_not_deleted(
    applied: Apply, client: httpx.Client, section: str, entry: str, name: str
) -> None:
    text = f"orchestrations: [{{name: Old}}]\n{section}:\n  - {entry}, orchestration: Unused}}\n"
    report = applied(text, delete_orphans=True)
    assert report.warnings == (f"The orchestration 'Unused' is not deleted, because it is used by: {name}.",)
    assert done(report)[name] == "created"
    assert {each.get("orchestration_workflow_id") for each in state(client)[section]} == {"Unused"}


@pytest.mark.parametrize(
    ("orchestrations", "move", "expected"),
    [
        (f"[{{name: {'x' * 300}, cron_schedule: 0 1 * * *}}]", f"orchestration: {'x' * 300}", "skipped"),
        ("[]", "orchestration: null, start_date: 2026-01-31", "failed"),
    ],
    ids=["skipped", "failed"],
)
def test_orchestration_is_kept_if_a_sync_cannot_leave_it(
    applied: Apply, client: httpx.Client, orchestrations: str, move: str, expected: str
) -> None:
    sync = f"{{connection_label: Shop, destination_schema_name: raw_old, {move}}}"
    report = applied(f"orchestrations: {orchestrations}\nelt_syncs: [{sync}]\n", delete_orphans=True)
    results = done(report)
    assert (results["Shop -> raw_old"], results["Old"], results["Unused"]) == (expected, "skipped", "deleted")
    assert [item.error for item in report.items if item.name == "Old"] == ["elt_sync Shop -> raw_old failed"]
    assert [each["name"] for each in client.get("/orchestrations").json()["data"]] == ["Old"]


def test_new_sync_takes_over_schema_of_deleted_orphan(
    service: Service, applied: Apply, client: httpx.Client, local: LocalService
) -> None:
    send(local, "POST", "/_local/seed", json={"connections": [source("in.2", "Other")]})
    text = """\
elt_syncs:
  - {connection_label: Other, destination_schema_name: raw_gone, sync_interval: 0 1 * * *}
  - {connection_label: Shop, destination_schema_name: raw_old}
"""
    report = applied(text, delete_orphans=True)
    assert done(report) == {"Shop -> raw_gone": "deleted", "Other -> raw_gone": "created"}
    assert [each["source_connection_id"] for each in client.get("/elt_syncs").json()["data"]] == ["in.1", "in.2"]


def test_failed_resource_skips_only_its_dependents(applied: Apply, service: Service) -> None:
    text = FILE.replace("Nightly", "x" * 300).replace("- {name: people}", "- unknown\n      - people")
    report = applied(text)
    results = done(report)
    assert results["x" * 300] == "failed"
    skipped = {name for name, result in results.items() if result == "skipped"}
    reverse_syncs = {"sales/people -> CRM things", "raw.raw_new.orders -> CRM orders"}
    assert skipped == {"Shop -> raw_new", "raw_new.orders", "raw_new.people"} | reverse_syncs
    assert results["raw_old.unknown"] == "failed"
    assert {results[name] for name in ("Old", "Shop -> raw_old", "raw_old.orders")} == {"updated"}
    assert results["raw_old.people"] == "created"
    errors = {item.name: item.error for item in report.items if item.error}
    assert "the source offers no stream 'unknown'" in str(errors["raw_old.unknown"])
    assert errors["raw_new.orders"] == "elt_sync Shop -> raw_new failed"
    # The second apply creates only the corrected and the skipped resources.
    assert done(applied()).keys() == {"Nightly", *skipped}


def test_unsupported_change_fails_and_others_are_applied(applied: Apply, service: Service) -> None:
    text = """\
elt_syncs:
  - connection_label: Shop
    destination_schema_name: raw_old
    start_date: 2026-01-31
    enabled: false
"""
    reason = "start_date: it can't be changed after the sync is created"
    assert [item.reason for item in planned(service, text).changes] == [reason]
    (result,) = [item for item in applied(text).items if item.error]
    assert (result.result, result.error) == (Result.FAILED, reason)
    assert changed(planned(service, text)) == {"update Shop -> raw_old": {"start_date": [None, "2026-01-31"]}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("connection_label: Shop\n", "connection_label: Shap\n", "5:23: elt_syncs[0].connection_label: the service"),
        ("transform: sales/people", "transform: people", "24:16: reverse_etl_syncs[0].transform: the service"),
        ("orchestration: Nightly\n    s", "orchestration: Nigh\n    s", "9:20: elt_syncs[0].orchestration: the"),
        ("    sync_interval: 0 4 * * *\n", "", "5:5: elt_syncs[0]: sync_interval is required to create"),
        ("{name: people}", "orders", "22:9: elt_syncs[1].source_streams[1]: duplicate of an earlier entry"),
        ("name: Old", "name: Nightly", "3:5: orchestrations[1]: duplicate of an earlier entry"),
        ("name: Old", "id: nothing, name: Old", "3:10: orchestrations[1].id: the service"),
    ],
)  # fmt: skip
def test_invalid_workspace_fails_before_any_change(
    local: LocalService, applied: Apply, old: str, new: str, expected: str
) -> None:
    assert old in FILE
    with pytest.raises(WorkspaceError) as error:
        applied(FILE.replace(old, new, 1))
    assert f"shop.yaml:{expected}" in str(error.value)
    assert {each["method"] for each in local.journal_requests()} <= {"GET"}


def test_old_name_of_a_renamed_orchestration_is_an_error(applied: Apply) -> None:
    text = """\
orchestrations: [{id: old, name: New}]
elt_syncs:
  - {connection_label: Shop, destination_schema_name: raw_old, orchestration: Old}
"""
    # After the first apply, the file would be invalid.
    with pytest.raises(WorkspaceError) as error:
        applied(text)
    problem = "elt_syncs[0].orchestration: the file renames the orchestration 'Old' to 'New': use the new name"
    assert str(error.value) == f"shop.yaml:3:79: {problem}"
    for expected in ({"New": "updated"}, {}):
        assert done(applied(text.replace("Old}", "New}"))) == expected


@pytest.mark.parametrize("wait_for_run", ["10m", timedelta(minutes=1), "60"])
def test_task_accepts_durations(
    wait_for_run: Any, local: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, local)
    path = tmp_path / "shop.yaml"
    path.write_text("orchestrations: [{name: Old}]")
    task = WorkspaceApplyOperator(task_id="t", workspace=str(path), wait_for_run=wait_for_run)
    assert run_task(task)["failed"] is False


class ProcessEnd(BaseException):
    """Simulated end of the process."""


NO_CONNECTION = TransportError("no connection", sent=False)


class InterruptedService(Service):
    """
    Service that ends at the n-th changing request: before it is sent, or before its response is read.

    :param at: the number of the request, from 1.
    :param end: the exception that is raised from then on.
    :param is_sent: send the request before the end.
    """

    def __init__(self, inner: Service, at: int, end: BaseException, *, is_sent: bool = False) -> None:
        super().__init__(inner._client, Progress(quiet=True))
        self.left, self.is_sent, self.end = at, is_sent, end

    def send(self, request: Request[T]) -> T:
        if request.endpoint.method != "GET":
            self.left -= 1
            if self.left == 0 and self.is_sent:
                super().send(request)
        if self.left <= 0:
            raise self.end
        return super().send(request)


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
def test_apply_after_kill_at_any_request_reaches_same_state(
    local: LocalService, service: Service, applied: Apply, client: httpx.Client, is_sent: bool
) -> None:
    applied(delete_orphans=True)
    expected, interruptions = state(client), 0
    # This is also true for each equal state.
    assert changed(planned(service, delete_orphans=True)) == {}
    while True:
        local.reset()
        interrupted = InterruptedService(service, interruptions + 1, ProcessEnd(), is_sent=is_sent)
        try:
            applied(delete_orphans=True, by=interrupted)
        except ProcessEnd:
            interruptions += 1
        else:
            break
        applied(delete_orphans=True)
        assert state(client) == expected, f"interruption {interruptions}"
    assert interruptions == 20


def test_unavailable_service_skips_remaining_resources(applied: Apply, service: Service) -> None:
    results = done(applied(by=InterruptedService(service, 3, NO_CONNECTION)))
    assert list(results.values()) == ["created", "updated", "failed", *["skipped"] * 7]
    assert set(done(applied()).values()) == {"created", "updated"}


def test_unchanged_resource_does_not_end_the_skipping(applied: Apply, service: Service) -> None:
    text = """\
orchestrations:
  - {name: Old, cron_schedule: 0 3 * * *}
  - {name: Unused, cron_schedule: 0 1 * * *}
  - {name: New, cron_schedule: 0 3 * * *}
"""
    results = done(applied(text, by=InterruptedService(service, 1, NO_CONNECTION)))
    assert results == {"Old": "failed", "New": "skipped"}


def test_errors_mask_secret_settings(applied: Apply, service: Service) -> None:
    refusal = TransportError(f"the service reports: no token {SECRET}", sent=True)
    report = applied(by=InterruptedService(service, 3, refusal))
    errors = [item.error for item in report.items if item.error]
    assert "the service reports: no token ***" in errors
    assert SECRET not in str(errors)


def test_recovery_ends_once_the_file_sets_enabled(applied: Apply, service: Service, client: httpx.Client) -> None:
    def apply_entry(more: str, by: Service = service) -> Report:
        entry = f"transform: sales/people, destination_connection_label: CRM, object_type_id: things{more}"
        return applied(f"reverse_etl_syncs: [{{{entry}}}]", by=by)

    with pytest.raises(ProcessEnd):
        # The process ends after it has deactivated the sync.
        apply_entry(", sync_interval: 0 9 * * *", InterruptedService(service, 2, ProcessEnd()))
    assert done(apply_entry(", enabled: true")) == {"sales/people -> CRM things": "updated"}
    client.post("/reverse_etl_syncs/things/deactivate").raise_for_status()
    assert done(apply_entry("")) == {}
    assert client.get("/reverse_etl_syncs/things").json()["enabled"] is False


class Command:
    """Command ``apply`` of the file, in a process of its own."""

    def __init__(self, local: LocalService, file: Path) -> None:
        file.write_text(FILE)
        self.file = file
        self._arguments = ["apply", "--base-url", local.base_url, "--workspace", str(file)]
        self._env = {**os.environ, "DATAPIPE_API_KEY": local.api_key, "TOKEN": SECRET}

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "airflow_provider_datapipe.cli", *self._arguments, *options]
        pipes: Json = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=self._env, **pipes)  # noqa: S603 - our own program

    def leaves_no_files(self) -> bool:
        return list(self.file.parent.iterdir()) == [self.file]


@pytest.fixture
def command(local: LocalService, tmp_path: Path) -> Command:
    folder = tmp_path / "shop"
    folder.mkdir()
    return Command(local, folder / "shop.yaml")


def test_killed_apply_command_can_be_repeated(
    local: LocalService, client: httpx.Client, applied: Apply, command: Command
) -> None:
    applied(delete_orphans=True)
    expected = state(client)
    killed = 0
    for at in (1, 11, 20):
        local.reset()
        with command.start("--delete-orphans", "--quiet") as process:
            while process.poll() is None:
                if len(changes(local)) >= at:
                    process.kill()
                    break
                time.sleep(0.02)
        killed += process.returncode == -signal.SIGKILL
        with command.start("--delete-orphans", "--quiet", "--format", "json") as process:
            out, err = process.communicate()
        assert (process.returncode, json.loads(out)["failed"]) == (0, False)
        assert SECRET not in out + err
        assert state(client) == expected
        assert command.leaves_no_files()
    assert killed


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_apply_reactivates_the_sync(
    local: LocalService, client: httpx.Client, command: Command, how: signal.Signals
) -> None:
    local.faults([{"method": "POST", "path": "/reverse_etl_syncs/*", "resource_id": "things", "delay": 60}])
    with command.start("--quiet") as process:
        while client.get("/reverse_etl_syncs/things").json()["enabled"]:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(how)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (130, "datapipe apply: interrupted.\n")
    assert client.get("/reverse_etl_syncs/things").json()["enabled"] is True
    assert command.leaves_no_files()


def test_concurrent_applies_on_one_machine_run_in_sequence(client: httpx.Client, command: Command) -> None:
    with command.file.open() as locked:
        # Both processes wait for the lock.
        fcntl.flock(locked, fcntl.LOCK_EX)
        both = [command.start("--format", "json") for _ in range(2)]
        for each in both:
            assert each.stderr is not None
            assert "another process on this machine is applying" in each.stderr.readline()
    counts = []
    for each in both:
        out, _ = each.communicate()
        assert each.returncode == 0, out
        counts.append(json.loads(out)["counts"])
    assert sorted(each["created"] for each in counts) == [0, 6]
    # Fields that the service does not show are sent each time.
    assert sorted(each["updated"] for each in counts) == [0, 4]
    reverse_syncs = client.get("/reverse_etl_syncs").json()["data"]
    assert sorted(each["object_type_id"] for each in reverse_syncs) == ["gone", "orders", "things"]
