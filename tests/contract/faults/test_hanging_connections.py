"""Tests of a secrets backend that hangs when a trigger reads the Airflow connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout

from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.runs import clients
from airflow_provider_datapipe.runs.errors import LostContactError
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor
from airflow_provider_datapipe.triggers.events import EltStreamRunEventTrigger
from tests.support.tasks import run
from tests.support.waited_run import OPERATORS, WaitedRun, connection, operator


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let the secrets backend hang once for each item of this list. Each read may take 0.2 s."""
    left: list[bool] = []
    read = DatapipeHook.aget_connection

    async def reading(self: DatapipeHook, conn_id: str) -> Any:
        if left:
            left.pop()
            await asyncio.sleep(3600)
        return await read(conn_id)

    monkeypatch.setattr(DatapipeHook, "aget_connection", reading)
    monkeypatch.setattr(clients, "_READ_LIMIT", 0.2)
    monkeypatch.setattr(clients, "_FIRST_PAUSE", 0.05)
    return left


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(OPERATORS))
def test_a_wait_survives_a_backend_that_hangs_for_a_while(
    kind: str, hangs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs += [True] * 3
    with WaitedRun() as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        assert run(operator(kind, deferrable=True))["outcome"] == "succeeded"
    assert hangs == []


def test_a_backend_that_hangs_ends_a_wait_at_its_deadline(hangs: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    hangs += [True] * 1000
    with WaitedRun() as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        with pytest.raises(
            LostContactError, match="The Airflow connection `datapipe_default` could not be read within"
        ):
            run(operator("elt_stream", deferrable=True, timeout=1))
    assert len(hangs) > 900


def test_a_backend_that_hangs_ends_a_sensor_at_its_timeout(hangs: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    hangs += [True] * 1000
    with WaitedRun(1000) as service:
        service.started.append("elt_stream")
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        sensor = EltStreamRunSensor(
            task_id="t", stream_id="s", newest=True, deferrable=True, poke_interval=0.1, timeout=1
        )
        with pytest.raises(AirflowSensorTimeout):
            run(sensor)


async def test_a_watcher_survives_a_backend_that_hangs_for_a_while(
    hangs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs += [True] * 3
    with WaitedRun(0) as service:
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", connection(service.url))
        watcher = EltStreamRunEventTrigger("s", poll_interval=0.1)

        waiting: asyncio.Future[Any] = asyncio.ensure_future(anext(watcher.run()))
        async with asyncio.timeout(60):
            while len(service.seen) < 2:  # noqa: ASYNC110 - the service runs in a thread of its own
                await asyncio.sleep(0.01)
            # A run starts and ends.
            service.started.append("elt_stream")
            service._polled["elt_stream"] = 1
            event = await waiting
    assert event.payload["run_id"] == "elt_stream-run"
