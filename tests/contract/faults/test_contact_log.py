"""Tests of the log: one line for a lost connection and one for its return, in every kind of wait."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from typing_extensions import override

from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.models import RunRef
from airflow_provider_datapipe.runs.wait import WaitPolicy
from airflow_provider_datapipe.sensors.run import OrchestrationRunSensor
from airflow_provider_datapipe.triggers.condition import DatapipeConditionTrigger
from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger
from tests.contract.sensing import sense
from tests.support.airflow_versions import since
from tests.support.run_service import SYNC, RunService, ago, orchestration_run, stream_run
from tests.support.tasks import Memory, context_of, first_event, recreated_trigger

LOST, RESTORED = "Contact with the service was lost: ", "Contact with the service was restored after "
ONCE_EACH = [(logging.WARNING, LOST), (logging.INFO, RESTORED)]
#: Number of the poll at which all runs have ended.
LAST = 10
TASK = contextvars.ContextVar("TASK", default="")
Serve = Callable[..., Any]


class InterruptedService(RunService):
    """
    Service that answers some of its requests with an error.

    :param status: HTTP status of the errors.
    :param outage: numbers of the requests that fail, counted from the start of the runs.
    """

    def __init__(self, status: int = 503, outage: range = range(3, 7)) -> None:
        super().__init__()
        self._status = status
        self.outage = outage
        self.polls = 0

    @override
    def _read(self, path: list[str], query: dict[str, str]) -> Any:
        if any(self.runs.values()):
            self.polls += 1
        self.refusal = self._status if self.polls in self.outage else None
        if self.polls >= LAST:
            ended = {"status": "COMPLETED", "finished_at": ago(seconds=0)}
            self.runs = {name: [run | ended for run in runs] for name, runs in self.runs.items()}
        return super()._read(path, query)


class Lines:
    """Log lines of tasks, with the value of a context variable of the task."""

    def __init__(self) -> None:
        self.all: list[tuple[int, str, str]] = []

    def log(self, level: int, line: str, *arguments: Any) -> None:
        self.all.append((level, line % arguments if arguments else line, TASK.get()))

    def info(self, line: str, *arguments: Any) -> None:
        self.log(logging.INFO, line, *arguments)

    def warning(self, line: str, *arguments: Any) -> None:
        self.log(logging.WARNING, line, *arguments)

    debug = info

    def of_contact(self, task: str = "") -> list[tuple[int, str]]:
        """Return the level and the beginning of the lines of a task about lost and restored connections."""
        lines = [(level, line) for level, line, logged_by in self.all if logged_by == task]
        return [(level, start) for level, line in lines for start in (LOST, RESTORED) if line.startswith(start)]


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Record the log of operators, sensors and triggers, and shorten the pauses."""
    runs = "airflow_provider_datapipe.runs"
    for name, seconds in (("backoff._SHORTEST", 0.02), ("backoff.LONGEST_INTERVAL", 0.05)):
        monkeypatch.setattr(f"{runs}.{name}", seconds)
    lines = Lines()
    for each in (OrchestrationRunOperator, OrchestrationRunSensor, DatapipeConditionTrigger, DatapipeRunTrigger):
        monkeypatch.setattr(each, "log", lines)
    return lines


def run_trigger(*references: RunRef) -> DatapipeRunTrigger:
    batch = Batch(references[0].kind, waiting=list(references))
    return DatapipeRunTrigger("datapipe_default", batch.as_dict(), WaitPolicy(poll_interval=0.05).as_dict())


def start_orchestration(service: RunService, run_id: str = "r") -> RunRef:
    run = orchestration_run(run_id, "RUNNING", due=ago(seconds=5), started=ago(seconds=5))
    service.runs = service.runs | {"orchestration_runs": [*service.runs["orchestration_runs"], run]}
    return RunRef("orchestration", "o", "nightly", run_id=run_id)


def start_stream(service: RunService, name: str) -> RunRef:
    run = stream_run(f"run-{name}", "RUNNING", started=ago(seconds=5), stream_id=name)
    service.runs = service.runs | {"elt_stream_runs": [*service.runs["elt_stream_runs"], run]}
    service.streams = sorted({*service.streams, name})
    return RunRef("elt_stream", name, name, run_id=f"run-{name}", sync_id=SYNC)


