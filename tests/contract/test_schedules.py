"""Tests of paused schedules against the local service: DAG of the docs page, and concurrent changes by users."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_datapipe.operators.schedules import (
    SchedulePauseOperator,
    ScheduleRestoreOperator,
    ScheduleSnapshotOperator,
    paused_schedule,
)
from airflow_provider_datapipe.resources.schedules import ScheduleChangedError, ScheduleOwnedError
from tests.contract.seeds import FILES, NIGHTLY, OUT, Json, elt_sync, page_blocks, reverse_etl_sync, send, transform
from tests.support.documents import names_of
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, run

pytestmark = pytest.mark.usefixtures("service")

SOURCES = {"rows.csv": "id\n1\n"}
SEED: Json = {
    "connections": [FILES, OUT],
    "orchestrations": [NIGHTLY],
    "elt_syncs": [elt_sync("shop", "rows", orchestration_workflow_id="nightly")],
    "transforms": [transform("people")],
    "reverse_etl_syncs": [reverse_etl_sync("crm_contacts", "people")],
}


class Run:
    """DAG run with the XComs and the task state of its tasks."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.memories: dict[str, _Ti] = {}

    def do(self, task: Any) -> Any:
        memory = self.memories.setdefault(task.task_id, _Ti(self))
        memory.pushed.clear()
        if hasattr(task, "snapshot"):
            name = task.task_id.partition("_")[0]
            task.snapshot = self.memories[f"{name}_snapshot"].pushed["return_value"]
        result = run(task, memory)
        memory.xcom_push("return_value", result)
        return result


class _Ti(Memory):
    def __init__(self, of: Run) -> None:
        super().__init__()
        self.of, self.run_id, self.map_index, self.try_number = of, of.run_id, -1, 1

    def xcom_pull(self, task_ids: str, key: str, map_indexes: int) -> Any:
        assert map_indexes == -1
        other = self.of.memories.get(task_ids)
        return None if other is None else other.pushed.get(key)


def page() -> DAG:
    dag: DAG = names_of(page_blocks("schedules.md")[0].text)["dag"]
    return dag


def shown(service: LocalService) -> dict[str, Any]:
    found = {}
    for path in ("elt_syncs/shop", "elt_streams/shop.rows", "reverse_etl_syncs/crm_contacts"):
        fields = send(service, "GET", f"/{path}").items()
        found[path] = {name: value for name, value in fields if name not in ("updated_at", "status")}
        for stream in found[path].get("source_streams", ()):
            del stream["updated_at"]
    return found


def paused(name: str, **arguments: Any) -> Any:
    """Return the tasks of a paused schedule in a DAG without other tasks."""
    with DAG("d", schedule=None), paused_schedule(name, **arguments) as owned:
        return owned


def test_setups_and_teardowns_enclose_the_tasks_of_the_page() -> None:
    dag = page()
    for name in ("shop", "crm"):
        snapshot, pause, restore = (dag.get_task(f"{name}_{which}") for which in ("snapshot", "pause", "restore"))
        assert (snapshot.is_setup, pause.is_setup, restore.is_teardown) == (True, True, True)
        assert pause.task_id in snapshot.downstream_task_ids
        assert {snapshot.task_id, pause.task_id} <= restore.upstream_task_ids
        assert dag.get_task("load") in pause.get_flat_relatives(upstream=False)
        assert dag.get_task("send") in restore.get_flat_relatives(upstream=True)
        # A teardown that is the only leaf of the DAG run would hide earlier failures.
        assert not restore.on_failure_fail_dagrun
        assert f"{name}_is_restored" in restore.downstream_task_ids
    assert not dag.get_task("send").downstream_task_ids - {"shop_restore", "crm_restore"}


def test_default_trigger_rule_hides_no_failed_restoration() -> None:
    rule = {"trigger_rule": "all_done"}
    with (
        DAG("d", schedule=None, default_args=rule) as dag,
        paused_schedule("shop", elt_sync_id="shop", task_arguments=rule),
    ):
        pass
    rules = {name: dag.get_task(f"shop_{name}").trigger_rule.value for name in ("pause", "restore", "is_restored")}
    assert rules == {"pause": "all_success", "restore": "all_done_setup_success", "is_restored": "all_success"}


def test_dagrun_timeout_is_refused_at_dag_parse() -> None:
    with (
        DAG("d", schedule=None, dagrun_timeout=timedelta(hours=1)),
        pytest.raises(ValueError, match="DAG d has a dagrun_timeout, at which Airflow skips teardowns: the schedule"),
        paused_schedule("shop", elt_sync_id="shop", cron_schedule="0 3 * * *"),
    ):
        raise AssertionError("not reached")


