"""Tests of every run operator and sensor against the local service: blocking and deferred, with the same outcome."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)

from airflow_provider_datapipe.api.errors import AuthenticationError, DatapipeError, NotFoundError
from airflow_provider_datapipe.operators.elt import EltStreamRunOperator, EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestration import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transform import TransformPublishOperator
from airflow_provider_datapipe.runs.errors import LostContactError, RunFailedError, RunTimeoutError
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, OrchestrationRunSensor, ReverseEtlRunSensor
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, context_of, copy_of, run

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the files of the service."""
    return tmp_path_factory.mktemp("source")


def seed_of(folder: Path, duration: float) -> dict[str, Any]:
    """Return a seed with a resource of every kind, whose runs take this number of seconds."""
    for name in ("a", "b", "slow"):
        (folder / f"{name}.csv").write_text("id,name\n1,x\n2,y\n3,z\n")
    return {
        "runs": {"scheduling_delay": 0.1, "minimum_duration": duration},
        "connections": [
            {"id": "files", "integration_id": "files", "label": "Files", "settings": {"path": str(folder)}},
            {"id": "out", "integration_id": "jsonl", "label": "Out", "settings": {"path": str(folder / "out")}},
        ],
        "elt_syncs": [
            {
                "id": "sync",
                "connection_id": "files",
                "destination_schema_name": "raw",
                "sync_interval": "0 3 * * *",
                "enabled": True,
                "source_streams": [{"id": f"sync.{name}", "name": name, "file": f"{name}.csv"} for name in "ab"],
            },
            {
                "id": "mixed",
                "connection_id": "files",
                "destination_schema_name": "mixed",
                "sync_interval": "0 3 * * *",
                "enabled": True,
                "source_streams": [
                    {"id": "mixed.good", "name": "good", "file": "a.csv"},
                    {"id": "mixed.bad", "name": "bad", "file": "nowhere.csv"},
                ],
            },
        ],
        "transforms": [
            {
                "id": kind,
                "name": kind,
                "folder_path": "models",
                "materialization": kind,
                "publish": kind == "view",
                "sql_template": "SELECT 1 AS id",
            }
            for kind in ("view", "table")
        ],
        "orchestrations": [{"id": "nightly", "name": "Nightly", "cron_schedule": "0 2 * * *"}],
        "reverse_etl_syncs": [
            {
                "id": "out",
                "source_id": "view",
                "destination_connection_id": "out",
                "object_type_id": "ids",
                "sync_interval": "0 5 * * *",
                "enabled": True,
                "operation": {
                    "mode": "upsert",
                    "mappings": [{"source_property_id": "id", "destination_property_id": "id", "primary_key": True}],
                },
            }
        ],
    }


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[LocalService]:
    """Return a service with a resource of every kind."""
    # Long enough for a second request to meet the run of the first.
    with LocalService(seed_of(folder, 0.6), control=True) as running:
        yield running


