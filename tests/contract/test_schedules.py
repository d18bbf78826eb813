"""Tests of paused schedules against the local service: the DAG of the page, and concurrent changes by others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from airflow.sdk import DAG

from airflow_provider_datapipe.changes.schedules import ScheduleChangedError, ScheduleOwnedError
from airflow_provider_datapipe.operators.schedule import (
    ScheduleNoteOperator,
    SchedulePutBackOperator,
    ScheduleTakeOffOperator,
    owned_schedule,
)
from tests.support.documents import blocks
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, run

KEY = {"source_property_id": "id", "destination_property_id": "id", "primary_key": True}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """Return a service with the schedules that the page pauses."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "rows.csv").write_text("id\n1\n")
    seed = {
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": str(folder)}},
            {"id": "crm", "integration_id": "jsonl", "label": "CRM", "settings": {"path": str(folder / "out")}},
        ],
        "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
        "elt_syncs": [
            {
                "id": "shop",
                "connection_id": "files",
                "destination_schema_name": "shop",
                "sync_interval": "0 3 * * *",
                "orchestration_workflow_id": "nightly",
                "source_streams": [{"id": "shop.rows", "name": "rows", "file": "rows.csv"}],
            }
        ],
        "transforms": [{"id": "people", "name": "people", "publish": True, "sql_template": "SELECT 1 AS id"}],
        "reverse_etl_syncs": [
            {
                "id": "crm_contacts",
                "source_id": "people",
                "destination_connection_id": "crm",
                "object_type_id": "contacts",
                "sync_interval": "0 5 * * *",
                "operation": {"mode": "upsert", "mappings": [KEY]},
            }
        ],
    }
    with LocalService(seed, control=True) as running:
        yield running


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the service to its seed, and create the connection of the tasks."""
    service.reset()
    extra = {"poll_interval": 0.2, "retry_budget": 0}
    connection = {"conn_type": "datapipe", "host": service.base_url, "password": service.api_key, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))


class Run:
    """DAG run with the XComs and the task state of its tasks."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.memories: dict[str, _Ti] = {}

    def do(self, task: Any) -> Any:
        """Run a task with its XComs."""
        memory = self.memories.setdefault(task.task_id, _Ti(self))
        memory.pushed.clear()
        if hasattr(task, "noted"):
            name = task.task_id.partition("_")[0]
            task.noted = self.memories[f"{name}_note"].pushed["return_value"]
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
    """Return the DAG of the page."""
    (block,) = [each for each in blocks() if each.page == "docs/schedules.md"]
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102 - our own docs
    dag: DAG = names["dag"]
    return dag


def shown(service: LocalService) -> dict[str, Any]:
    found = {}
    for path in ("elt_syncs/shop", "elt_streams/shop.rows", "reverse_etl_syncs/crm_contacts"):
        answer = httpx.get(f"{service.base_url}/{path}", headers=service.headers)
        answer.raise_for_status()
        found[path] = {name: value for name, value in answer.json().items() if name not in ("updated_at", "status")}
        for stream in found[path].get("source_streams", ()):
            del stream["updated_at"]
    return found


def test_setups_and_teardown_stand_around_the_tasks_of_the_page() -> None:
    dag = page()
    for name in ("shop", "crm"):
        note, take_off, put_back = (dag.get_task(f"{name}_{which}") for which in ("note", "take_off", "put_back"))
        assert (note.is_setup, take_off.is_setup, put_back.is_teardown) == (True, True, True)
        assert take_off.task_id in note.downstream_task_ids
        assert {note.task_id, take_off.task_id} <= put_back.upstream_task_ids
        assert dag.get_task("load") in take_off.get_flat_relatives(upstream=False)
        assert dag.get_task("send") in put_back.get_flat_relatives(upstream=True)
        # What the DAG run is judged by: a teardown that decides alone would hide what failed before it.
        assert not put_back.on_failure_fail_dagrun
        assert f"{name}_is_back" in put_back.downstream_task_ids
    assert not dag.get_task("send").downstream_task_ids - {"shop_put_back", "crm_put_back"}


def test_dagrun_timeout_is_refused_at_dag_parse() -> None:
    with (
        DAG("d", schedule=None, dagrun_timeout=timedelta(hours=1)),
        pytest.raises(ValueError, match="DAG d has a dagrun_timeout, which skips teardowns too: shop would stay"),
        owned_schedule("shop", elt_sync_id="shop", cron_schedule="0 3 * * *"),
    ):
        raise AssertionError("not reached")


