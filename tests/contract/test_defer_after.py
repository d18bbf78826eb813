"""Tests of the wait in the worker before a deferral, against a real HTTP service, in simulated time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred

from airflow_provider_datapipe.operators.orchestration import OrchestrationRunOperator
from airflow_provider_datapipe.runs.worker_wait import WITHOUT_HISTORY
from airflow_provider_datapipe.sensors.run import EltStreamRunSensor, OrchestrationRunSensor
from tests.support.run_service import RunService, orchestration_run, stream_run, timestamp
from tests.support.simulated_time import simulated_time
from tests.support.tasks import Memory, context_of

MINUTES = 600.0


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunService]:
    """Return a service of one orchestration, in simulated time, with the defaults of a user."""
    monkeypatch.delenv("AIRFLOW__DATAPIPE__DEFER_AFTER")
    with simulated_time(lambda: True), RunService() as running:
        connect(monkeypatch, running)
        yield running


def connect(monkeypatch: pytest.MonkeyPatch, service: RunService, **extra: Any) -> None:
    connection = {"conn_type": "datapipe", "host": service.url, "password": "k", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))


def add_history(service: RunService, duration: float, count: int = 5) -> None:
    """Add finished runs of the last days."""
    for day in range(1, count + 1):
        start = datetime.fromtimestamp(time.time(), UTC) - timedelta(days=day)
        end = start + timedelta(seconds=duration)
        service.runs["orchestration_runs"].append(
            orchestration_run(
                f"old{day}", "COMPLETED", due=timestamp(start), started=timestamp(start), finished=timestamp(end)
            )
        )


def operator(**arguments: Any) -> OrchestrationRunOperator:
    return OrchestrationRunOperator(task_id="t", orchestration_id="o", deferrable=True, **arguments)


def sensor(**arguments: Any) -> OrchestrationRunSensor:
    return OrchestrationRunSensor(
        task_id="t", orchestration_id="o", after="2026-01-01T00:00:00+00:00", deferrable=True, **arguments
    )


def seconds_in_worker(task: Any) -> float | None:
    """Return the seconds until a task defers, None if it succeeds in the worker."""
    began = time.time()
    try:
        task.execute(context_of(Memory()))
    except TaskDeferred:
        return time.time() - began
    return None


@pytest.mark.slow
@pytest.mark.parametrize("history", [None, 0.5, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("duration", [0.1, 1.0, 4.0])
def test_short_run_succeeds_without_a_deferral(history: float | None, duration: float, service: RunService) -> None:
    service.duration = duration
    if history is not None:
        # Earlier runs need not have been shorter than this one.
        add_history(service, max(history, duration))
    began = time.time()
    assert seconds_in_worker(operator()) is None
    # Polls at 0.2, 0.6, 1.4, 2.4, 3.4, 4.4 s.
    assert time.time() - began < 2 * duration + 0.5


@pytest.mark.parametrize("duration", [0.1, 1.0, 5.0, 60.0])
def test_blocking_task_notices_the_end_as_early(duration: float, service: RunService) -> None:
    service.duration = duration
    began = time.time()
    OrchestrationRunOperator(task_id="t", orchestration_id="o").execute(context_of(Memory()))
    assert time.time() - began < 1.5 * duration + 0.5


def test_long_run_defers_at_once(service: RunService) -> None:
    service.duration = MINUTES
    add_history(service, MINUTES)
    assert seconds_in_worker(operator()) == pytest.approx(0, abs=0.1)


def test_long_run_without_history_defers_after_seconds(service: RunService) -> None:
    service.duration = MINUTES
    assert seconds_in_worker(operator()) == pytest.approx(WITHOUT_HISTORY, abs=0.5)


def test_long_run_costs_few_requests_before_the_deferral(service: RunService) -> None:
    service.duration = MINUTES
    seconds_in_worker(operator())
    # Seven of them are polls.
    assert service.requests.total() <= 10


@pytest.mark.parametrize("task", [operator, sensor])
def test_deferral_is_logged(task: Any, service: RunService, capsys: pytest.CaptureFixture[str]) -> None:
    service.duration = MINUTES
    with pytest.raises(TaskDeferred):
        task(defer_after=0).execute(context_of(Memory()))
    assert "check that a triggerer is running" in capsys.readouterr().out


@pytest.mark.parametrize("defer_after", [0, 3, timedelta(seconds=3), 30])
def test_argument_decides_when_the_task_defers(defer_after: Any, service: RunService) -> None:
    service.duration = MINUTES
    expected = defer_after.total_seconds() if isinstance(defer_after, timedelta) else defer_after
    assert seconds_in_worker(operator(defer_after=defer_after)) == pytest.approx(expected, abs=0.5)


def test_connection_decides_when_the_task_defers(service: RunService, monkeypatch: pytest.MonkeyPatch) -> None:
    service.duration = MINUTES
    connect(monkeypatch, service, defer_after=7)
    assert seconds_in_worker(operator()) == pytest.approx(7, abs=0.5)


def test_configuration_decides_when_the_task_defers(service: RunService, monkeypatch: pytest.MonkeyPatch) -> None:
    service.duration = MINUTES
    monkeypatch.setenv("AIRFLOW__DATAPIPE__DEFER_AFTER", "9")
    assert seconds_in_worker(operator()) == pytest.approx(9, abs=0.5)


def test_fixed_poll_interval_is_kept_in_the_worker(service: RunService) -> None:
    service.duration = MINUTES
    # A second poll would come after the seconds without history.
    assert seconds_in_worker(operator(poll_interval=15)) == pytest.approx(0, abs=0.1)


def test_deferral_continues_with_the_same_run(service: RunService) -> None:
    service.duration = MINUTES
    with pytest.raises(TaskDeferred) as deferral:
        operator().execute(context_of(Memory()))
    (waiting,) = deferral.value.trigger.batch["waiting"]
    assert (waiting["run_id"], service.requests["request_run"]) == ("new0", 1)


def test_trigger_polls_no_more_densely_than_the_history_asks(service: RunService) -> None:
    service.duration = MINUTES
    with pytest.raises(TaskDeferred) as deferral:
        operator().execute(context_of(Memory()))
    assert "first_interval" not in deferral.value.trigger.policy


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan")])
@pytest.mark.parametrize("task", [operator, sensor])
def test_wrong_argument_is_refused(task: Any, wrong: float) -> None:
    with pytest.raises(ValueError, match="defer_after"):
        task(defer_after=wrong)


def add_active_run(service: RunService) -> None:
    now = timestamp(datetime.fromtimestamp(time.time(), UTC))
    service.runs["orchestration_runs"].append(orchestration_run("active", "RUNNING", due=now, started=now))


@pytest.mark.parametrize("duration", [1.0, 4.0])
def test_sensor_waits_for_a_short_active_run_in_the_worker(duration: float, service: RunService) -> None:
    service.duration = duration
    add_history(service, duration)
    service.runs["orchestration_runs"].clear()
    add_active_run(service)
    assert seconds_in_worker(sensor()) is None


def test_sensor_defers_at_once_for_a_long_active_run(service: RunService) -> None:
    service.duration = MINUTES
    add_history(service, MINUTES)
    # Only runs that start later count for the sensor.
    add_active_run(service)
    waiting = OrchestrationRunSensor(task_id="t", orchestration_id="o", run_id="active", deferrable=True)
    assert seconds_in_worker(waiting) == pytest.approx(0, abs=0.1)


def test_sensor_waits_seconds_for_an_active_run_without_history(service: RunService) -> None:
    service.duration = MINUTES
    add_active_run(service)
    assert seconds_in_worker(sensor()) == pytest.approx(WITHOUT_HISTORY, abs=0.5)


def test_sensor_without_an_active_run_defers_at_once(service: RunService) -> None:
    assert seconds_in_worker(sensor()) == pytest.approx(0, abs=0.1)


def test_sensor_polls_as_long_as_its_argument(service: RunService) -> None:
    assert seconds_in_worker(sensor(defer_after=4)) == pytest.approx(4, abs=0.5)


@pytest.mark.parametrize("history", [None, 5.0, 600.0])
def test_stream_sensor_without_an_active_run_defers_at_once(history: float | None, service: RunService) -> None:
    for day in range(1, 5 if history else 1):
        start = datetime.fromtimestamp(time.time(), UTC) - timedelta(days=day)
        service.runs["elt_stream_runs"].append(
            stream_run(
                f"old{day}",
                "COMPLETED",
                started=timestamp(start),
                finished=timestamp(start + timedelta(seconds=history or 0)),
            )
        )
    after = datetime.fromtimestamp(time.time(), UTC).isoformat()
    waiting = EltStreamRunSensor(task_id="t", stream_id="s", after=after, deferrable=True)
    assert seconds_in_worker(waiting) == pytest.approx(0, abs=0.1)


def test_sensor_of_a_planned_run_defers_at_once(service: RunService) -> None:
    due = timestamp(datetime.fromtimestamp(time.time(), UTC) + timedelta(hours=2))
    service.runs["orchestration_runs"].append(orchestration_run("planned", "SCHEDULED", due=due))
    waiting = OrchestrationRunSensor(task_id="t", orchestration_id="o", run_id="planned", deferrable=True)
    assert seconds_in_worker(waiting) == pytest.approx(0, abs=0.1)


def test_refused_sensor_defers_and_polls_after_retry_after(service: RunService) -> None:
    add_active_run(service)
    service.refusal, service.retry_after = 429, 120
    began = time.time()
    with pytest.raises(TaskDeferred) as deferral:
        sensor(defer_after=30).execute(context_of(Memory()))
    assert time.time() - began < 5
    assert deferral.value.trigger.poll_after >= began + 120


def test_sensor_whose_time_is_over_in_the_worker_fails(service: RunService) -> None:
    with pytest.raises(AirflowSensorTimeout, match="Time is over: no run of o"):
        sensor(defer_after=30, timeout=2).execute(context_of(Memory()))


def test_sensor_polls_at_its_interval_after_the_first_seconds(service: RunService) -> None:
    assert seconds_in_worker(sensor(defer_after=3600, poke_interval=300)) == pytest.approx(3600, abs=1)
    assert service.requests.total() < 60


def test_sensor_without_an_interval_polls_in_the_worker(service: RunService) -> None:
    assert seconds_in_worker(sensor(defer_after=4, poke_interval=0)) == pytest.approx(4, abs=0.5)


def test_interval_that_leaves_no_time_for_a_second_poll(service: RunService) -> None:
    service.duration = 1.0
    assert seconds_in_worker(operator(poll_interval=15, defer_after=10)) == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize("option", ["DEFER_AFTER", "MINIMUM_DEFERRAL_TIME"])
def test_wrong_configuration_fails_before_the_start(
    option: str, service: RunService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__DATAPIPE__{option}", "5s")
    with pytest.raises(ValueError, match=option.lower()):
        operator().execute(context_of(Memory()))
    assert service.requests["request_run"] == 0