def resume(trigger: Any) -> None:
    async def event() -> Any:
        async with asyncio.timeout(60):
            return await first_event(trigger)

    asyncio.run(event())


def operator(**arguments: Any) -> OrchestrationRunOperator:
    return OrchestrationRunOperator(task_id="t", orchestration_id="o", poll_interval=0.05, **arguments)


def run_sensor(mode: str, service: RunService) -> None:
    start_orchestration(service)
    run: dict[str, Any] = {"orchestration_id": "o", "run_id": "r"}
    sense(mode, OrchestrationRunSensor, task_state=True, poke_interval=0.05, timeout=3600, **run)


WAITS: dict[str, Callable[[RunService], object]] = {
    "operator": lambda _: operator().execute(context_of(Memory())),
    "trigger": lambda service: resume(run_trigger(start_orchestration(service))),
    "sensor": partial(run_sensor, "poke"),
    "deferred sensor": partial(run_sensor, "deferred"),
}
RESCHEDULED = pytest.param(partial(run_sensor, "reschedule"), marks=since("3.3", "task state"))


@pytest.mark.parametrize("status", [503, 500])
@pytest.mark.parametrize("wait", [*WAITS.values(), RESCHEDULED], ids=[*WAITS, "rescheduled"])
def test_wait_logs_a_loss_of_contact(
    wait: Callable[[RunService], object], status: int, lines: Lines, serve: Serve
) -> None:
    wait(serve(InterruptedService(status)))
    assert lines.of_contact() == ONCE_EACH


@pytest.mark.slow
@pytest.mark.parametrize("start", [start_orchestration, start_stream], ids=["orchestrations", "streams"])
def test_triggers_that_share_polls_log_a_loss_each(
    start: Callable[[RunService, str], RunRef], lines: Lines, serve: Serve
) -> None:
    service = serve(InterruptedService())
    triggers = {name: run_trigger(start(service, name)) for name in "abc"}

    async def one(name: str) -> Any:
        TASK.set(name)
        return await first_event(triggers[name])

    async def both() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*map(one, triggers))

    asyncio.run(both())
    assert [lines.of_contact(name) for name in "abc"] == [ONCE_EACH] * 3


def test_end_of_a_loss_is_logged_after_the_deferral(lines: Lines, serve: Serve) -> None:
    service = serve(InterruptedService(outage=range(3, 1_000_000)))
    with pytest.raises(TaskDeferred) as deferral:
        operator(deferrable=True, defer_after=1.5).execute(context_of(Memory()))
    assert lines.of_contact() == ONCE_EACH[:1]
    service.outage = range(0)
    resume(recreated_trigger(deferral.value))
    assert lines.of_contact() == ONCE_EACH


@pytest.mark.parametrize("mode", ["blocking", "trigger"])
def test_no_expected_end_is_logged_while_contact_is_lost(
    mode: str, lines: Lines, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait for a run that should take 10 more minutes, and log the progress often."""
    monkeypatch.setattr("airflow_provider_datapipe.runs.log_lines.progress._SHORTEST_GAP", 0.01)
    monkeypatch.setattr("airflow_provider_datapipe.runs.log_lines.progress._GAP_OF_AGE", 0)
    service = serve(InterruptedService(outage=range(6, 10)))
    if mode == "trigger":
        resume(run_trigger(replace(start_orchestration(service), durations=[600.0])))
    else:
        for days in (1, 2):
            times = {"due": ago(days=days), "started": ago(days=days), "finished": ago(days=days, minutes=-10)}
            service.runs["orchestration_runs"].append(orchestration_run(f"old{days}", "COMPLETED", **times))
        operator().execute(context_of(Memory()))
    texts = [line for _, line, _ in lines.all]
    lost, restored = (next(n for n, line in enumerate(texts) if line.startswith(start)) for start in (LOST, RESTORED))
    assert any("expected to end" in line for line in texts[:lost])
    during = texts[lost + 1 : restored]
    assert any("no answer from the service" in line for line in during)
    assert not any("expected to end" in line for line in during)


def test_single_failure_among_answers_is_no_loss(lines: Lines, serve: Serve) -> None:
    service = serve(InterruptedService(outage=range(3, 4)))
    resume(run_trigger(start_orchestration(service)))
    assert service.polls >= LAST
    assert lines.of_contact() == []
