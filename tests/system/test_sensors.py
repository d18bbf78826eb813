"""Sensors in each mode on real components, for runs of other clients."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.airflow_versions import older_than, since
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.airflow_api import TaskInstance
from tests.system.components import AirflowComponents

pytestmark = pytest.mark.medium


DAG = "waiting"
KINDS = ("stream", "orchestration", "reverse_etl")
#: State of a sensor in each mode after a poll with an unmet condition.
WAITS_AS = {"poke": "running", "reschedule": "up_for_reschedule", "deferred": "deferred", "triggered": "deferred"}
if older_than("3.3"):
    # In earlier versions, the DAG does not have these tasks, either.
    del WAITS_AS["triggered"]
IN_TRIGGERER = tuple(mode for mode, state in WAITS_AS.items() if state == "deferred")
MODES = {kind: tuple(WAITS_AS) if kind in KINDS else IN_TRIGGERER for kind in (*KINDS, "sync", "fresh")}
TASKS = {f"{kind}_{mode}" for kind, modes in MODES.items() for mode in modes}
RUNS = {
    "stream": ("/elt_streams/awaited.airlines/request_run", "/elt_stream_runs", {"elt_stream_id": "awaited.airlines"}),
    "orchestration": ("/orchestrations/awaited/request_run", "/orchestration_runs", {"orchestration_id": "awaited"}),
    "reverse_etl": (
        "/reverse_etl_syncs/awaited/request_run",
        "/reverse_etl_sync_runs",
        {"reverse_etl_sync_id": "awaited"},
    ),
}
#: DAG run, and tasks that were observed waiting without a worker.
FirstWait = tuple[str, set[str]]


def request_runs(service: LocalService) -> None:
    for request, _, _ in RUNS.values():
        service.request("POST", request)


def runs_of(service: LocalService, kind: str) -> list[dict[str, Any]]:
    _, path, owner = RUNS[kind]
    runs: list[dict[str, Any]] = service.request("GET", path, params=owner | {"limit": "100"})["data"]
    return runs[::-1]


def is_over(service: LocalService, count: int) -> bool:
    runs = [runs_of(service, kind) for kind in KINDS]
    return all(len(each) == count and each[-1].get("finished_at") for each in runs)


def results_of(airflow: AirflowComponents, run_id: str, kind: str) -> list[dict[str, Any]]:
    return [airflow.api.xcom(DAG, run_id, f"{kind}_{mode}") for mode in MODES[kind]]


@pytest.fixture(scope="module")
def first_wait(airflow: AirflowComponents, service: LocalService) -> FirstWait:
    """Start the runs once all sensors wait."""
    waited: set[str] = set()
    without_worker: set[str] = set()

    def watch(instances: list[TaskInstance]) -> None:
        everything = waited == TASKS
        for one in instances:
            if one.state == WAITS_AS[one.task_id.rpartition("_")[2]]:
                waited.add(one.task_id)
                if one.pid is None:
                    without_worker.add(one.task_id)
        if not everything and waited == TASKS:
            request_runs(service)

    run_id = airflow.trigger(DAG)
    airflow.ends(DAG, run_id, watch=watch)
    assert waited == TASKS
    return run_id, without_worker


def test_sensors_wait_in_all_modes(airflow: AirflowComponents, service: LocalService, first_wait: FirstWait) -> None:
    run_id, _ = first_wait
    assert airflow.tasks(DAG, run_id).keys() == TASKS
    for kind in KINDS:
        results = results_of(airflow, run_id, kind)
        assert [result["outcome"] for result in results] == ["succeeded"] * len(WAITS_AS)
        # All sensors have found the same run.
        assert {result["run_id"] for result in results} == {runs_of(service, kind)[0]["id"]}
    (first,) = runs_of(service, "stream")
    for result in results_of(airflow, run_id, "sync"):
        assert result["streams"]["airlines"]["run_id"] == first["id"]
    assert {result["run_id"] for result in results_of(airflow, run_id, "fresh")} == {first["id"]}
    for mode in WAITS_AS:
        assert airflow.was_deferred(DAG, run_id, f"stream_{mode}") == (mode in IN_TRIGGERER)


@since("3.3", "start_from_trigger")
def test_start_from_trigger_never_needs_a_worker(first_wait: FirstWait) -> None:
    _, without_worker = first_wait
    assert without_worker == {f"{kind}_triggered" for kind in MODES}


def test_past_dag_runs_find_the_runs_of_their_data_intervals(
    airflow: AirflowComponents, service: LocalService, first_wait: FirstWait
) -> None:
    before = {kind: len(runs_of(service, kind)) for kind in KINDS}
    moments = []
    for _ in range(2):
        count = len(runs_of(service, "stream"))
        moments.append(datetime.now(UTC))
        request_runs(service)
        wait_for("the runs", lambda count=count: is_over(service, count + 1), limit=60)  # type: ignore[misc]  # loop variable
    dag_runs = [trigger_for(airflow, moment) for moment in moments]
    for number, run_id in enumerate(dag_runs):
        airflow.ends(DAG, run_id)
        for kind in KINDS:
            expected = runs_of(service, kind)[before[kind] + number]["id"]
            assert [result["run_id"] for result in results_of(airflow, run_id, kind)] == [expected] * len(WAITS_AS)
        expected = runs_of(service, "stream")[before["stream"] + number]["id"]
        results = results_of(airflow, run_id, "sync")
        assert [result["streams"]["airlines"]["run_id"] for result in results] == [expected] * len(MODES["sync"])


def trigger_for(airflow: AirflowComponents, end: datetime) -> str:
    """Start a DAG run with a given end of its data interval, like a backfill."""
    body = {
        "logical_date": (end - timedelta(minutes=5)).isoformat(),
        "data_interval_start": (end - timedelta(minutes=5)).isoformat(),
        "data_interval_end": end.isoformat(),
        "run_after": end.isoformat(),
        "conf": {},
    }
    run: dict[str, str] = airflow.api.request("POST", f"/dags/{DAG}/dagRuns", json=body)
    return run["dag_run_id"]