def test_dag_of_the_page_pauses_runs_and_restores(service: LocalService) -> None:
    dag, now = page(), Run("one")
    before = shown(service)
    for name in ("shop", "crm"):
        now.do(dag.get_task(f"{name}_snapshot"))
    assert shown(service) == before
    for name in ("shop", "crm"):
        assert now.do(dag.get_task(f"{name}_pause"))["action"] == "paused"
    owned = shown(service)
    assert owned["elt_syncs/shop"].get("orchestration_workflow_id") is None
    assert all(owned[which]["sync_interval"].endswith(" 29 2 *") for which in owned if "streams" not in which)
    assert all(owned[which]["enabled"] for which in owned if "streams" not in which)
    assert run(dag.get_task("load"))["outcome"] == "succeeded"
    assert run(dag.get_task("send"))["outcome"] == "succeeded"
    # Another run of the same DAG cannot pause the schedule.
    with pytest.raises(ScheduleOwnedError, match="is paused already"):
        Run("two").do(page().get_task("shop_snapshot"))
    # A snapshot task that is cleared during the pause has lost its task state. It returns the same snapshot.
    snapshot = now.memories["shop_snapshot"].pushed["return_value"]
    now.memories["shop_snapshot"].kept.clear()
    assert now.do(page().get_task("shop_snapshot")) == snapshot
    for name in ("shop", "crm"):
        assert now.do(dag.get_task(f"{name}_restore"))["changed"]
    assert shown(service) == before
    # A new snapshot after the restore.
    assert now.do(page().get_task("shop_snapshot"))["round"] != snapshot["round"]


def test_retried_snapshot_without_xcoms_uses_its_task_state(service: LocalService) -> None:
    dag, now = page(), Run("one")
    before = shown(service)
    snapshot = now.do(dag.get_task("shop_snapshot"))
    now.do(dag.get_task("shop_pause"))
    del now.memories["shop_pause"]
    assert now.do(page().get_task("shop_snapshot")) == snapshot
    now.do(dag.get_task("shop_restore"))
    assert shown(service) == before


def test_schedule_changed_by_a_user_is_kept_unless_forced(service: LocalService) -> None:
    now = Run("one")
    owned = paused("shop", elt_sync_id="shop", cron_schedule="0 3 * * *", fail_dag_run=False)
    assert not owned.restore.downstream_task_ids
    now.do(owned.snapshot)
    now.do(owned.pause)
    send(service, "POST", "/elt_syncs/shop", json={"sync_interval": "0 9 * * *"})
    message = re.escape("sync_interval is '0 9 * * *' (before the pause '0 3 * * *'")
    with pytest.raises(ScheduleChangedError, match=message):
        now.do(owned.restore)
    assert shown(service)["elt_syncs/shop"]["sync_interval"] == "0 9 * * *"
    owned.restore.if_changed = "restore"
    assert now.do(owned.restore)["changed"]
    assert shown(service)["elt_syncs/shop"]["orchestration_workflow_id"] == "nightly"
    send(service, "DELETE", "/elt_syncs/shop/orchestration")
    assert shown(service)["elt_syncs/shop"]["sync_interval"] == "0 3 * * *"


def test_failed_restore_activates_the_sync_again(service: LocalService) -> None:
    snapshot = run(ScheduleSnapshotOperator(task_id="n", reverse_etl_sync_id="crm_contacts"))
    run(SchedulePauseOperator(task_id="t", snapshot=snapshot))
    service.faults([{"method": "POST", "path": "/reverse_etl_syncs/*", "status": 500, "times": "always"}])
    memory = Memory()
    task = ScheduleRestoreOperator(task_id="p", snapshot=snapshot)
    with pytest.raises(Exception, match="500"):
        run(task, memory)
    assert shown(service)["reverse_etl_syncs/crm_contacts"]["enabled"]
    service.faults([])
    run(ScheduleRestoreOperator(task_id="p", snapshot=snapshot), memory)
    assert shown(service)["reverse_etl_syncs/crm_contacts"]["sync_interval"] == "0 5 * * *"


@pytest.mark.parametrize(
    ("killed", "has_task_state", "try_number", "activated"),
    [
        (True, True, 1, True),
        (False, True, 2, False),
        (False, False, 1, False),
        # Before Airflow 3.3, a killed try leaves no task state.
        (False, False, 2, True),
    ],
)
def test_sync_is_activated_if_this_dag_may_have_deactivated_it(
    *,
    killed: bool,
    has_task_state: bool,
    try_number: int,
    activated: bool,
    service: LocalService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, owned = Run("one"), paused("crm", reverse_etl_sync_id="crm_contacts")
    now.do(owned.snapshot)
    now.do(owned.pause)
    if killed:
        # The pause task was killed before it pushed its result.
        del now.memories["crm_pause"].pushed["datapipe_schedule_paused"]
    send(service, "POST", "/reverse_etl_syncs/crm_contacts/deactivate")
    if not has_task_state:
        monkeypatch.setattr("tests.support.tasks.context_of", lambda memory: {"ti": memory})
    now.memories["crm_restore"] = _Ti(now)
    now.memories["crm_restore"].try_number = try_number
    now.do(owned.restore)
    there = shown(service)["reverse_etl_syncs/crm_contacts"]
    assert (there["enabled"], there["sync_interval"]) == (activated, "0 5 * * *")


def test_sync_deactivated_by_a_user_stays_inactive(service: LocalService) -> None:
    now, owned = Run("one"), paused("crm", reverse_etl_sync_id="crm_contacts")
    now.do(owned.snapshot)
    send(service, "POST", "/reverse_etl_syncs/crm_contacts/deactivate")
    now.do(owned.restore)
    there = shown(service)["reverse_etl_syncs/crm_contacts"]
    assert (there["enabled"], there["sync_interval"]) == (False, "0 5 * * *")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "exactly one"),
        ({"elt_sync_id": "a", "transform_id": "b"}, "exactly one"),
        ({"transform_id": "b", "folder_path": "c"}, "folder_path requires transform_name"),
    ],
)
def test_invalid_arguments_are_refused_at_parsing(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ScheduleSnapshotOperator(task_id="t", **given)
