"""The trigger on a real event loop against a real server."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Reference
from airflow_provider_datapipe.runs.wait import EndReason, WaitPolicy
from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger, hold_seconds
from tests.support.scripted_server import Reply, ScriptedServer

RUN = {"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2026-01-01T00:00:00.000Z"}
GOING = Reply(body=RUN | {"status": "RUNNING"})
DONE = Reply(body=RUN | {"status": "COMPLETED", "finished_at": "2026-01-01T00:00:09.000Z"})
WAITING = Batch("elt_stream", waiting=[Reference("elt_stream", "s", "orders", run_id="r1")])


def connect(monkeypatch: pytest.MonkeyPatch, host: str, key: str = "k") -> None:
    connection = {"conn_type": "datapipe", "host": host, "password": key, "extra": {"retry_budget": 0}}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", json.dumps(connection))


def trigger(hold: dict[str, Any] | None = None, **policy: float) -> DatapipeRunTrigger:
    patience = WaitPolicy(**({"poll_interval": 0.05} | policy))
    return DatapipeRunTrigger("datapipe_test", WAITING.as_dict(), patience.as_dict(), **(hold or {}))


def event_of(waiting: DatapipeRunTrigger) -> dict[str, Any]:
    async def first() -> Any:
        events = waiting.run()
        event = await anext(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        return event.payload

    payload: dict[str, Any] = json.loads(json.dumps(asyncio.run(first())))
    return payload


def test_one_event_when_the_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([GOING, Reply(500), GOING, DONE]) as server:
        connect(monkeypatch, server.url)
        event = event_of(trigger())
    assert event["status"] == "success"
    (end,) = Batch.from_dict(event["batch"]).ended
    assert (end.reason, end.outcome) == (EndReason.RUN_OVER, Outcome.SUCCEEDED)
    assert len(server.seen) == 4


def test_a_lost_service_is_no_failed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([Reply(502, b"<html>")]) as server:
        connect(monkeypatch, server.url)
        event = event_of(trigger(contact_limit=0.2))
    (end,) = Batch.from_dict(event["batch"]).ended
    assert end.reason is EndReason.LOST_CONTACT


def test_an_unusable_connection_is_an_event_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "http://api.example.com")
    event = event_of(trigger())
    assert event["status"] == "error"
    assert "Plain http" in event["message"]


def test_a_connection_that_is_not_there_is_an_event_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_DATAPIPE_TEST", raising=False)
    event = event_of(trigger())
    assert event["status"] == "error"
    assert "datapipe_test" in event["message"]


def test_the_deadline_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([GOING]) as server:
        connect(monkeypatch, server.url)
        event = event_of(trigger(deadline=time.time() + 0.3))
    (end,) = Batch.from_dict(event["batch"]).ended
    assert end.reason is EndReason.TIMEOUT


def held_until(deferred_at: float, minimum: float, monkeypatch: pytest.MonkeyPatch, *, is_scheduled: bool) -> float:
    """Return the time of the event of a run that has finished."""
    with ScriptedServer([DONE]) as server:
        connect(monkeypatch, server.url)
        waiting = trigger(hold={"deferred_at": deferred_at, "minimum_deferral_time": minimum})
        if is_scheduled:
            waiting.task_instance = SimpleNamespace(task_id="t")  # type: ignore[assignment]  # any object does
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
    moved = DatapipeRunTrigger(**trigger(hold={"deferred_at": 100.0, "minimum_deferral_time": 8.0}).serialize()[1])
    assert hold_seconds(moved.deferred_at or 0.0, moved.minimum_deferral_time, 103.0) == 5.0
    assert hold_seconds(moved.deferred_at or 0.0, moved.minimum_deferral_time, 109.0) == 0.0


def test_wrong_clock_holds_an_event_no_longer_than_the_minimum() -> None:
    assert hold_seconds(86_500.0, 90.0, 100.0) == 90.0


def test_trigger_without_a_hold_has_no_argument_for_it() -> None:
    # A triggerer with an earlier version of the provider does not know these arguments.
    assert set(trigger().serialize()[1]) == {"datapipe_conn_id", "batch", "policy", "kill_policy"}
