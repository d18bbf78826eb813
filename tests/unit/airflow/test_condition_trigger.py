"""Trigger of sensors, on a real event loop with a real server."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_datapipe.runs.conditions.base import Check
from airflow_provider_datapipe.triggers.condition import DatapipeConditionTrigger
from tests.support import responses
from tests.support.scripted_server import Reply, ScriptedServer
from tests.support.waited_run import connection

GONE = Reply(404, {"error_code": "not_found", "message": "no such sync"})
WRONG_KEY = Reply(401, {"error_code": "unauthorized", "message": "wrong key"})
DOWN = Reply(503)


def count(number: int) -> Reply:
    return Reply(body={"count": number})


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all waits."""
    monkeypatch.setattr("airflow_provider_datapipe.runs.backoff._SHORTEST", 0.05)


def event_of(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> dict[str, Any]:
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_TEST", connection(server.url))
    if "condition" not in arguments:
        arguments = {"condition": "failed_records", "reverse_etl_sync_id": "e", "at_most": 1} | arguments
    trigger = DatapipeConditionTrigger(**{"datapipe_conn_id": "datapipe_test", "poll_interval": 0.1} | arguments)

    async def first() -> Any:
        async with asyncio.timeout(20):
            return (await anext(trigger.run())).payload

    event: dict[str, Any] = json.loads(json.dumps(asyncio.run(first())))
    return event


def test_trigger_polls_through_errors_until_the_condition_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    script = [count(9), DOWN, Reply(0), WRONG_KEY, Reply(body=b"<html>"), count(2), count(1)]
    with ScriptedServer(script) as server:
        event = event_of(server, monkeypatch)
    assert event["status"] == "success"
    assert Check.from_dict(event["check"]).result == {"reverse_etl_sync_id": "e", "failed_records": 1, "at_most": 1}
    assert len(server.seen) == len(script)


@pytest.mark.parametrize(
    ("script", "arguments", "status", "least"),
    [
        ([GONE], {}, "again", 1),
        ([WRONG_KEY], {}, "again", 1),
        # A resource that existed is polled over the grace period.
        ([count(9), GONE, count(9), GONE], {}, "again", 6),
        # The worker may not see the resource yet.
        ([GONE, WRONG_KEY, count(0)], {"retries_final_errors": True}, "success", 3),
        ([count(0)], {"reverse_etl_sync_id": "None"}, "again", 0),
        ([count(0)], {"deadline": 1.0}, "timeout", 0),
    ],
    ids=["missing", "wrong key", "deleted", "retries_final_errors", "invalid field", "past deadline"],
)
def test_permanent_failures_are_returned_to_the_worker(
    script: list[Reply], arguments: dict[str, Any], status: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.conditions.sensor_backoff.GRACE", 0.3)
    with ScriptedServer(script) as server:
        assert event_of(server, monkeypatch, **arguments)["status"] == status
    assert len(server.seen) == least if least <= len(script) else len(server.seen) >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [count(9), DOWN, Reply(429, headers={"Retry-After": "3600"}), Reply(delay=600)],
    ids=["not met", "down", "long Retry-After", "hangs"],
)
def test_deadline_ends_the_wait_for_any_service_behavior(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = time.time() + 0.5
    with ScriptedServer([reply]) as server:
        event = event_of(server, monkeypatch, deadline=deadline)
    assert event["status"] == "timeout"
    assert event["deadline"] == deadline
    assert time.time() >= deadline


def test_lost_contact_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class ShortContactLimit:
        contact_limit = 0.3

    monkeypatch.setattr("airflow_provider_datapipe.runs.conditions.sensor_backoff.WaitPolicy", ShortContactLimit)
    with ScriptedServer([DOWN]) as server:
        event = event_of(server, monkeypatch)
    assert event["status"] == "error"
    assert "Contact with the service was lost" in event["message"]


def test_awaited_run_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.log_lines.progress._SHORTEST_GAP", 0.05)
    going = {"id": "r", "reverse_etl_sync_id": "e", "started_at": "2026-01-01T00:00:00.000Z", "status": "RUNNING"}
    reported: list[str] = []
    monkeypatch.setattr(
        DatapipeConditionTrigger,
        "log",
        Mock(info=lambda line, *_: reported.append(line), log=lambda _, line: reported.append(line)),
    )
    with ScriptedServer([Reply(body=going)]) as server:
        run = {"condition": "run", "kind": "reverse_etl", "reverse_etl_sync_id": "e", "run_id": "r"}
        event = event_of(server, monkeypatch, deadline=time.time() + 1.5, **run)
    assert event["status"] == "timeout"
    assert reported[0].startswith("Waiting: ")
    # On a busy machine, the first lines come before the first response.
    polled = [line for line in reported[1:] if "has not started" not in line]
    assert len(polled) > 1
    assert all(line.startswith("reverse ETL sync e, run r: running for ") for line in polled), reported


def test_a_stale_list_causes_no_request_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list still shows the run as active, while a direct poll shows its matching end."""
    going = {"id": "r", "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2026-01-01T00:00:00.000Z"}
    over = going | {"status": "COMPLETED", "finished_at": "2026-01-01T00:05:00.000Z"}
    listed = [Reply(body={"data": [run], "hasMore": False}) for run in (going | {"status": "RUNNING"}, over)]
    stale, current = listed
    # The list, the run, the stale list; then, after a pause, the stale list, the run and the current list.
    polls = [stale, Reply(body=over), stale, stale, Reply(body=over), current]
    script = [Reply(body=responses.elt_stream()), *polls]
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def record_pause(seconds: float, *more: Any) -> Any:
        pauses.append(seconds)
        return await sleep(seconds, *more)

    monkeypatch.setattr("airflow_provider_datapipe.triggers.condition.asyncio.sleep", record_pause)
    with ScriptedServer(script) as server:
        run = {"condition": "run", "kind": "elt_stream", "stream_id": "s", "moment_of": "end"}
        event = event_of(server, monkeypatch, poll_interval=0.2, after="2026-01-01T00:01:00+00:00", **run)
    assert event["status"] == "success"
    assert 0.2 in pauses
    assert len(server.seen) == len(script)