def test_an_orchestration_that_is_gone_keeps_nothing_else_off(service: LocalService) -> None:
    httpx.post(
        f"{service.base_url}/elt_streams/shop.rows/set_sync_interval",
        headers=service.headers,
        json={"sync_interval": "0 1 * * *"},
    ).raise_for_status()
    body = {"sync_interval": "0 5 * * *", "orchestration_workflow_id": "nightly"}
    crm = f"{service.base_url}/reverse_etl_syncs/crm_contacts"
    before = httpx.get(crm, headers=service.headers).json()
    for path, sent in (
        ("/deactivate", None),
        ("", {name: before[name] for name in ("object_type_id", "operation")} | body),
        ("/activate", None),
    ):
        httpx.post(crm + path, headers=service.headers, json=sent).raise_for_status()
    noted = {}
    of_crm = {"reverse_etl_sync_id": "crm_contacts", "cron_schedule": "0 5 * * *"}
    for name, what in (("shop", {"elt_sync_id": "shop", "cron_schedule": "0 3 * * *"}), ("crm", of_crm)):
        noted[name] = run(ScheduleNoteOperator(task_id="n", **what))
        run(ScheduleTakeOffOperator(task_id="t", noted=noted[name]))
    nightly = f"{service.base_url}/orchestrations/nightly"
    httpx.delete(nightly, headers=service.headers, params={"cron_schedule": "0 2 * * *"}).raise_for_status()
    for each in noted.values():
        with pytest.raises(ScheduleChangedError, match=r"Orchestration nightly, to which .* is gone\. All else is put"):
            run(SchedulePutBackOperator(task_id="p", noted=each))
    there = shown(service)
    assert {which: there[which]["sync_interval"] for which in there} == {
        "elt_syncs/shop": "0 3 * * *",
        "elt_streams/shop.rows": "0 1 * * *",
        "reverse_etl_syncs/crm_contacts": "0 5 * * *",
    }
    assert there["reverse_etl_syncs/crm_contacts"]["enabled"]


def test_the_dag_of_the_page_owns_runs_and_puts_back(service: LocalService) -> None:
    dag, now = page(), Run("one")
    before = shown(service)
    for name in ("shop", "crm"):
        now.do(dag.get_task(f"{name}_note"))
    assert shown(service) == before
    for name in ("shop", "crm"):
        assert now.do(dag.get_task(f"{name}_take_off"))["action"] == "taken_off"
    owned = shown(service)
    assert owned["elt_syncs/shop"].get("orchestration_workflow_id") is None
    assert all(owned[which]["sync_interval"].endswith(" 29 2 *") for which in owned if "streams" not in which)
    assert all(owned[which]["enabled"] for which in owned if "streams" not in which)
    assert run(dag.get_task("load"))["outcome"] == "succeeded"
    assert run(dag.get_task("send"))["outcome"] == "succeeded"
    # Another run of the same DAG finds it owned.
    with pytest.raises(ScheduleOwnedError, match="off its schedule already"):
        Run("two").do(page().get_task("shop_note"))
    # Cleared while it is off: the XCom of the first task is gone, what it noted is not.
    noted = now.memories["shop_note"].pushed["return_value"]
    now.memories["shop_note"].kept.clear()
    assert now.do(page().get_task("shop_note")) == noted
    for name in ("shop", "crm"):
        assert now.do(dag.get_task(f"{name}_put_back"))["changed"]
    assert shown(service) == before
    # Once more, from the beginning.
    assert now.do(page().get_task("shop_note"))["round"] != noted["round"]


def test_retried_note_without_xcoms_uses_its_task_state(service: LocalService) -> None:
    dag, now = page(), Run("one")
    before = shown(service)
    noted = now.do(dag.get_task("shop_note"))
    now.do(dag.get_task("shop_take_off"))
    del now.memories["shop_take_off"]
    assert now.do(page().get_task("shop_note")) == noted
    now.do(dag.get_task("shop_put_back"))
    assert shown(service) == before


