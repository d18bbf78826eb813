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
from airflow_provider_datapipe.triggers import run as trigger_module
from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger
from tests.support.scripted_server import Reply, ScriptedServer

RUN = {"id": "r1", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2026-01-01T00:00:00.000Z"}
GOING = Reply(body=RUN | {"status": "RUNNING"})
DONE = Reply(body=RUN | {"status": "COMPLETED", "finished_at": "2026-01-01T00:00:09.000Z"})
WAITING = Batch("elt_stream", waiting=[Reference("elt_stream", "s", "orders", run_id="r1")])


def connect(monkeypatch: pytest.MonkeyPatch, host: str, key: str = "k") -> None:
    connection = {"conn_type": "datapipe", "host": host, "password": key, "extra": {"retry_budget": 0}}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", json.dumps(connection))


def trigger(**policy: float) -> DatapipeRunTrigger:
    return DatapipeRunTrigger(
        "datapipe_test", WAITING.as_dict(), WaitPolicy(**({"poll_interval": 0.05} | policy)).as_dict()
    )


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


def test_a_connection_that_can_not_be_used_is_an_event_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_early_event_is_kept_back_where_there_is_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger_module, "SETTLE_SECONDS", 1.0)
    with ScriptedServer([DONE]) as server:
        connect(monkeypatch, server.url)
        inline = trigger()
        scheduled = trigger()
        scheduled.task_instance = SimpleNamespace(task_id="t")  # type: ignore[assignment]  # what it is does not matter
        began = time.monotonic()
        event_of(inline)
        between = time.monotonic()
        event_of(scheduled)
        ended = time.monotonic()
    # The one difference between the two: no wall-clock bound is asserted, only which took a second more.
    assert ended - between >= 1.0
    assert between - began < ended - between


def test_cancelling_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> set[asyncio.Task[Any]]:
        events = trigger().run()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return asyncio.all_tasks() - {asyncio.current_task()}

    with ScriptedServer([GOING]) as server:
        connect(monkeypatch, server.url)
        assert asyncio.run(go()) == set()
