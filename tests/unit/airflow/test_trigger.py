"""Trigger of runs on a real event loop with a real server: events, deferral times, and ended tasks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.errors import LostContactError
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason, WaitPolicy
from airflow_provider_datapipe.triggers import run as trigger_module
from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger, check_event, hold_seconds
from airflow_provider_datapipe.triggers.stopped import is_ended
from tests.support.responses import LONG_AGO
from tests.support.scripted_server import Reply, ScriptedServer
from tests.support.waited_run import connection

RUN = {"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": LONG_AGO}
GOING = Reply(body=RUN | {"status": "RUNNING"})
DONE = Reply(body=RUN | {"status": "COMPLETED", "finished_at": "2026-01-01T00:00:09.000Z"})
WAITING = Batch("elt_stream", waiting=[RunRef("elt_stream", "s", "orders", run_id="r1")])
STATUS_URL = "/elt_stream_runs?elt_stream_id=s&starting_after=r0&limit=1&sort_direction=asc"


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, *script: Reply) -> Iterator[ScriptedServer]:
    """Run a server with a script, and set the connection of the triggers to it."""
    with ScriptedServer(script) as server:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", connection(server.url))
        yield server


def trigger(hold: dict[str, Any] | None = None, batch: Batch = WAITING, **policy: float) -> DatapipeRunTrigger:
    wait_policy = WaitPolicy(**({"poll_interval": 0.05} | policy))
    return DatapipeRunTrigger("datapipe_test", batch.as_dict(), wait_policy.as_dict(), **(hold or {}))


def event_of(waiting: DatapipeRunTrigger) -> dict[str, Any]:
    async def first() -> Any:
        events = waiting.run()
        event = await anext(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        return event.payload

    payload: dict[str, Any] = json.loads(json.dumps(asyncio.run(first())))
    return payload


def end_of(event: dict[str, Any]) -> WaitOutcome:
    (end,) = Batch.from_dict(event["batch"]).ended
    return end


def test_trigger_sends_one_event_when_the_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, GOING, Reply(500), GOING, DONE) as server:
        event = event_of(trigger())
    assert event["status"] == "success"
    assert (end_of(event).reason, end_of(event).outcome) == (WaitOutcomeReason.RUN_OVER, Outcome.SUCCEEDED)
    assert len(server.seen) == 4


def test_unreachable_service_is_lost_contact(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, Reply(502, b"<html>")):
        assert end_of(event_of(trigger(contact_limit=0.2))).reason is WaitOutcomeReason.LOST_CONTACT


def test_deadline_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, GOING):
        assert end_of(event_of(trigger(deadline=time.time() + 0.3))).reason is WaitOutcomeReason.TIMEOUT


def test_unusable_connection_sends_an_error_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", connection("http://api.example.com"))
    event = event_of(trigger())
    assert event["status"] == "error"
    assert "Plain http" in event["message"]


def test_missing_connection_sends_an_error_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_DATAPIPE_TEST", raising=False)
    event = event_of(trigger())
    assert event["status"] == "error"
    assert "datapipe_test" in event["message"]


@pytest.mark.parametrize("event", [{}, {"status": "error", "message": "no connection."}, {"status": "odd"}])
def test_event_without_a_batch_raises_lost_contact(event: dict[str, Any]) -> None:
    with pytest.raises(LostContactError, match="The run may still be active"):
        check_event(event)


def held_until(deferred_at: float, minimum: float, monkeypatch: pytest.MonkeyPatch, *, is_scheduled: bool) -> float:
    """Return the time of the event of a run that has finished."""
    with serving(monkeypatch, DONE):
        waiting = trigger(hold={"deferred_at": deferred_at, "minimum_deferral_time": minimum})
        if is_scheduled:
            waiting.task_instance = SimpleNamespace(task_id="t")  # type: ignore[assignment]  # any object is enough
        event_of(waiting)
        return time.time()


@pytest.mark.slow
def test_early_event_is_held_until_the_minimum_deferral_time(monkeypatch: pytest.MonkeyPatch) -> None:
    deferred_at = time.time()
    assert held_until(deferred_at, 2, monkeypatch, is_scheduled=True) >= deferred_at + 2


def test_event_is_not_held_without_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    deferred_at = time.time()
    assert held_until(deferred_at, 3600, monkeypatch, is_scheduled=False) < deferred_at + 3600


def test_deferral_time_survives_a_move_to_another_triggerer() -> None:
    path, stored = trigger(hold={"deferred_at": 100.0, "minimum_deferral_time": 8.0}).serialize()
    moved = DatapipeRunTrigger(**json.loads(json.dumps(stored)))
    assert moved.serialize() == (path, stored)
    assert path == f"{DatapipeRunTrigger.__module__}.{DatapipeRunTrigger.__qualname__}"
    assert Batch.from_dict(moved.batch) == WAITING
    assert hold_seconds(moved.deferred_at or 0.0, moved.minimum_deferral_time, 103.0) == 5.0
    assert hold_seconds(moved.deferred_at or 0.0, moved.minimum_deferral_time, 109.0) == 0.0
    # A wrong clock holds an event no longer than the minimum.
    assert hold_seconds(86_500.0, 90.0, 100.0) == 90.0


def test_trigger_without_a_hold_has_no_argument_for_it() -> None:
    # A triggerer with an earlier version of the provider does not know these arguments.
    assert set(trigger().serialize()[1]) == {"datapipe_conn_id", "batch", "policy", "kill_policy"}


@pytest.mark.parametrize(
    ("states", "has_ended"),
    [
        *(([state], True) for state in ("success", "failed", "skipped", "removed")),
        *(([state], False) for state in (None, "scheduled", "queued", "running", "restarting")),
        *(([state], False) for state in ("deferred", "up_for_retry")),
        # The task was deleted.
        ([], True),
    ],
)
@pytest.mark.parametrize("map_index", [-1, 3])
def test_state_of_a_task_decides_whether_it_has_ended(
    states: list[str | None], map_index: int, monkeypatch: pytest.MonkeyPatch, *, has_ended: bool
) -> None:
    asked: list[dict[str, Any]] = []
    name = "t" if map_index == -1 else f"t_{map_index}"

    def states_of(**question: Any) -> dict[str, Any]:
        asked.append(question)
        return {"r": {name: states[0]}} if states else {}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states_of))
    task = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=map_index)
    assert is_ended(task) == has_ended
    assert asked == [{"dag_id": "d", "run_ids": ["r"], "task_ids": ["t"], "map_index": map_index}]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(body={"data": [RUN | {"status": "RUNNING"}], "has_more": False}), "run r1 continues"),
        # The run has ended, so no message is needed.
        (Reply(body={"data": [RUN | {"status": "COMPLETED", "finished_at": LONG_AGO}], "has_more": False}), ""),
        # A run of unknown state is logged, too.
        (Reply(500), "the run that was requested continues"),
        (Reply(delay=60), "the run that was requested continues"),
    ],
    ids=["running", "finished", "broken", "no response"],
)
def test_a_trigger_polls_once_more_before_it_names_running_runs(
    reply: Reply,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(trigger_module, "LAST_POLL_SECONDS", 0.5 if reply.delay else 60)
    requested = Batch("elt_stream", waiting=[RunRef("elt_stream", "s", "orders", status_url=STATUS_URL)])
    with serving(monkeypatch, reply) as server:
        asyncio.run(trigger(batch=requested).on_kill())
    assert len(server.seen) == 1
    # Airflow logs triggers to standard output, or not, depending on the imported modules.
    logged = capsys.readouterr().out + caplog.text
    assert message in logged
    assert bool(message) == ("continues" in logged)
