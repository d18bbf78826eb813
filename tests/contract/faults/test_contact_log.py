"""Tests of the log: one line for a lost connection and one for its return, in every kind of wait."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import TaskDeferred
from typing_extensions import override

from airflow_provider_datapipe.operators.orchestration import OrchestrationRunOperator
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.reference import Reference
from airflow_provider_datapipe.runs.wait import WaitPolicy
from airflow_provider_datapipe.sensors.run import OrchestrationRunSensor
from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger
from tests.support.airflow_versions import since
from tests.support.run_service import SYNC, RunService, ago, orchestration_run, stream_run
from tests.support.tasks import Memory, context_of, first_event, stored_and_made_again

LOST, RESTORED = "Contact with the service was lost: ", "Contact with the service was restored after "
CONNECTION = "datapipe_default"
#: Numbers of the polls that the service does not answer.
OUTAGE = range(3, 7)
#: Number of the poll at which all runs have ended.
LAST = 10


class InterruptedService(RunService):
    """
    Service that answers some of its requests with an error.

    :param status: HTTP status of the errors.
    :param outage: numbers of the requests that fail, counted from the start of the runs.
    """

    def __init__(self, status: int = 503, outage: range = OUTAGE) -> None:
        super().__init__()
        self._status = status
        self._outage = outage
        self.polls = 0

    @override
    def _body(self, address: str) -> Any:
        if any(self.runs.values()):
            self.polls += 1
        self.refusal = self._status if self.polls in self._outage else None
        if self.polls >= LAST:
            ended = {"status": "COMPLETED", "finished_at": ago(seconds=0)}
            self.runs = {name: [run | ended for run in runs] for name, runs in self.runs.items()}
        return super()._body(address)


class Lines:
    """Log lines of tasks, with the value of a context variable of the task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *classes: type[Any]) -> None:
        self.all: list[tuple[int, str, str]] = []
        for each in classes:
            monkeypatch.setattr(each, "log", self)

    def log(self, level: int, line: str, *arguments: Any) -> None:
        self.all.append((level, line % arguments if arguments else line, TASK.get()))

    def info(self, line: str, *arguments: Any) -> None:
        self.log(logging.INFO, line, *arguments)

    def warning(self, line: str, *arguments: Any) -> None:
        self.log(logging.WARNING, line, *arguments)

    debug = info

    def of_contact(self, task: str = "") -> list[tuple[int, str]]:
        """Return the level and the beginning of the lines of a task about lost and restored connections."""
        return [
            (level, start)
            for level, line, logged_by in self.all
            for start in (LOST, RESTORED)
            if line.startswith(start) and logged_by == task
        ]


TASK = contextvars.ContextVar("TASK", default="")
ONCE_EACH = [(logging.WARNING, LOST), (logging.INFO, RESTORED)]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.contact._SHORTEST", 0.02)
    monkeypatch.setattr("airflow_provider_datapipe.runs.wait._LONGEST_BACKOFF", 0.02)


