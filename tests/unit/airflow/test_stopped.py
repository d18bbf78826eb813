"""Which states of a task mean that it was ended, as Airflow's own answer gives them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_datapipe.triggers.stopped import is_ended

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


def answer(monkeypatch: pytest.MonkeyPatch, states: dict[str, Any]) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []

    def states_of(**question: Any) -> dict[str, Any]:
        asked.append(question)
        return states

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states_of))
    return asked