@pytest.fixture
def lasting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalService]:
    """Return a service whose runs take 600 s, and create the connection of the tasks."""
    with LocalService(seed_of(folder, 600)) as running:
        connection = {"conn_type": "datapipe", "host": running.base_url, "password": running.api_key}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        yield running


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a valid connection, and one with a wrong API key."""
    extra = {"poll_interval": 0.2, "retry_budget": 0}
    for name, key in (("DEFAULT", service.api_key), ("WRONG", "wrong")):
        connection = {"conn_type": "datapipe", "host": service.base_url, "password": key, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_DATAPIPE_{name}", json.dumps(connection))


def count_runs(service: LocalService, path: str, **query: str) -> int:
    answer = httpx.get(f"{service.base_url}/{path}", params=query | {"limit": "100"}, headers=service.headers)
    return len(answer.raise_for_status().json()["data"])


OPERATORS: list[tuple[type[Any], dict[str, Any], dict[str, Any]]] = [
    (EltStreamRunOperator, {"stream_id": "sync.a"}, {"rows_synced": 3, "resource_id": "sync.a"}),
    (EltStreamRunOperator, {"sync_id": "sync", "stream_name": "b"}, {"rows_synced": 3, "name": "b"}),
    (EltStreamRunOperator, {"stream_id": "sync.a", "full_refresh": True}, {"rows_synced": 3}),
    (EltSyncRunOperator, {"sync_id": "sync"}, {"rows_synced": 6}),
    (EltSyncRunOperator, {"sync_id": "sync", "max_active_streams": 1}, {"rows_synced": 6}),
    (EltSyncRunOperator, {"sync_id": "sync", "streams": ["b"]}, {"rows_synced": 3}),
    (OrchestrationRunOperator, {"orchestration_id": "nightly"}, {"name": "nightly"}),
    (OrchestrationRunOperator, {"orchestration_name": "Nightly"}, {"name": "Nightly"}),
    (TransformPublishOperator, {"transform_id": "view"}, {"status": "published"}),
    (TransformPublishOperator, {"transform_name": "table", "folder_path": "models"}, {"status": "completed"}),
    (ReverseEtlRunOperator, {"reverse_etl_sync_id": "out"}, {"rows_failed": 0}),
    (ReverseEtlRunOperator, {"reverse_etl_sync_id": "out", "retry_failed_records": True}, {"rows_failed": 0}),
]


@MODES
@pytest.mark.parametrize(("found", "arguments", "expected"), OPERATORS)
def test_every_operator_ends_alike_in_both_modes(
    found: type[Any], arguments: dict[str, Any], expected: dict[str, Any], *, deferrable: bool
) -> None:
    memory = Memory()
    task = found(task_id="t", deferrable=deferrable, **arguments)
    result = run(task, memory)
    assert result["outcome"] == "succeeded"
    assert {key: result[key] for key in expected} == expected
    assert json.loads(json.dumps(result)) == result
    # A retry after a kill at the very end finds its run; a task that is cleared finds nothing.
    assert all(each["closed_in"] == memory.max_tries for each in memory.kept.values())
    assert memory.kept
    # Nothing of a failure.
    assert memory.pushed.keys() == {link.xcom_key for link in task.operator_extra_links}


@MODES
def test_clearing_runs_again_and_a_late_retry_does_not(*, deferrable: bool, service: LocalService) -> None:
    before = count_runs(service, "elt_stream_runs", elt_stream_id="sync.a")
    memory = Memory()
    task = EltStreamRunOperator(task_id="t", stream_id="sync.a", deferrable=deferrable)
    first = run(task, memory)
    assert run(copy_of(task), memory)["run_id"] == first["run_id"]
    memory.max_tries += 1
    assert run(copy_of(task), memory)["run_id"] != first["run_id"]
    assert count_runs(service, "elt_stream_runs", elt_stream_id="sync.a") == before + 2


@MODES
def test_a_failed_run_fails_the_task_and_leaves_its_result(*, deferrable: bool) -> None:
    memory = Memory()
    with pytest.raises(RunFailedError, match=r"nowhere\.csv"):
        run(EltStreamRunOperator(task_id="t", stream_id="mixed.bad", deferrable=deferrable), memory)
    assert memory.pushed["return_value"]["outcome"] == "failed"
    assert "nowhere.csv" in memory.pushed["return_value"]["error"]
    assert memory.kept == {}


@MODES
def test_a_sync_of_which_a_part_fails(*, deferrable: bool, service: LocalService) -> None:
    memory = Memory()
    task = EltSyncRunOperator(task_id="t", sync_id="mixed", deferrable=deferrable)
    good = count_runs(service, "elt_stream_runs", elt_stream_id="mixed.good")
    bad = count_runs(service, "elt_stream_runs", elt_stream_id="mixed.bad")
    with pytest.raises(RunFailedError, match="1 of 2 streams failed"):
        run(task, memory)
    assert memory.pushed["return_value"]["outcome"] == "partial"
    assert memory.pushed["return_value"]["streams"]["good"]["rows_synced"] == 3
    # A retry starts only what did not succeed.
    with pytest.raises(RunFailedError):
        run(copy_of(task), memory)
    assert count_runs(service, "elt_stream_runs", elt_stream_id="mixed.good") == good + 1
    assert count_runs(service, "elt_stream_runs", elt_stream_id="mixed.bad") == bad + 2
    lenient = EltSyncRunOperator(task_id="t", sync_id="mixed", on_partial_failure="succeed", deferrable=deferrable)
    result = run(lenient, memory)
    assert result["outcome"] == "partial"


@MODES
def test_two_tasks_that_race_for_a_stream_end_with_one_run(*, deferrable: bool, service: LocalService) -> None:
    before = count_runs(service, "elt_stream_runs", elt_stream_id="sync.a")
    httpx.post(f"{service.base_url}/elt_streams/sync.a/request_run", headers=service.headers).raise_for_status()
    result = run(EltStreamRunOperator(task_id="t", stream_id="sync.a", deferrable=deferrable))
    assert result["attached"]
    assert count_runs(service, "elt_stream_runs", elt_stream_id="sync.a") == before + 1


@MODES
def test_waiting_for_somebody_elses_run_before_ones_own(*, deferrable: bool, service: LocalService) -> None:
    before = count_runs(service, "elt_stream_runs", elt_stream_id="sync.b")
    httpx.post(f"{service.base_url}/elt_streams/sync.b/request_run", headers=service.headers).raise_for_status()
    result = run(EltStreamRunOperator(task_id="t", stream_id="sync.b", if_running="wait", deferrable=deferrable))
    assert not result["attached"]
    assert count_runs(service, "elt_stream_runs", elt_stream_id="sync.b") == before + 2


@MODES
def test_skipping_and_failing_where_a_run_is_going(*, deferrable: bool, service: LocalService) -> None:
    # It is met three times, on a machine that may be busy with other things.
    service.runs({"resources": {"sync.a": {"minimum_duration": 4}}})
    httpx.post(f"{service.base_url}/elt_streams/sync.a/request_run", headers=service.headers).raise_for_status()
    arguments: dict[str, Any] = {"task_id": "t", "deferrable": deferrable}
    with pytest.raises(AirflowSkipException, match="running already"):
        run(EltStreamRunOperator(stream_id="sync.a", if_running="skip", **arguments))
    with pytest.raises(DatapipeError, match="running already"):
        run(EltStreamRunOperator(stream_id="sync.a", if_running="fail", **arguments))
    result = run(EltSyncRunOperator(sync_id="sync", if_running="skip", **arguments))
    assert {name: each["outcome"] for name, each in result["streams"].items()} == {"a": "skipped", "b": "succeeded"}
    run(EltStreamRunOperator(stream_id="sync.a", **arguments))
    service.runs({})


@MODES
def test_retry_after_timeout_resumes_the_same_run(*, deferrable: bool, service: LocalService) -> None:
    before = count_runs(service, "elt_stream_runs", elt_stream_id="sync.a")
    memory = Memory()
    arguments: dict[str, Any] = {"task_id": "t", "stream_id": "sync.a", "deferrable": deferrable}
    with pytest.raises(RunTimeoutError, match="may still be going"):
        run(EltStreamRunOperator(timeout=0.3, **arguments), memory)
    assert memory.kept
    result = run(EltStreamRunOperator(**arguments), memory)
    assert not result["attached"]
    assert count_runs(service, "elt_stream_runs", elt_stream_id="sync.a") == before + 1


def test_execution_timeout_holds_while_deferred() -> None:
    for task, expected in (
        (EltStreamRunOperator(task_id="t", stream_id="sync.b", deferrable=True), RunTimeoutError),
        (
            EltStreamRunSensor(task_id="t", stream_id="sync.b", newest=True, deferrable=True, poke_interval=0.1),
            AirflowTaskTimeout,
        ),
    ):
        task.execution_timeout = timedelta(seconds=0.2)
        # The newest run is going while the sensor looks.
        with pytest.raises(expected):
            run(task)
    run(EltStreamRunOperator(task_id="t", stream_id="sync.b"))


def test_on_kill_logs_the_running_run_and_disables_by_policy(
    lasting: LocalService, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def enabled() -> bool:
        answer = httpx.get(f"{lasting.base_url}/elt_syncs/sync", headers=lasting.headers).json()
        return bool(answer["enabled"])

    def said() -> str:
        # Airflow logs to standard output here; a trigger logs through the standard library.
        return capsys.readouterr().out + caplog.text

    for policy in ("leave", "disable"):
        task = EltStreamRunOperator(task_id="t", stream_id="sync.a", deferrable=True, on_kill=policy)
        with pytest.raises(TaskDeferred) as deferred:
            task.execute(context_of(Memory()))
        capsys.readouterr()
        caplog.clear()
        task.on_kill()
        assert "goes on, because the service can't cancel runs" in said()
        assert enabled() == (policy == "leave")
        httpx.post(f"{lasting.base_url}/elt_syncs/sync/enable", headers=lasting.headers).raise_for_status()
        capsys.readouterr()
        caplog.clear()
        asyncio.run(deferred.value.trigger.on_kill())
        assert "goes on, because the service can't cancel runs" in said()
        assert enabled() == (policy == "leave")
        httpx.post(f"{lasting.base_url}/elt_syncs/sync/enable", headers=lasting.headers).raise_for_status()


SENSORS = [
    (EltStreamRunSensor, {"stream_id": "sync.a"}, "/elt_streams/sync.a/request_run"),
    (EltStreamRunSensor, {"sync_id": "sync", "stream_name": "a"}, "/elt_streams/sync.a/request_run"),
    (OrchestrationRunSensor, {"orchestration_name": "Nightly"}, "/orchestrations/nightly/request_run"),
    (ReverseEtlRunSensor, {"reverse_etl_sync_id": "out"}, "/reverse_etl_syncs/out/request_run"),
]


@MODES
@pytest.mark.parametrize(("found", "arguments", "path"), SENSORS)
def test_every_sensor_waits_for_the_run_that_is_going(
    found: type[Any], arguments: dict[str, Any], path: str, *, deferrable: bool, service: LocalService
) -> None:
    httpx.post(f"{service.base_url}{path}", headers=service.headers).raise_for_status()
    time.sleep(0.2)
    result = run(found(task_id="t", newest=True, deferrable=deferrable, poke_interval=0.1, timeout=30, **arguments))
    assert result["outcome"] == "succeeded"
    assert result["duration"] >= 0.5


def sense(*, deferrable: bool, **arguments: Any) -> Any:
    arguments = {"poke_interval": 0.1, "timeout": 0.4, "newest": "run_id" not in arguments} | arguments
    return run(EltStreamRunSensor(task_id="t", deferrable=deferrable, **arguments))


@MODES
@pytest.mark.parametrize(
    ("flags", "expected"),
    [({}, RunFailedError), ({"soft_fail": True}, AirflowSkipException), ({"never_fail": True}, AirflowSkipException)],
)
def test_a_sensor_on_a_failed_run(flags: dict[str, bool], expected: type[Exception], *, deferrable: bool) -> None:
    with pytest.raises(RunFailedError):
        run(EltStreamRunOperator(task_id="t", stream_id="mixed.bad"))
    with pytest.raises(expected, match=r"nowhere\.csv"):
        sense(deferrable=deferrable, stream_id="mixed.bad", **flags)


@MODES
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, AirflowSensorTimeout),
        ({"soft_fail": True}, AirflowSkipException),
    ],
)
def test_a_sensor_whose_time_is_over(
    flags: dict[str, Any], expected: type[Exception], *, deferrable: bool, service: LocalService
) -> None:
    # Longer than a busy machine takes for the first poll.
    service.runs({"minimum_duration": 5})
    httpx.post(f"{service.base_url}/orchestrations/nightly/request_run", headers=service.headers).raise_for_status()
    with pytest.raises(expected):
        run(
            OrchestrationRunSensor(
                task_id="t",
                orchestration_id="nightly",
                newest=True,
                deferrable=deferrable,
                poke_interval=0.1,
                timeout=0.2,
                **flags,
            )
        )
    service.runs({})


@MODES
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, AuthenticationError),
        # Airflow's soft_fail is about time that is over, and runs that failed.
        ({"soft_fail": True}, AuthenticationError),
        ({"never_fail": True}, AirflowSkipException),
    ],
)
def test_a_sensor_with_a_wrong_key_ends_at_once(
    flags: dict[str, bool], expected: type[Exception], *, deferrable: bool
) -> None:
    with pytest.raises(expected):
        sense(deferrable=deferrable, stream_id="sync.a", datapipe_conn_id="datapipe_wrong", timeout=30, **flags)


@MODES
def test_a_sensor_on_nothing_ends_at_once(*, deferrable: bool) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        sense(deferrable=deferrable, stream_id="nowhere", timeout=30)
    for run_id in ("", "None"):
        with pytest.raises(ValueError, match="run_id is empty"):
            sense(deferrable=deferrable, stream_id="sync.a", run_id=run_id)


@MODES
def test_a_lost_answer_is_no_failed_sensor(*, deferrable: bool, service: LocalService) -> None:
    run(EltStreamRunOperator(task_id="t", stream_id="sync.a"))
    service.stop()
    try:
        with pytest.raises(AirflowSensorTimeout):
            sense(deferrable=deferrable, stream_id="sync.a", timeout=0.5)
    finally:
        service.start()
    assert sense(deferrable=deferrable, stream_id="sync.a", timeout=30)["outcome"] == "succeeded"


def test_an_event_of_a_broken_trigger_is_lost_contact_or_skipped() -> None:
    event = {"status": "error", "message": "no connection"}
    sensor = EltStreamRunSensor(task_id="t", stream_id="sync.a", newest=True, deferrable=True)
    with pytest.raises(LostContactError):
        sensor.execute_complete({}, event)
    sensor.never_fail = True
    with pytest.raises(AirflowSkipException):
        sensor.execute_complete({}, event)


@pytest.mark.usefixtures("service")
def test_records_reach_the_destination(folder: Path) -> None:
    run(ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="out"))
    written = folder / "out" / "ids.jsonl"
    assert [json.loads(line)["id"] for line in written.read_text().splitlines()] == [1]
