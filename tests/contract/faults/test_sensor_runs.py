"""Tests that sensors choose the same run in every mode, with planned, missing or future runs in the lists."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred

from airflow_provider_datapipe.runs.errors import RunFailedError
from airflow_provider_datapipe.sensors.run import (
    EltStreamRunSensor,
    EltSyncRunSensor,
    OrchestrationRunSensor,
    ReverseEtlRunSensor,
)
from airflow_provider_datapipe.sensors.state import (
    EltStreamFreshnessSensor,
    OrchestrationFreshnessSensor,
    OrchestrationLastRunSensor,
)
from tests.support.airflow_versions import since
from tests.support.run_service import RunService, ago, orchestration_run, reverse_etl_run, stream_run
from tests.support.tasks import Memory, first_event, stored_and_made_again

MODES = pytest.mark.parametrize("mode", ["poke", "reschedule", "deferred"])
TASK_STATE = since("3.3", "task state")
FLAGS: dict[str, dict[str, Any]] = {
    "poke": {},
    "reschedule": {"mode": "reschedule"},
    "deferred": {"deferrable": True},
}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunService]:
    with RunService() as running:
        connection = {"conn_type": "datapipe", "host": running.url, "password": "a-key", "extra": {"retry_budget": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        yield running


class Instance:
    """Subset of a task instance that a sensor reads."""

    def __init__(self) -> None:
        self.start_date = datetime.now(UTC)
        self.try_number = 1

    def get_first_reschedule_date(self, _: Any) -> datetime:
        return self.start_date


def sense(mode: str, sensor: type[Any], **arguments: Any) -> Any:
    """Run a sensor as Airflow does, with a new object for each pass."""
    context: Any = {"ti": Instance(), "task_state_store": Memory()}
    arguments = {"task_id": "t", "poke_interval": 0.05, "timeout": 3600} | FLAGS[mode] | arguments
    method, given = "execute", dict[str, Any]()
    while True:
        try:
            return getattr(sensor(**arguments), method)(context, **given)
        except TaskDeferred as deferral:
            trigger = stored_and_made_again(deferral)
            method, given = deferral.method_name, {"event": asyncio.run(first_event(trigger))}
        except AirflowRescheduleException as later:
            time.sleep(max((later.reschedule_date - datetime.now(UTC)).total_seconds(), 0))


def while_waiting(service: RunService, act: Callable[[], None], sensor: Callable[[], Any]) -> Any:
    """Run a sensor, and act after it has sent some requests. Fail if it does not finish long before its timeout."""
    waiting: Future[Any] = Future()

    def run() -> None:
        try:
            waiting.set_result(sensor())
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            waiting.set_exception(error)

    # A sensor that does not end must not hold up the tests.
    threading.Thread(target=run, daemon=True).start()
    until(lambda: waiting.done() or service.requests.total() >= 4)
    assert not waiting.done()
    act()
    return waiting.result(30)


def until(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.01)


@MODES
@pytest.mark.parametrize("after", ["start", "end"])
def test_a_planned_run_does_not_hold_up_an_orchestration_sensor(mode: str, after: str, service: RunService) -> None:
    planned = orchestration_run("planned", "NOT_STARTED", due=ago(hours=-24))
    service.runs["orchestration_runs"] = [planned]

    def request_run() -> None:
        manual = orchestration_run("manual", "COMPLETED", due=ago(), started=ago(), finished=ago())
        service.runs["orchestration_runs"] = [planned, manual]

    result = while_waiting(
        service,
        request_run,
        lambda: sense(mode, OrchestrationRunSensor, orchestration_id="o", after=ago(minutes=1), moment_of=after),
    )
    assert result["run_id"] == "manual"


@MODES
def test_a_planned_run_does_not_hold_up_a_reverse_etl_sensor(mode: str, service: RunService) -> None:
    planned = reverse_etl_run("planned", "SCHEDULED", started=ago(hours=-24))
    service.runs["reverse_etl_sync_runs"] = [planned]

    def request_run() -> None:
        manual = reverse_etl_run("manual", "COMPLETED", started=ago(), finished=ago())
        service.runs["reverse_etl_sync_runs"] = [planned, manual]

    result = while_waiting(
        service, request_run, lambda: sense(mode, ReverseEtlRunSensor, reverse_etl_sync_id="r", after=ago(minutes=1))
    )
    assert result["run_id"] == "manual"


@MODES
def test_the_first_of_two_overlapping_runs_to_end_counts_by_end(mode: str, service: RunService) -> None:
    slow = orchestration_run("slow", "RUNNING", due=ago(hours=2), started=ago(hours=2))
    fast = orchestration_run("fast", "RUNNING", due=ago(hours=1), started=ago(hours=1))
    service.runs["orchestration_runs"] = [slow, fast]

    def end() -> None:
        service.runs["orchestration_runs"] = [slow, fast | {"status": "COMPLETED", "finished_at": ago()}]

    result = while_waiting(
        service,
        end,
        lambda: sense(mode, OrchestrationRunSensor, orchestration_id="o", after=ago(minutes=1), moment_of="end"),
    )
    assert result["run_id"] == "fast"


@MODES
def test_a_run_canceled_before_its_start_is_no_run(mode: str, service: RunService) -> None:
    canceled = orchestration_run("canceled", "CANCELED", due=ago(hours=-24))
    service.runs["orchestration_runs"] = [canceled]

    def request_run() -> None:
        run = orchestration_run("run", "COMPLETED", due=ago(), started=ago(), finished=ago())
        service.runs["orchestration_runs"] = [canceled, run]

    result = while_waiting(
        service,
        request_run,
        lambda: sense(mode, OrchestrationRunSensor, orchestration_id="o", after=ago(minutes=1)),
    )
    assert result["run_id"] == "run"


@MODES
def test_an_old_run_without_an_end_time_does_not_count_by_end(mode: str, service: RunService) -> None:
    service.runs["elt_stream_runs"] = [stream_run("old", "COMPLETED", started=ago(days=50))]
    with pytest.raises(AirflowSensorTimeout):
        sense(mode, EltStreamRunSensor, stream_id="s", after=ago(minutes=1), moment_of="end", timeout=0.3)
    service.runs["elt_stream_runs"] = [stream_run("new", "COMPLETED", started=ago())]
    result = sense(mode, EltStreamRunSensor, stream_id="s", after=ago(minutes=1), moment_of="end")
    assert result["run_id"] == "new"


@MODES
def test_the_newest_run_is_no_planned_one(mode: str, service: RunService) -> None:
    service.runs["orchestration_runs"] = [
        orchestration_run("planned", "NOT_STARTED", due=ago(hours=-24)),
        orchestration_run("done", "COMPLETED", due=ago(hours=1), started=ago(hours=1), finished=ago()),
    ]
    assert sense(mode, OrchestrationRunSensor, orchestration_id="o", newest=True)["run_id"] == "done"


@MODES
def test_the_newest_run_may_be_one_that_is_due_now(mode: str, service: RunService) -> None:
    done = orchestration_run("done", "COMPLETED", due=ago(hours=1), started=ago(hours=1), finished=ago(minutes=50))
    requested = orchestration_run("requested", "NOT_STARTED", due=ago())
    service.runs["orchestration_runs"] = [requested, done]

    def end() -> None:
        service.runs["orchestration_runs"] = [
            requested | {"status": "COMPLETED", "started_at": ago(), "finished_at": ago()},
            done,
        ]

    result = while_waiting(service, end, lambda: sense(mode, OrchestrationRunSensor, orchestration_id="o", newest=True))
    assert result["run_id"] == "requested"


@MODES
def test_a_due_run_that_was_never_executed_is_not_the_newest(mode: str, service: RunService) -> None:
    service.runs["orchestration_runs"] = [
        orchestration_run("done", "COMPLETED", due=ago(hours=1), started=ago(hours=1), finished=ago(minutes=50)),
        orchestration_run("forgotten", "NOT_STARTED", due=ago(hours=200)),
    ]
    assert sense(mode, OrchestrationRunSensor, orchestration_id="o", newest=True)["run_id"] == "done"


@TASK_STATE
@MODES
def test_the_newest_run_stays_the_one_of_the_first_poll(mode: str, service: RunService) -> None:
    first = stream_run("first", "RUNNING", started=ago(minutes=1))
    service.runs["elt_stream_runs"] = [first]

    def go_on() -> None:
        second = stream_run("second", "RUNNING", started=ago())
        service.runs["elt_stream_runs"] = [first | {"status": "COMPLETED", "finished_at": ago()}, second]

    result = while_waiting(service, go_on, lambda: sense(mode, EltStreamRunSensor, stream_id="s", newest=True))
    assert result["run_id"] == "first"


@pytest.mark.slow
@TASK_STATE
@MODES
def test_temporary_401_does_not_fail_a_waiting_sensor(mode: str, service: RunService) -> None:
    def change_key() -> None:
        service.refusal = 401
        before = service.requests.total()
        until(lambda: service.requests.total() >= before + 2)
        service.runs["elt_stream_runs"] = [stream_run("r1", "COMPLETED", started=ago(), finished=ago())]
        service.refusal = None

    result = while_waiting(
        service,
        change_key,
        lambda: sense(mode, EltStreamFreshnessSensor, stream_id="s", max_age=60),
    )
    assert result["run_id"] == "r1"


@MODES
def test_the_last_run_is_the_last_one_to_end(mode: str, service: RunService) -> None:
    service.runs["orchestration_runs"] = [
        orchestration_run("canceled", "CANCELED", due=ago(hours=-24)),
        orchestration_run("first", "COMPLETED", due=ago(hours=2), started=ago(hours=2), finished=ago(hours=1.5)),
        orchestration_run("last", "FAILED", due=ago(hours=3), started=ago(hours=3), finished=ago(hours=1)),
    ]
    with pytest.raises(RunFailedError, match="last"):
        sense(mode, OrchestrationLastRunSensor, orchestration_id="o")


@MODES
def test_an_end_far_in_the_future_makes_nothing_fresh(mode: str, service: RunService) -> None:
    odd = orchestration_run("odd", "COMPLETED", due=ago(days=9), started=ago(days=9), finished=ago(days=-999))
    service.runs["orchestration_runs"] = [odd]
    with pytest.raises(AirflowSensorTimeout):
        sense(mode, OrchestrationFreshnessSensor, orchestration_id="o", max_age=3600, timeout=0.3)


@MODES
def test_a_sync_sensor_does_not_depend_on_its_status(mode: str, service: RunService) -> None:
    service.status = {"s": {"latest_sync": {"status": "COMPLETED", "finished_at": ago(days=2)}}}

    def end() -> None:
        service.runs["elt_stream_runs"] = [stream_run("r1", "COMPLETED", started=ago(), finished=ago())]

    result = while_waiting(
        service, end, lambda: sense(mode, EltSyncRunSensor, sync_id="sync", after=ago(minutes=1), moment_of="end")
    )
    assert result["streams"]["s"]["run_id"] == "r1"


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("kind", ["stream", "reverse_etl", "orchestration"])
def test_a_sensor_survives_a_changed_format_of_run_ids(kind: str, mode: str, service: RunService) -> None:
    times = {"started": ago()}
    name, run, sensor = {
        "stream": ("elt_stream_runs", stream_run("r1", "RUNNING", **times), (EltStreamRunSensor, {"stream_id": "s"})),
        "reverse_etl": (
            "reverse_etl_sync_runs",
            reverse_etl_run("r1", "RUNNING", **times),
            (ReverseEtlRunSensor, {"reverse_etl_sync_id": "r"}),
        ),
        "orchestration": (
            "orchestration_runs",
            orchestration_run("r1", "RUNNING", due=ago(), **times),
            (OrchestrationRunSensor, {"orchestration_id": "o"}),
        ),
    }[kind]
    service.runs[name] = [run]

    def change() -> None:
        service.format = lambda run_id: f"v2-{run_id}"
        service.runs[name] = [run | {"status": "COMPLETED", "finished_at": ago()}]

    found, arguments = sensor
    result = while_waiting(service, change, lambda: sense(mode, found, after=ago(minutes=1), **arguments))
    assert result["run_id"] == "v2-r1"


@MODES
def test_sensor_survives_id_format_change_before_its_run_starts(mode: str, service: RunService) -> None:
    before = stream_run("before", "COMPLETED", started=ago(hours=1), finished=ago(hours=1))
    service.runs["elt_stream_runs"] = [before]

    def change() -> None:
        service.format = lambda run_id: f"v2-{run_id}"
        seen = service.requests.total()
        until(lambda: service.requests.total() >= seen + 2)
        service.runs["elt_stream_runs"] = [before, stream_run("r1", "COMPLETED", started=ago(), finished=ago())]

    result = while_waiting(
        service, change, lambda: sense(mode, EltStreamRunSensor, stream_id="s", after=ago(minutes=1))
    )
    assert result["run_id"] == "v2-r1"
