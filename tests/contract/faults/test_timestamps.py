"""Tests of invalid timestamps: they affect their own field, or at worst their own wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred

from airflow_provider_datapipe.api.client import Client
from airflow_provider_datapipe.api.endpoints import connections, elt_stream_runs, orchestration_runs
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs.errors import RunError
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from tests.support.scripted_server import Reply, ScriptedServer
from tests.support.tasks import Memory, context_of, first_event, run, stored_and_made_again
from tests.support.waited_run import OPERATORS, WaitedRun, connection, operator

MODES = pytest.mark.parametrize("deferrable", [False, True], ids=["blocking", "deferred"])
KINDS = pytest.mark.parametrize("kind", list(OPERATORS))
#: What Go, .NET and others write for no time or for never.
NO_TIME = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00.000+05:00",
    "9999-12-31T23:59:59.9999999Z",
    "9999-12-31T23:59:59-12:00",
]
UNREADABLE = ["", "soon", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00+99:99", "P1D", {}, True, 1e300]
NOON = pendulum.datetime(2026, 1, 31, 12)
#: Spellings of noon.
READABLE = [
    "2026-01-31T12:00:00Z",
    "2026-01-31t12:00:00z",
    "2026-01-31 12:00:00",
    "2026-01-31T12:00:00.000000000Z",
    "2026-01-31T12:00Z",
    "2026-01-31T12:00:00 UTC",
    "2026-01-31T13:00:00+01:00",
    "2026-02-01T11:59:00+2359",
    " 2026-01-31T00:00:00-12\n",
    1769860800,
    1769860800000,
]
RUN = {
    "id": "r",
    "elt_sync_id": "y",
    "elt_stream_id": "s",
    "orchestration_id": "s",
    "due_at": "2026-01-31T12:00:00Z",
    "started_at": "2026-01-31T12:00:00Z",
    "status": "COMPLETED",
}


def read(request: Any, body: Any) -> Any:
    with ScriptedServer([Reply(body=body)]) as server, Client(Settings(server.url, "key-of-the-test")) as client:
        return client.send(request)


@pytest.mark.parametrize("text", READABLE, ids=repr)
def test_spellings_of_a_timestamp(text: object) -> None:
    shown = read(elt_stream_runs.get("r"), RUN | {"started_at": text, "finished_at": text})
    assert shown.started_at == shown.finished_at == NOON


def test_hour_24_is_the_next_day() -> None:
    assert read(elt_stream_runs.get("r"), RUN | {"started_at": "2026-01-31T24:00:00Z"}).started_at == NOON.add(hours=12)


@pytest.mark.parametrize("text", [*NO_TIME, *UNREADABLE, None], ids=repr)
def test_an_optional_timestamp_without_a_time_is_absent(text: object) -> None:
    shown = read(orchestration_runs.get("r"), RUN | {"started_at": text, "finished_at": text})
    assert (shown.started_at, shown.finished_at, shown.status) == (None, None, "COMPLETED")
    listed = read(
        connections.list_(), {"data": [{"id": "c", "integration_id": "i", "created_at": text}], "has_more": False}
    )
    assert listed.data[0].created_at is None


@pytest.mark.slow
@MODES
@KINDS
@pytest.mark.parametrize("text", NO_TIME)
def test_a_run_without_a_time_ends_with_its_status(
    text: str, kind: str, monkeypatch: pytest.MonkeyPatch, *, deferrable: bool
) -> None:
    times = {"started_at": text, "due_at": text, "finished_at": text}
    with WaitedRun(times=times, changed=(text, text)) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        result = run(operator(kind, deferrable=deferrable))
    assert result["outcome"] == "succeeded"
    assert (result["started_at"], result["finished_at"], result["duration"]) == (None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("bad", [*NO_TIME, "soon"])
def test_a_bad_timestamp_affects_no_other_wait(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share one poller of a connection, with an invalid required timestamp in one of the runs."""
    with WaitedRun(times={"started_at": bad}) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        outcomes = asyncio.run(_together([operator(kind, deferrable=True, timeout=3) for kind in OPERATORS]))
    assert outcomes[-1] == "succeeded"
    if bad != "soon":
        assert outcomes == ["succeeded"] * len(outcomes)


async def _together(tasks: list[Any]) -> list[str]:
    """Run the triggers of some tasks in one event loop."""
    triggers = []
    for task in tasks:
        with pytest.raises(TaskDeferred) as deferred:
            await asyncio.to_thread(task.execute, context_of(Memory()))
        triggers.append(stored_and_made_again(deferred.value))
    events = await asyncio.gather(*(first_event(trigger) for trigger in triggers))
    outcomes = []
    for task, event in zip(tasks, events, strict=True):
        try:
            outcomes.append(task.execute_complete(context_of(Memory()), event)["outcome"])
        except RunError as error:
            outcomes.append(type(error).__name__)
    return outcomes


@pytest.mark.parametrize("text", NO_TIME)
def test_a_run_without_a_time_does_not_satisfy_a_sensor(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assume that the run may have ended before the start of the sensor's time range."""
    with WaitedRun(0, times={"started_at": text, "finished_at": text}) as service:
        service.started.append("elt_stream")
        service._polled["elt_stream"] = 1
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        sensor = EltStreamRunSensor(task_id="t", stream_id="s", after=NOON, poke_interval=0.1, timeout=0.3)
        with pytest.raises(AirflowSensorTimeout):
            run(sensor)
