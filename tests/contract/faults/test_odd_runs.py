"""Tests with unusual orders, times and IDs of runs: sensors choose the right run, and triggers report each run once."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout

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
from airflow_provider_datapipe.triggers.events import (
    EltStreamRunEventTrigger,
    OrchestrationRunEventTrigger,
    ReverseEtlRunEventTrigger,
    TransformMaterializationEventTrigger,
)
from tests.contract import sensing
from tests.support.airflow_versions import since
from tests.support.asset_state import AssetStateStore, until
from tests.support.processes import wait_for
from tests.support.responses import transform
from tests.support.run_service import RunService, ago, orchestration_run, reverse_etl_run, stream_run

#: ID, status and times of a run: arguments of a function in ``BUILD``.
Run = tuple[Any, ...]
Times = float | str | None


@pytest.fixture
def service(serve: Callable[..., Any]) -> Any:
    return serve(RunService())


def _at(hours: Times) -> Any:
    return ago(hours=hours) if isinstance(hours, int | float) else hours


def orchestration(
    run_id: str, status: str, due: float, started: Times = None, finished: Times = None
) -> dict[str, Any]:
    """Return a run whose times are hours ago, or text."""
    return orchestration_run(run_id, status, due=_at(due), started=_at(started), finished=_at(finished))


def stream(run_id: str, status: str, started: float, finished: Times = None, stream_id: str = "s") -> dict[str, Any]:
    return stream_run(run_id, status, started=_at(started), finished=_at(finished), stream_id=stream_id)


def reverse_etl(run_id: str, status: str, started: float, finished: Times = None) -> dict[str, Any]:
    return reverse_etl_run(run_id, status, started=_at(started), finished=_at(finished))


#: Functions of runs by their lists.
BUILD: dict[str, Callable[..., dict[str, Any]]] = {
    "orchestration_runs": orchestration,
    "reverse_etl_sync_runs": reverse_etl,
    "elt_stream_runs": stream,
}
PLANNED = ("planned", "NOT_STARTED", -24)
MANUAL = ("manual", "COMPLETED", 0, 0, 0)
LATER = ("later", "COMPLETED", 0, 0, 0)


def show(service: RunService, name: str, *runs: dict[str, Any] | Run) -> None:
    """Add runs to a list, or replace those of the same IDs. Their times count from now."""
    built = [BUILD[name](*run) if isinstance(run, tuple) else run for run in runs]
    service.runs[name] = list({run["id"]: run for run in [*service.runs[name], *built]}.values())


def finish_stream_run(service: RunService) -> None:
    show(service, "elt_stream_runs", ("r1", "COMPLETED", 0, 0))


def rename_runs(service: RunService) -> None:
    service.format = lambda run_id: f"v2-{run_id}"


# Sensors.

MODES = pytest.mark.parametrize("mode", ["poke", "reschedule", "deferred"])
TASK_STATE = since("3.3", "task state")
sense = partial(sensing.sense, task_state=True, poke_interval=0.05, timeout=3600)


def while_waiting(service: RunService, act: Callable[[], None], mode: str, sensor: type[Any], **arguments: Any) -> Any:
    """Run a sensor, and act after it has sent some requests. Fail if it does not finish long before its timeout."""
    waiting: Future[Any] = Future()

    def run() -> None:
        try:
            waiting.set_result(sense(mode, sensor, **arguments))
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            waiting.set_exception(error)

    # A sensor that does not end must not block the tests.
    threading.Thread(target=run, daemon=True).start()
    wait_for("four requests", lambda: waiting.done() or service.requests.total() >= 4, limit=30, interval=0.01)
    assert not waiting.done()
    act()
    return waiting.result(30)


def wait_for_polls(service: RunService) -> None:
    before = service.requests.total()
    wait_for("two polls", lambda: service.requests.total() >= before + 2, limit=30, interval=0.01)


class Choice(NamedTuple):
    """
    Choice of a sensor between runs.

    :param before: the runs while the sensor waits, which it must not take.
    :param then: the runs that change or appear. The first one is the run of the result.
    """

    sensor: type[Any]
    arguments: dict[str, Any]
    before: list[Run]
    then: list[Run]


LISTS: dict[type[Any], tuple[str, dict[str, str]]] = {
    OrchestrationRunSensor: ("orchestration_runs", {"orchestration_id": "o"}),
    ReverseEtlRunSensor: ("reverse_etl_sync_runs", {"reverse_etl_sync_id": "r"}),
    EltStreamRunSensor: ("elt_stream_runs", {"stream_id": "s"}),
}
CHOICES = {
    "planned run, by start": Choice(OrchestrationRunSensor, {"moment_of": "start"}, [PLANNED], [MANUAL]),
    "planned run, by end": Choice(OrchestrationRunSensor, {"moment_of": "end"}, [PLANNED], [MANUAL]),
    "planned reverse ETL run": Choice(
        ReverseEtlRunSensor, {}, [("planned", "SCHEDULED", -24)], [("manual", "COMPLETED", 0, 0)]
    ),
    "run canceled before its start": Choice(OrchestrationRunSensor, {}, [("canceled", "CANCELED", -24)], [MANUAL]),
    "first of overlapping runs to end": Choice(
        OrchestrationRunSensor,
        {"moment_of": "end"},
        [("slow", "RUNNING", 2, 2), ("fast", "RUNNING", 1, 1)],
        [("fast", "COMPLETED", 1, 1, 0)],
    ),
    "newest run is due now": Choice(
        OrchestrationRunSensor,
        {"newest": True},
        [("requested", "NOT_STARTED", 0), ("done", "COMPLETED", 1, 1, 0.8)],
        [("requested", "COMPLETED", 0, 0, 0)],
    ),
    "newest run of the first poll": Choice(
        EltStreamRunSensor,
        {"newest": True},
        [("first", "RUNNING", 0.02)],
        [("first", "COMPLETED", 0.02, 0), ("second", "RUNNING", 0)],
    ),
}


@MODES
@pytest.mark.parametrize(
    "choice",
    [pytest.param(each, id=name, marks=[TASK_STATE] if "first poll" in name else []) for name, each in CHOICES.items()],
)
def test_sensor_waits_for_the_right_run(mode: str, choice: Choice, service: RunService) -> None:
    name, owner = LISTS[choice.sensor]
    show(service, name, *choice.before)
    arguments = owner | ({} if "newest" in choice.arguments else {"after": ago(minutes=1)}) | choice.arguments
    result = while_waiting(service, lambda: show(service, name, *choice.then), mode, choice.sensor, **arguments)
    assert result["run_id"] == choice.then[0][0]


@MODES
def test_an_old_run_without_an_end_time_does_not_count_by_end(mode: str, service: RunService) -> None:
    service.runs["elt_stream_runs"] = [stream("old", "COMPLETED", 1200)]
    arguments: dict[str, Any] = {"stream_id": "s", "after": ago(minutes=1), "moment_of": "end"}
    with pytest.raises(AirflowSensorTimeout):
        sense(mode, EltStreamRunSensor, **arguments, timeout=0.3)
    service.runs["elt_stream_runs"] = [stream("new", "COMPLETED", 0)]
    assert sense(mode, EltStreamRunSensor, **arguments)["run_id"] == "new"


@MODES
@pytest.mark.parametrize("not_newest", [PLANNED, ("forgotten", "NOT_STARTED", 200)])
def test_newest_run_is_not_a_planned_or_canceled_run(mode: str, not_newest: Run, service: RunService) -> None:
    show(service, "orchestration_runs", not_newest, ("done", "COMPLETED", 1, 1, 0))
    assert sense(mode, OrchestrationRunSensor, orchestration_id="o", newest=True)["run_id"] == "done"


@MODES
def test_the_last_run_is_the_last_one_to_end(mode: str, service: RunService) -> None:
    service.runs["orchestration_runs"] = [
        orchestration("canceled", "CANCELED", -24),
        orchestration("first", "COMPLETED", 2, 2, 1.5),
        orchestration("last", "FAILED", 3, 3, 1),
    ]
    with pytest.raises(RunFailedError, match="last"):
        sense(mode, OrchestrationLastRunSensor, orchestration_id="o")


@MODES
def test_end_time_far_in_the_future_is_not_fresh(mode: str, service: RunService) -> None:
    service.runs["orchestration_runs"] = [orchestration("odd", "COMPLETED", 200, 200, -24_000)]
    with pytest.raises(AirflowSensorTimeout):
        sense(mode, OrchestrationFreshnessSensor, orchestration_id="o", max_age=3600, timeout=0.3)


@MODES
def test_a_sync_sensor_does_not_depend_on_its_status(mode: str, service: RunService) -> None:
    service.status = {"s": {"latest_sync": {"status": "COMPLETED", "finished_at": ago(days=2)}}}
    arguments = {"sync_id": "sync", "after": ago(minutes=1), "moment_of": "end"}
    result = while_waiting(service, lambda: finish_stream_run(service), mode, EltSyncRunSensor, **arguments)
    assert result["streams"]["s"]["run_id"] == "r1"


@pytest.mark.slow
@TASK_STATE
@MODES
def test_temporary_401_does_not_fail_a_waiting_sensor(mode: str, service: RunService) -> None:
    def change_key() -> None:
        service.refusal = 401
        wait_for_polls(service)
        finish_stream_run(service)
        service.refusal = None

    result = while_waiting(service, change_key, mode, EltStreamFreshnessSensor, stream_id="s", max_age=60)
    assert result["run_id"] == "r1"


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("sensor", LISTS)
def test_a_sensor_survives_a_changed_format_of_run_ids(sensor: Any, mode: str, service: RunService) -> None:
    name, owner = LISTS[sensor]
    # Only runs of orchestrations have a due date.
    due = [0] if sensor is OrchestrationRunSensor else []
    show(service, name, ("r1", "RUNNING", *due, 0))

    def change() -> None:
        rename_runs(service)
        show(service, name, ("r1", "COMPLETED", *due, 0, 0))

    result = while_waiting(service, change, mode, sensor, after=ago(minutes=1), **owner)
    assert result["run_id"] == "v2-r1"


@MODES
def test_sensor_survives_id_format_change_before_its_run_starts(mode: str, service: RunService) -> None:
    show(service, "elt_stream_runs", ("before", "COMPLETED", 1, 1))

    def change() -> None:
        rename_runs(service)
        wait_for_polls(service)
        finish_stream_run(service)

    result = while_waiting(service, change, mode, EltStreamRunSensor, stream_id="s", after=ago(minutes=1))
    assert result["run_id"] == "v2-r1"


# Event triggers.

ANY = ["succeeded", "partial", "failed", "canceled", "unknown"]
OPTIONS: dict[str, Any] = {"datapipe_conn_id": "datapipe_default", "poll_interval": 0.03}
POLLED = {"elt_syncs/one", "transforms/one", "elt_stream_runs", "orchestration_runs", "reverse_etl_sync_runs"}
TRIGGERS: dict[str, tuple[Callable[[], Any], str]] = {
    "stream": (lambda: EltStreamRunEventTrigger("s", **OPTIONS), "elt_stream_runs"),
    "sync": (lambda: EltStreamRunEventTrigger(sync_id="sync", **OPTIONS), "elt_stream_runs"),
    "reverse_etl": (lambda: ReverseEtlRunEventTrigger("r", **OPTIONS), "reverse_etl_sync_runs"),
    "orchestration": (lambda: OrchestrationRunEventTrigger("o", **OPTIONS), "orchestration_runs"),
    "all_orchestrations": (lambda: OrchestrationRunEventTrigger(**OPTIONS), "orchestration_runs"),
}


class Watcher:
    """Running event trigger and its events."""

    def __init__(self, service: RunService) -> None:
        self.service = service
        self.events: list[dict[str, Any]] = []

    @property
    def run_ids(self) -> list[str]:
        return [event["run_id"] for event in self.events]

    async def poll(self, times: int = 3) -> None:
        """Wait until the trigger has polled the service this many more times."""

        def polls() -> int:
            return max(self.service.requests[name] for name in POLLED)

        before = polls()
        await until(lambda: polls() >= before + times)

    async def event(self, number: int = 1) -> None:
        """Wait until the trigger has this number of events."""
        await until(lambda: len(self.events) >= number)


@asynccontextmanager
async def watching(trigger: Any, service: RunService, store: AssetStateStore | None = None) -> AsyncIterator[Watcher]:
    """Run a trigger in the background, after it has stored its first cursor."""
    watcher = Watcher(service)
    store = trigger.asset_state_store = store or AssetStateStore()

    async def collect() -> None:
        stream = trigger.run()
        try:
            async for event in stream:
                watcher.events.append(json.loads(json.dumps(event.payload)))
        finally:
            await stream.aclose()

    task = asyncio.create_task(collect())
    try:
        await until(lambda: bool(store.kept))
        yield watcher
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Scenario(NamedTuple):
    """
    Runs that an event trigger sees.

    :param before: the runs at the first poll.
    :param steps: the runs that change or appear, and the IDs of all events after that.
    """

    trigger: str
    before: list[Run]
    steps: list[tuple[list[Run], list[str]]]


STORIES = {
    "planned run is canceled": Scenario(
        "orchestration",
        [PLANNED, ("first", "COMPLETED", 2, 2, 1)],
        [([("planned", "CANCELED", -24)], []), ([LATER], ["later"])],
    ),
    "planned run is executed early": Scenario(
        "orchestration",
        [PLANNED],
        [([("planned", "COMPLETED", -24, 0, 0)], ["planned"]), ([LATER], ["planned", "later"])],
    ),
    "run is listed hours after its due date": Scenario(
        "all_orchestrations", [("newest", "COMPLETED", 0.02, 0.02, 0)], [([("late", "COMPLETED", 2, 0, 0)], ["late"])]
    ),
    "run starts in the future": Scenario(
        "stream", [("odd", "COMPLETED", -24, -25)], [([("later", "COMPLETED", 0, 0)], ["later"])]
    ),
    "old runs appear after an empty list": Scenario(
        "stream",
        [],
        [
            ([(f"r{day}", "COMPLETED", 24 * day, 24 * day) for day in range(1, 5)], []),
            ([("new", "COMPLETED", 0, 0)], ["new"]),
        ],
    ),
    "runs finish simultaneously": Scenario(
        "orchestration",
        [(f"r{n}", "RUNNING", n / 60, n / 60) for n in range(3)],
        [
            ([("r0", "COMPLETED", 0, 0, 0)], ["r0"]),
            ([(f"r{n}", "COMPLETED", n / 60, n / 60, 0) for n in (1, 2)], ["r0", "r2", "r1"]),
        ],
    ),
    **{
        f"finished_at is {name}": Scenario(
            "orchestration", [("r1", "RUNNING", 0, 0)], [([("r1", "COMPLETED", 0, 0, finished)], ["r1"])]
        )
        for name, finished in {"absent": None, "ahead": -24, "past": 48, "zero": "0001-01-01T00:00:00.000Z"}.items()
    },
    **{
        f"clock of the service is {-hours} h ahead": Scenario(
            "reverse_etl", [], [([("r1", "COMPLETED", hours, hours)], ["r1"])]
        )
        for hours in (-1, 1)
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", STORIES.values(), ids=STORIES)
async def test_each_run_is_reported_once(scenario: Scenario, service: RunService) -> None:
    trigger, name = TRIGGERS[scenario.trigger]
    show(service, name, *scenario.before)
    async with watching(trigger(), service) as watcher:
        for runs, reported in scenario.steps:
            show(service, name, *runs)
            await watcher.event(len(reported))
            await watcher.poll()
            assert watcher.run_ids == reported


@pytest.mark.slow
async def test_many_canceled_planned_runs_are_not_reported_twice(service: RunService) -> None:
    days = range(1, 500)
    show(service, "orchestration_runs", *((f"c{day}", "NOT_STARTED", -24 * day) for day in days))
    show(service, "orchestration_runs", ("done", "COMPLETED", 0.15, 0.15, 0.13))
    async with watching(TRIGGERS["orchestration"][0](), service) as watcher:
        show(service, "orchestration_runs", *((f"c{day}", "CANCELED", -24 * day) for day in days))
        # A poll reads six pages.
        await watcher.poll(20)
        show(service, "orchestration_runs", LATER)
        await watcher.event()
        await watcher.poll(20)
    assert watcher.run_ids == ["later"]


@pytest.mark.slow
async def test_a_run_that_is_not_found_for_a_while_is_reported(service: RunService) -> None:
    show(service, "orchestration_runs", ("r1", "RUNNING", 30, 30))
    show(service, "orchestration_runs", ("r2", "COMPLETED", 0, 0, 0))
    async with watching(TRIGGERS["orchestration"][0](), service) as watcher:
        service.unlisted, service.not_found = {"r1"}, {"r1"}
        await until(lambda: service.requests["orchestration_runs/one"] >= 3)
        show(service, "orchestration_runs", ("r1", "COMPLETED", 30, 30, 0))
        service.unlisted, service.not_found = set(), set()
        await watcher.event()
    assert watcher.run_ids == ["r1"]


@pytest.mark.slow
@pytest.mark.parametrize("missing_at", ["begin", "later"])
async def test_old_runs_of_a_reappearing_stream_are_not_reported(missing_at: str, service: RunService) -> None:
    for day in range(1, 4):
        for name in "ab":
            show(service, "elt_stream_runs", (f"{name}{day}", "COMPLETED", 24 * day, 24 * day, name))
    service.streams = ["a"] if missing_at == "begin" else ["a", "b"]
    async with watching(TRIGGERS["sync"][0](), service) as watcher:
        service.streams = ["a"]
        await watcher.poll()
        service.streams = ["a", "b"]
        await watcher.poll()
        show(service, "elt_stream_runs", ("new", "COMPLETED", 0, 0, "b"))
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["new"]


@pytest.mark.slow
async def test_a_lagging_answer_repeats_no_materialization_event(service: RunService) -> None:
    def built(status: str, updated_at: str) -> dict[str, Any]:
        return transform(materialization_status=status, updated_at=updated_at)

    before, after = built("completed", ago(hours=2)), built("failed", ago())
    service.transform = before
    trigger = TransformMaterializationEventTrigger("t", outcomes=ANY, **OPTIONS)
    async with watching(trigger, service) as watcher:
        for answer in (after, before, after, before, after):
            service.transform = answer
            await watcher.poll()
        service.transform = built("completed", ago(seconds=-1))
        await watcher.event(2)
    assert [event["outcome"] for event in watcher.events] == ["failed", "succeeded"]


def run_of(name: str, run_id: str, status: str, minutes: float, finished: float | None = None) -> dict[str, Any]:
    """Return a run of a list, whose times are minutes ago."""
    hours, end = minutes / 60, None if finished is None else finished / 60
    if name == "orchestration_runs":
        # Those of a schedule are due at whole minutes.
        return orchestration(run_id, status, hours, hours, end) | {"due_at": ago(minutes=minutes)[:-7] + "00.000Z"}
    return (reverse_etl if name == "reverse_etl_sync_runs" else stream)(run_id, status, hours, end)


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", TRIGGERS)
async def test_a_changed_format_of_run_ids_loses_and_repeats_no_event(
    kind: str, restarts: bool, service: RunService, caplog: pytest.LogCaptureFixture
) -> None:
    (trigger, name), store = TRIGGERS[kind], AssetStateStore()
    show(service, name, *(run_of(name, f"old{n}", "COMPLETED", n, n - 0.5) for n in (2, 3, 60)))
    going = run_of(name, "going", "RUNNING", 1)
    show(service, name, going)
    caplog.set_level(logging.WARNING, logger="airflow_provider_datapipe")
    async with watching(trigger(), service, store) as watcher:
        if not restarts:
            rename_runs(service)
            await watcher.poll()
            assert watcher.events == []
            show(service, name, going | {"status": "COMPLETED", "finished_at": ago()})
            await watcher.event()
            await watcher.poll()
    if restarts:
        # Format and state change while no triggerer runs.
        rename_runs(service)
        show(service, name, going | {"status": "COMPLETED", "finished_at": ago()})
        async with watching(trigger(), service, store) as watcher:
            await watcher.event()
            await watcher.poll()
    assert watcher.run_ids == ["v2-going"]
    assert len([record for record in caplog.records if "changed the IDs" in record.message]) == 1


@pytest.mark.slow
async def test_run_behind_many_newer_ones_survives_id_format_change(service: RunService) -> None:
    show(service, "orchestration_runs", ("slow", "RUNNING", 40, 40))
    async with watching(TRIGGERS["orchestration"][0](), service) as watcher:
        show(service, "orchestration_runs", *((f"r{n}", "FAILED", n / 60, n / 60, n / 60) for n in range(300)))
        await watcher.poll(20)
        rename_runs(service)
        await watcher.poll(20)
        show(service, "orchestration_runs", ("slow", "COMPLETED", 40, 40, 0))
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["v2-slow"]