@pytest.fixture(params=[503, 500], ids=["down", "failing"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[InterruptedService]:
    with InterruptedService(request.param) as running:
        connection = {"conn_type": "datapipe", "host": running.url, "password": "key", "extra": {"retry_budget": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        yield running


def run_trigger(*references: Reference) -> DatapipeRunTrigger:
    batch = Batch(references[0].kind, waiting=list(references))
    return DatapipeRunTrigger(CONNECTION, batch.as_dict(), WaitPolicy(poll_interval=0.05).as_dict())


def start_orchestration(service: RunService, run_id: str = "r") -> Reference:
    run = orchestration_run(run_id, "RUNNING", due=ago(seconds=5), started=ago(seconds=5))
    service.runs = service.runs | {"orchestration_runs": [*service.runs["orchestration_runs"], run]}
    return Reference("orchestration", "o", "nightly", run_id=run_id)


def start_stream(service: RunService, name: str) -> Reference:
    run = stream_run(f"run-{name}", "RUNNING", started=ago(seconds=5), stream_id=name)
    service.runs = service.runs | {"elt_stream_runs": [*service.runs["elt_stream_runs"], run]}
    service.streams = sorted({*service.streams, name})
    return Reference("elt_stream", name, name, run_id=f"run-{name}", sync_id=SYNC)


async def events(**triggers: Any) -> list[Any]:
    """Run triggers concurrently, each in its own context, as a triggerer does."""

    async def one(task: str, trigger: Any) -> Any:
        TASK.set(task)
        async with asyncio.timeout(60):
            return await first_event(trigger)

    return await asyncio.gather(*(one(task, trigger) for task, trigger in triggers.items()))


def test_blocking_wait_logs_a_loss_of_contact(service: InterruptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch, OrchestrationRunOperator)
    OrchestrationRunOperator(task_id="t", orchestration_id="o", poll_interval=0.05).execute(context_of(Memory()))
    assert lines.of_contact() == ONCE_EACH


def test_trigger_logs_a_loss_of_contact(service: InterruptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch, DatapipeRunTrigger)
    asyncio.run(events(one=run_trigger(start_orchestration(service))))
    assert lines.of_contact("one") == ONCE_EACH


@pytest.mark.slow
@pytest.mark.parametrize("start", [start_orchestration, start_stream], ids=["orchestrations", "streams"])
def test_triggers_that_share_polls_log_a_loss_each(
    start: Callable[[RunService, str], Reference], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Lines(monkeypatch, DatapipeRunTrigger)
    with InterruptedService() as service:
        connection = {"conn_type": "datapipe", "host": service.url, "password": "key", "extra": {"retry_budget": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        triggers = {name: run_trigger(start(service, name)) for name in "abc"}
        asyncio.run(events(**triggers))
    assert [lines.of_contact(name) for name in "abc"] == [ONCE_EACH] * 3


def test_end_of_a_loss_is_logged_after_the_deferral(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch, OrchestrationRunOperator, DatapipeRunTrigger)
    memory = Memory()
    task = OrchestrationRunOperator(
        task_id="t", orchestration_id="o", poll_interval=0.05, deferrable=True, defer_after=0.5
    )
    with InterruptedService(outage=range(3, 1_000_000)) as service:
        connection = {"conn_type": "datapipe", "host": service.url, "password": "key", "extra": {"retry_budget": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        with pytest.raises(TaskDeferred) as deferral:
            task.execute(context_of(memory))
        assert lines.of_contact() == ONCE_EACH[:1]
        service._outage = range(0)
        asyncio.run(events(trigger=stored_and_made_again(deferral.value)))
    assert lines.of_contact("trigger") == ONCE_EACH[1:]


@pytest.fixture
def frequent_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.progress._SHORTEST_GAP", 0.01)
    monkeypatch.setattr("airflow_provider_datapipe.runs.progress._GAP_OF_AGE", 0)


def run_with_history(service: InterruptedService, mode: str) -> None:
    """Wait for a run that should take 10 more minutes."""
    if mode == "trigger":
        asyncio.run(events(one=run_trigger(replace(start_orchestration(service), durations=[600.0]))))
        return
    service.runs["orchestration_runs"] = [
        orchestration_run(
            f"old{n}", "COMPLETED", due=ago(days=n), started=ago(days=n), finished=ago(days=n, minutes=-10)
        )
        for n in (1, 2)
    ]
    OrchestrationRunOperator(task_id="t", orchestration_id="o", poll_interval=0.05).execute(context_of(Memory()))


@pytest.mark.usefixtures("frequent_progress")
@pytest.mark.parametrize("mode", ["blocking", "trigger"])
def test_no_expected_end_is_logged_while_contact_is_lost(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch, OrchestrationRunOperator, DatapipeRunTrigger)
    with InterruptedService(outage=range(6, 10)) as service:
        connection = {"conn_type": "datapipe", "host": service.url, "password": "key", "extra": {"retry_budget": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        run_with_history(service, mode)
    texts = [line for _, line, _ in lines.all]
    lost, restored = (next(n for n, line in enumerate(texts) if line.startswith(start)) for start in (LOST, RESTORED))
    assert any("expected to end" in line for line in texts[:lost])
    during = texts[lost + 1 : restored]
    assert any("no answer of the service" in line for line in during)
    assert not any("expected to end" in line for line in during)


def sensor(**arguments: Any) -> OrchestrationRunSensor:
    return OrchestrationRunSensor(
        task_id="t", orchestration_id="o", run_id="r", poke_interval=0.05, timeout=3600, **arguments
    )


@pytest.fixture
def quick_sensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.patience._LONGEST_BACKOFF", 0.05)


@pytest.mark.usefixtures("quick_sensors")
def test_sensor_logs_a_loss_of_contact(service: InterruptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch, OrchestrationRunSensor)
    start_orchestration(service)
    sensor().execute(context_of(Memory()))
    assert lines.of_contact() == ONCE_EACH


class RescheduledMemory(Memory):
    """Task state with the fields of a task instance that Airflow reads from a sensor in reschedule mode."""

    try_number = 1

    def get_first_reschedule_date(self, _: Any) -> datetime:
        return self.start_date


@since("3.3", "task state")
@pytest.mark.usefixtures("quick_sensors")
def test_rescheduled_sensor_logs_a_loss_of_contact(
    service: InterruptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, memory = Lines(monkeypatch, OrchestrationRunSensor), RescheduledMemory()
    start_orchestration(service)
    while True:
        try:
            sensor(mode="reschedule").execute(context_of(memory))
        except AirflowRescheduleException as later:
            time.sleep(max((later.reschedule_date - datetime.now(UTC)).total_seconds(), 0))
        else:
            break
    assert lines.of_contact() == ONCE_EACH


@pytest.mark.usefixtures("quick_sensors")
def test_deferred_sensor_logs_a_loss_of_contact(service: InterruptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    start_orchestration(service)
    with pytest.raises(TaskDeferred) as deferral:
        sensor(deferrable=True).execute(context_of(Memory()))
    lines = Lines(monkeypatch, type(deferral.value.trigger))
    asyncio.run(events(one=stored_and_made_again(deferral.value)))
    assert lines.of_contact("one") == ONCE_EACH


def test_single_failure_among_answers_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch, DatapipeRunTrigger)
    with InterruptedService(outage=range(3, 4)) as service:
        connection = {"conn_type": "datapipe", "host": service.url, "password": "key", "extra": {"retry_budget": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_DEFAULT", json.dumps(connection))
        asyncio.run(events(one=run_trigger(start_orchestration(service))))
        assert service.polls >= LAST
    assert lines.of_contact("one") == []
