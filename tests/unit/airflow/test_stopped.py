"""Which states of a task mean that it was ended, and what a trigger then says."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.reference import Reference
from airflow_provider_datapipe.runs.wait import WaitPolicy
from airflow_provider_datapipe.triggers import run as trigger_module
from airflow_provider_datapipe.triggers.stopped import is_ended
from tests.support.scripted_server import Reply, ScriptedServer

RUN = {"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2026-01-01T00:00:00.000Z"}
STATUS_URL = "/elt_stream_runs?elt_stream_id=s&starting_after=r0&limit=1&sort_direction=asc"
TASK = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "removed"])
def test_a_marked_task_has_ended(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, {"r": {"t": state}})
    assert is_ended(TASK)


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "running", "restarting", "deferred", "up_for_retry"])
def test_a_task_that_goes_on_has_not(state: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, {"r": {"t": state}})
    assert not is_ended(TASK)


def test_a_task_that_was_deleted_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, {})
    assert is_ended(TASK)


def test_a_mapped_task_is_asked_for_by_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, {"r": {"t_3": "failed"}})
    assert is_ended(SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=3))
    assert asked == [{"dag_id": "d", "run_ids": ["r"], "task_ids": ["t"], "map_index": 3}]


def page(**fields: str) -> Reply:
    return Reply(body={"data": [RUN | fields], "has_more": False})


def answer(monkeypatch: pytest.MonkeyPatch, states: dict[str, Any]) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []

    def states_of(**question: Any) -> dict[str, Any]:
        asked.append(question)
        return states

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states_of))
    return asked


def test_a_trigger_polls_once_more_before_it_names_running_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    requested = Reference("elt_stream", "s", "orders", status_url=STATUS_URL)
    for script, told in (
        ([page(status="RUNNING")], "run r1 goes on"),
        # Whoever waited for it elsewhere has seen its end.
        ([page(status="COMPLETED", finished_at=RUN["started_at"])], ""),
        # Not knowing is no reason to say nothing.
        ([Reply(500)], "the run that was requested goes on"),
        # No answer in time.
        ([Reply(delay=60)], "the run that was requested goes on"),
    ):
        monkeypatch.setattr(trigger_module, "LAST_LOOK_SECONDS", 0.5 if script[0].delay else 60)
        caplog.clear()
        with ScriptedServer(script) as server:
            connection = {"conn_type": "datapipe", "host": server.url, "password": "a-long-key"}
            monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", json.dumps(connection))
            batch = Batch("elt_stream", waiting=[requested])
            waiting = trigger_module.DatapipeRunTrigger("datapipe_test", batch.as_dict(), WaitPolicy().as_dict())
            asyncio.run(waiting.on_kill())
        assert len(server.seen) == 1
        # Airflow has triggers log to standard output, once something of it was imported that says so.
        said = capsys.readouterr().out + caplog.text
        assert told in said
        assert bool(told) == ("goes on" in said)
