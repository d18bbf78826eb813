"""Tests of the wait in the worker before a deferral, against a real HTTP service, in simulated time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred

from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
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


def now(**later: float) -> datetime:
    return datetime.fromtimestamp(time.time(), UTC) + timedelta(**later)


def add_history(service: RunService, duration: float) -> None:
    """Add finished runs of the last days."""
    for day in range(1, 6):
        start = now(days=-day)
        times = {"started": timestamp(start), "finished": timestamp(start + timedelta(seconds=duration))}
        service.runs["orchestration_runs"].append(
            orchestration_run(f"old{day}", "COMPLETED", due=timestamp(start), **times)
        )
        service.runs["elt_stream_runs"].append(stream_run(f"old{day}", "COMPLETED", **times))


def add_active_run(service: RunService) -> None:
    started = timestamp(now())
    service.runs["orchestration_runs"].append(orchestration_run("active", "RUNNING", due=started, started=started))


def operator(**arguments: Any) -> OrchestrationRunOperator:
    return OrchestrationRunOperator(task_id="t", orchestration_id="o", deferrable=True, **arguments)


def sensor(**arguments: Any) -> OrchestrationRunSensor:
    moment = {} if "run_id" in arguments else {"after": "2026-01-01T00:00:00+00:00"}
    return OrchestrationRunSensor(task_id="t", orchestration_id="o", deferrable=True, **moment, **arguments)


def stream_sensor() -> EltStreamRunSensor:
    return EltStreamRunSensor(task_id="t", stream_id="s", after=now().isoformat(), deferrable=True)


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
        # Earlier runs may have been longer than this one.
        add_history(service, max(history, duration))
    began = time.time()
    assert seconds_in_worker(operator()) is None
    # Polls at 0.2, 0.6, 1.4, 2.4, 3.4, 4.4 s.
    assert time.time() - began < 2 * duration + 0.5


@pytest.mark.parametrize("duration", [0.1, 1.0, 5.0, 60.0])
def test_blocking_task_detects_the_end_as_early(duration: float, service: RunService) -> None:
    service.duration = duration
    began = time.time()
    OrchestrationRunOperator(task_id="t", orchestration_id="o").execute(context_of(Memory()))
    assert time.time() - began < 1.5 * duration + 0.5


#: Task, duration of earlier runs, whether a long run is active, and seconds until the deferral.
LONG_RUNS: dict[str, tuple[Callable[[], Any], float | None, bool, float]] = {
    "long history": (operator, MINUTES, False, 0),
    "no history": (operator, None, False, WITHOUT_HISTORY),
    "argument 0": (lambda: operator(defer_after=0), None, False, 0),
    "argument 3": (lambda: operator(defer_after=3), None, False, 3),
    "argument as a timedelta": (lambda: operator(defer_after=timedelta(seconds=3)), None, False, 3),
    "argument 30": (lambda: operator(defer_after=30), None, False, 30),
    # A second poll would come after the seconds without history.
    "fixed poll interval": (lambda: operator(poll_interval=15), None, False, 0),
    "poll interval beyond the argument": (lambda: operator(poll_interval=15, defer_after=10), None, False, 0),
    # Only runs that start later count for the sensor.
    "sensor of a long active run": (lambda: sensor(run_id="active"), MINUTES, True, 0),
    "sensor of an active run without history": (sensor, None, True, WITHOUT_HISTORY),
    "sensor without an active run": (sensor, None, False, 0),
    "sensor with an argument": (lambda: sensor(defer_after=4), None, False, 4),
    "sensor without an interval": (lambda: sensor(defer_after=4, poke_interval=0), None, False, 4),
    "stream without history": (stream_sensor, None, False, 0),
    "stream with short runs": (stream_sensor, 5, False, 0),
    "stream with long runs": (stream_sensor, MINUTES, False, 0),
}


@pytest.mark.parametrize("case", LONG_RUNS)
def test_task_defers_after_seconds(case: str, service: RunService) -> None:
    new_task, history, is_active, expected = LONG_RUNS[case]
    service.duration = MINUTES
    if history is not None:
        add_history(service, history)
    if is_active:
        add_active_run(service)
    task = new_task()
    assert seconds_in_worker(task) == pytest.approx(expected, abs=0.5 if expected else 0.1)
    if isinstance(task, OrchestrationRunOperator) and expected <= WITHOUT_HISTORY:
        # Seven of them are polls.
        assert service.requests.total() <= 10


def test_connection_and_configuration_decide_when_it_defers(
    service: RunService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.duration = MINUTES
    monkeypatch.setenv("AIRFLOW__DATAPIPE__DEFER_AFTER", "9")
    assert seconds_in_worker(operator()) == pytest.approx(9, abs=0.5)
    connect(monkeypatch, service, defer_after=7)
    assert seconds_in_worker(operator()) == pytest.approx(7, abs=0.5)


@pytest.mark.parametrize("task", [operator, sensor])
def test_deferral_is_logged(task: Any, service: RunService, capsys: pytest.CaptureFixture[str]) -> None:
    service.duration = MINUTES
    with pytest.raises(TaskDeferred):
        task(defer_after=0).execute(context_of(Memory()))
    assert "check that a triggerer is running" in capsys.readouterr().out


def test_deferral_continues_with_the_same_run(service: RunService) -> None:
    service.duration = MINUTES
    with pytest.raises(TaskDeferred) as deferral:
        operator().execute(context_of(Memory()))
    (waiting,) = deferral.value.trigger.batch["waiting"]
    assert (waiting["run_id"], service.requests["request_run"]) == ("new0", 1)
    # The trigger polls at the interval that follows from the history.
    assert "first_interval" not in deferral.value.trigger.policy


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan")])
@pytest.mark.parametrize("task", [operator, sensor])
def test_wrong_argument_is_refused(task: Any, wrong: float) -> None:
    with pytest.raises(ValueError, match="defer_after"):
        task(defer_after=wrong)


@pytest.mark.parametrize("duration", [1.0, 4.0])
def test_sensor_waits_for_a_short_active_run_in_the_worker(duration: float, service: RunService) -> None:
    service.duration = duration
    add_active_run(service)
    assert seconds_in_worker(sensor()) is None


def test_sensor_polls_at_its_interval_after_the_first_seconds(service: RunService) -> None:
    assert seconds_in_worker(sensor(defer_after=3600, poke_interval=300)) == pytest.approx(3600, abs=1)
    assert service.requests.total() < 60


def test_sensor_of_a_planned_run_defers_at_once(service: RunService) -> None:
    planned = orchestration_run("planned", "SCHEDULED", due=timestamp(now(hours=2)))
    service.runs["orchestration_runs"].append(planned)
    assert seconds_in_worker(sensor(run_id="planned")) == pytest.approx(0, abs=0.1)


def test_refused_sensor_defers_and_polls_after_retry_after(service: RunService) -> None:
    add_active_run(service)
    service.refusal, service.retry_after = 429, 120
    began = time.time()
    with pytest.raises(TaskDeferred) as deferral:
        sensor(defer_after=30).execute(context_of(Memory()))
    assert time.time() - began < 5
    assert deferral.value.trigger.poll_after >= began + 120


def test_sensor_timeout_in_the_worker_fails_the_task(service: RunService) -> None:
    with pytest.raises(AirflowSensorTimeout, match="The sensor timed out: no run of o"):
        sensor(defer_after=30, timeout=2).execute(context_of(Memory()))


@pytest.mark.parametrize("option", ["DEFER_AFTER", "MINIMUM_DEFERRAL_TIME"])
def test_wrong_configuration_fails_before_the_start(
    option: str, service: RunService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__DATAPIPE__{option}", "5s")
    with pytest.raises(ValueError, match=option.lower()):
        operator().execute(context_of(Memory()))
    assert service.requests["request_run"] == 0
