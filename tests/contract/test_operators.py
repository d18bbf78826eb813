"""Tests of all run operators against the local service: blocking and deferred, with the same outcome."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from airflow_provider_datapipe.runs.errors import RunConflictError, RunFailedError, RunTimeoutError
from airflow_provider_datapipe.runs.names import UnknownNameError
from tests.contract.seeds import FILES, MODES, NIGHTLY, OUT, ROWS, elt_sync, reverse_etl_sync, send, transform
from tests.support.local_service import LocalService
from tests.support.tasks import Memory, context_of, copy_of, run

pytestmark = pytest.mark.usefixtures("service")

SOURCES = {f"{name}.csv": ROWS for name in ("a", "b", "good")}
SEED = {
    "runs": {"scheduling_delay": 0.1, "minimum_duration": 0.2},
    "connections": [FILES, OUT],
    "elt_syncs": [elt_sync("sync", "a", "b"), elt_sync("mixed", "good", "nowhere")],
    "transforms": [
        transform(kind, folder_path="models", materialization=kind, publish=kind == "view")
        for kind in ("view", "table")
    ],
    "orchestrations": [NIGHTLY],
    "reverse_etl_syncs": [reverse_etl_sync("out", "view")],
}


def request_run(service: LocalService, stream: str, duration: float = 1) -> None:
    """Start a run that takes some seconds, as the active run for a task."""
    service.runs({"resources": {stream: {"minimum_duration": duration}}})
    send(service, "POST", f"/elt_streams/{stream}/request_run")


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
def test_operators_have_the_same_result_in_both_modes(
    found: type[Any], arguments: dict[str, Any], expected: dict[str, Any], *, deferrable: bool
) -> None:
    memory = Memory()
    task = found(task_id="t", deferrable=deferrable, **arguments)
    result = run(task, memory)
    assert result["outcome"] == "succeeded"
    assert {key: result[key] for key in expected} == expected
    assert json.loads(json.dumps(result)) == result
    # The task state lets a retry find the run. It does not affect a cleared task.
    assert all(each["closed_in"] == memory.max_tries for each in memory.kept.values())
    assert memory.kept
    # No XCom of a failure.
    assert memory.pushed.keys() == {link.xcom_key for link in task.operator_extra_links}


@MODES
def test_cleared_task_starts_a_run_but_a_retry_after_success_not(*, deferrable: bool, service: LocalService) -> None:
    memory = Memory()
    task = EltStreamRunOperator(task_id="t", stream_id="sync.a", deferrable=deferrable)
    first = run(task, memory)
    assert run(copy_of(task), memory)["run_id"] == first["run_id"]
    memory.max_tries += 1
    assert run(copy_of(task), memory)["run_id"] != first["run_id"]
    assert len(service.journal_runs("sync.a")) == 2


@MODES
def test_failed_run_fails_the_task_and_pushes_its_result(*, deferrable: bool) -> None:
    memory = Memory()
    with pytest.raises(RunFailedError, match=r"nowhere\.csv"):
        run(EltStreamRunOperator(task_id="t", stream_id="mixed.nowhere", deferrable=deferrable), memory)
    assert memory.pushed["return_value"]["outcome"] == "failed"
    assert "nowhere.csv" in memory.pushed["return_value"]["error"]
    assert memory.kept == {}


@MODES
def test_partially_failed_sync(*, deferrable: bool, service: LocalService) -> None:
    memory = Memory()
    task = EltSyncRunOperator(task_id="t", sync_id="mixed", deferrable=deferrable)
    with pytest.raises(RunFailedError, match="1 of 2 streams failed"):
        run(task, memory)
    assert memory.pushed["return_value"]["outcome"] == "partial"
    assert memory.pushed["return_value"]["streams"]["good"]["rows_synced"] == 3
    # A retry starts only runs that have not succeeded.
    with pytest.raises(RunFailedError):
        run(copy_of(task), memory)
    assert [len(service.journal_runs(f"mixed.{name}")) for name in ("good", "nowhere")] == [1, 2]
    task.on_partial_failure = "succeed"
    assert run(copy_of(task))["outcome"] == "partial"


@MODES
@pytest.mark.parametrize(("if_running", "runs"), [("attach", 1), ("wait", 2)])
def test_if_running_attach_and_wait(if_running: Any, runs: int, *, deferrable: bool, service: LocalService) -> None:
    request_run(service, "sync.a")
    task = EltStreamRunOperator(task_id="t", stream_id="sync.a", if_running=if_running, deferrable=deferrable)
    assert run(task)["attached"] == (if_running == "attach")
    assert len(service.journal_runs("sync.a")) == runs


@MODES
def test_if_running_skip_and_fail(*, deferrable: bool, service: LocalService) -> None:
    # The run must be active for three tasks, even on a busy machine.
    request_run(service, "sync.a", 4)
    arguments: dict[str, Any] = {"task_id": "t", "deferrable": deferrable}
    with pytest.raises(AirflowSkipException, match="running already"):
        run(EltStreamRunOperator(stream_id="sync.a", if_running="skip", **arguments))
    with pytest.raises(DatapipeError, match="running already"):
        run(EltStreamRunOperator(stream_id="sync.a", if_running="fail", **arguments))
    result = run(EltSyncRunOperator(sync_id="sync", if_running="skip", **arguments))
    assert {name: each["outcome"] for name, each in result["streams"].items()} == {"a": "skipped", "b": "succeeded"}


@MODES
def test_retry_after_timeout_resumes_the_same_run(*, deferrable: bool, service: LocalService) -> None:
    service.runs({"minimum_duration": 1})
    memory = Memory()
    arguments: dict[str, Any] = {"task_id": "t", "stream_id": "sync.a", "deferrable": deferrable}
    with pytest.raises(RunTimeoutError, match="may still be active"):
        run(EltStreamRunOperator(timeout=0.3, **arguments), memory)
    assert memory.kept
    assert not run(EltStreamRunOperator(**arguments), memory)["attached"]
    assert len(service.journal_runs("sync.a")) == 1


@MODES
def test_retry_continues_with_the_runs_of_a_disabled_sync(*, deferrable: bool, service: LocalService) -> None:
    service.runs({"minimum_duration": 1})
    memory = Memory()
    arguments: dict[str, Any] = {"task_id": "t", "sync_id": "sync", "on_kill": "disable", "deferrable": deferrable}
    with pytest.raises(RunTimeoutError, match="2 of 2 streams failed"):
        run(EltSyncRunOperator(timeout=0.3, **arguments), memory)
    assert run(EltSyncRunOperator(**arguments), memory)["outcome"] == "succeeded"
    assert [len(service.journal_runs(f"sync.{name}")) for name in "ab"] == [1, 1]
    # A new run is refused.
    memory.max_tries += 1
    with pytest.raises(RunConflictError, match="is disabled"):
        run(EltSyncRunOperator(**arguments), memory)


@MODES
@pytest.mark.parametrize("change", [{"new_name": "renamed"}, {"new_folder_path": "moved"}])
def test_publication_under_a_new_name_can_be_retried(
    change: dict[str, Any], *, deferrable: bool, service: LocalService
) -> None:
    memory = Memory()
    arguments: dict[str, Any] = {"transform_name": "table", "folder_path": "models", "deferrable": deferrable} | change
    task = TransformPublishOperator(task_id="t", **arguments)
    assert run(task, memory)["resource_id"] == "table"
    assert run(copy_of(task), memory)["resource_id"] == "table"
    assert len(service.journal_requests("/transforms/table/publish")) == 1
    # A cleared task publishes the same transform again.
    memory.max_tries += 1
    assert run(copy_of(task), memory)["resource_id"] == "table"
    assert len(service.journal_requests("/transforms/table/publish")) == 2
    # A task that has not published the transform does not use the new name.
    with pytest.raises(UnknownNameError):
        run(copy_of(task))


def test_execution_timeout_holds_while_deferred(service: LocalService) -> None:
    service.runs({"minimum_duration": 60})
    task = EltStreamRunOperator(task_id="t", stream_id="sync.b", deferrable=True)
    task.execution_timeout = timedelta(seconds=0.2)
    with pytest.raises(RunTimeoutError):
        run(task)


@pytest.mark.parametrize("policy", ["leave", "disable"])
def test_on_kill_logs_the_running_run_and_disables_by_policy(
    policy: Any, service: LocalService, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    service.runs({"minimum_duration": 600})
    task = EltStreamRunOperator(task_id="t", stream_id="sync.a", deferrable=True, on_kill=policy)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context_of(Memory()))
    for kill in (task.on_kill, lambda: asyncio.run(deferred.value.trigger.on_kill())):
        send(service, "POST", "/elt_syncs/sync/enable")
        capsys.readouterr()
        caplog.clear()
        kill()
        # Tasks log to standard output here. Triggers log through the standard library.
        assert "continues, because the service cannot cancel runs" in capsys.readouterr().out + caplog.text
        assert send(service, "GET", "/elt_syncs/sync")["enabled"] == (policy == "leave")


def test_records_reach_the_destination(folder: Path) -> None:
    run(ReverseEtlRunOperator(task_id="t", reverse_etl_sync_id="out"))
    written = folder / "out" / "ids.jsonl"
    assert [json.loads(line)["id"] for line in written.read_text().splitlines()] == [1]