def test_what_somebody_changed_is_kept_until_it_is_said(service: LocalService) -> None:
    now = Run("one")
    with (
        DAG("d", schedule=None),
        owned_schedule("shop", elt_sync_id="shop", cron_schedule="0 3 * * *", fail_dag_run=False) as owned,
    ):
        pass
    assert not owned.put_back.downstream_task_ids
    now.do(owned.note)
    now.do(owned.take_off)
    body = {"sync_interval": "0 9 * * *"}
    path = f"{service.base_url}/elt_syncs/shop"
    httpx.post(path, headers=service.headers, json=body).raise_for_status()
    with pytest.raises(ScheduleChangedError, match=r"sync_interval is '0 9 \* \* \*', was '0 3 \* \* \*'"):
        now.do(owned.put_back)
    assert shown(service)["elt_syncs/shop"]["sync_interval"] == "0 9 * * *"
    owned.put_back.if_changed = "restore"
    assert now.do(owned.put_back)["changed"]
    assert shown(service)["elt_syncs/shop"]["orchestration_workflow_id"] == "nightly"
    httpx.delete(f"{path}/orchestration", headers=service.headers).raise_for_status()
    assert shown(service)["elt_syncs/shop"]["sync_interval"] == "0 3 * * *"


def test_a_stopped_teardown_activates_what_it_has_deactivated(service: LocalService) -> None:
    noted = run(ScheduleNoteOperator(task_id="n", reverse_etl_sync_id="crm_contacts"))
    run(ScheduleTakeOffOperator(task_id="t", noted=noted))
    service.faults([{"method": "POST", "path": "/reverse_etl_syncs/*", "status": 500, "times": "always"}])
    memory = Memory()
    task = SchedulePutBackOperator(task_id="p", noted=noted)
    with pytest.raises(Exception, match="500"):
        run(task, memory)
    assert shown(service)["reverse_etl_syncs/crm_contacts"]["enabled"]
    service.faults([])
    run(SchedulePutBackOperator(task_id="p", noted=noted), memory)
    assert shown(service)["reverse_etl_syncs/crm_contacts"]["sync_interval"] == "0 5 * * *"


@pytest.mark.parametrize("has_begun", [True, False])
def test_sync_is_activated_if_this_dag_may_have_deactivated_it(*, has_begun: bool, service: LocalService) -> None:
    now = Run("one")
    with DAG("d", schedule=None), owned_schedule("crm", reverse_etl_sync_id="crm_contacts") as owned:
        pass
    now.do(owned.note)
    if has_begun:
        # Killed before it could say that it is done.
        now.do(owned.take_off)
        del now.memories["crm_take_off"].pushed["datapipe_schedule_taken"]
    path = f"{service.base_url}/reverse_etl_syncs/crm_contacts/deactivate"
    httpx.post(path, headers=service.headers).raise_for_status()
    now.do(owned.put_back)
    there = shown(service)["reverse_etl_syncs/crm_contacts"]
    assert (there["enabled"], there["sync_interval"]) == (has_begun, "0 5 * * *")


@pytest.mark.parametrize(
    ("has_task_state", "try_number", "activated"), [(True, 2, False), (False, 1, False), (False, 2, True)]
)
def test_without_task_state_a_retry_activates_a_deactivated_sync(
    *, has_task_state: bool, try_number: int, activated: bool, service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate Airflow before 3.3, where a killed try leaves no task state."""
    now = Run("one")
    with DAG("d", schedule=None), owned_schedule("crm", reverse_etl_sync_id="crm_contacts") as owned:
        pass
    now.do(owned.note)
    now.do(owned.take_off)
    path = f"{service.base_url}/reverse_etl_syncs/crm_contacts/deactivate"
    httpx.post(path, headers=service.headers).raise_for_status()
    if not has_task_state:
        monkeypatch.setattr("tests.support.tasks.context_of", lambda memory: {"ti": memory})
    now.memories["crm_put_back"] = _Ti(now)
    now.memories["crm_put_back"].try_number = try_number
    now.do(owned.put_back)
    there = shown(service)["reverse_etl_syncs/crm_contacts"]
    assert (there["enabled"], there["sync_interval"]) == (activated, "0 5 * * *")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "exactly one"),
        ({"elt_sync_id": "a", "transform_id": "b"}, "exactly one"),
        ({"transform_id": "b", "folder_path": "c"}, "folder_path goes with transform_name"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_dag_is_read(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ScheduleNoteOperator(task_id="t", **given)
