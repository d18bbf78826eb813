"""Tests that event triggers report each run once, for any order, times and IDs in the lists of the service."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_provider_datapipe.triggers.events import (
    EltStreamRunEventTrigger,
    OrchestrationRunEventTrigger,
    ReverseEtlRunEventTrigger,
    TransformMaterializationEventTrigger,
)
from tests.support.run_service import RunService, ago, orchestration_run, reverse_etl_run, stream_run

pytestmark = pytest.mark.slow


OPTIONS: dict[str, Any] = {"datapipe_conn_id": "datapipe_faults", "poll_interval": 0.03}
ANY = ["succeeded", "partial", "failed", "canceled", "unknown"]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunService]:
    with RunService() as running:
        connection = {"conn_type": "datapipe", "host": running.url, "password": "a-key", "extra": {"retry_budget": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_DATAPIPE_FAULTS", json.dumps(connection))
        yield running


class Store:
    """Airflow's state store of one asset."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def aget(self, key: str) -> Any:
        return self.kept.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = json.loads(json.dumps(value))


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
        watched = {"elt_syncs/one", "transforms/one", "elt_stream_runs", "orchestration_runs", "reverse_etl_sync_runs"}

        def polls() -> int:
            return max(self.service.requests[name] for name in watched)

        before = polls()
        await until(lambda: polls() >= before + times)

    async def event(self, number: int = 1) -> None:
        """Wait until the trigger has this number of events."""
        await until(lambda: len(self.events) >= number)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - the condition has no event of its own
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(trigger: Any, service: RunService, store: Store | None = None) -> AsyncIterator[Watcher]:
    """Run a trigger in the background, after it has stored its first cursor."""
    watcher = Watcher(service)
    store = trigger.asset_state_store = store or Store()

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


async def test_a_canceled_planned_run_hides_no_later_run(service: RunService) -> None:
    planned = orchestration_run("planned", "NOT_STARTED", due=ago(hours=-24))
    first = orchestration_run("first", "COMPLETED", due=ago(hours=2), started=ago(hours=2), finished=ago(hours=1))
    service.runs["orchestration_runs"] = [planned, first]
    async with watching(OrchestrationRunEventTrigger("o", **OPTIONS), service) as watcher:
        service.runs["orchestration_runs"] = [planned | {"status": "CANCELED"}, first]
        await watcher.poll()
        later = orchestration_run("later", "COMPLETED", due=ago(), started=ago(), finished=ago())
        service.runs["orchestration_runs"] = [planned | {"status": "CANCELED"}, later, first]
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["later"]


async def test_a_planned_run_that_is_executed_early_hides_no_later_run(service: RunService) -> None:
    early = orchestration_run("early", "NOT_STARTED", due=ago(hours=-24))
    service.runs["orchestration_runs"] = [early]
    async with watching(OrchestrationRunEventTrigger("o", **OPTIONS), service) as watcher:
        early |= {"status": "COMPLETED", "started_at": ago(), "finished_at": ago()}
        await watcher.event()
        later = orchestration_run("later", "COMPLETED", due=ago(), started=ago(), finished=ago())
        service.runs["orchestration_runs"] = [early, later]
        await watcher.event(2)
    assert watcher.run_ids == ["early", "later"]


async def test_many_canceled_planned_runs_are_not_reported_twice(service: RunService) -> None:
    planned = [orchestration_run(f"c{day}", "NOT_STARTED", due=ago(days=-day)) for day in range(1, 500)]
    canceled = [run | {"status": "CANCELED"} for run in planned]
    done = orchestration_run("done", "COMPLETED", due=ago(minutes=9), started=ago(minutes=9), finished=ago(minutes=8))
    service.runs["orchestration_runs"] = [*planned, done]
    async with watching(OrchestrationRunEventTrigger("o", **OPTIONS), service) as watcher:
        service.runs["orchestration_runs"] = [*canceled, done]
        await watcher.poll(20)
        later = orchestration_run("later", "COMPLETED", due=ago(), started=ago(), finished=ago())
        service.runs["orchestration_runs"] = [*canceled, later, done]
        await watcher.event()
        # A poll reads six pages.
        await watcher.poll(20)
    assert watcher.run_ids == ["later"]


async def test_run_listed_hours_after_its_due_date_is_reported(service: RunService) -> None:
    newest = orchestration_run("newest", "COMPLETED", due=ago(minutes=1), started=ago(minutes=1), finished=ago())
    service.runs["orchestration_runs"] = [newest]
    async with watching(OrchestrationRunEventTrigger(None, **OPTIONS), service) as watcher:
        late = orchestration_run("late", "COMPLETED", due=ago(hours=2), started=ago(), finished=ago())
        service.runs["orchestration_runs"] = [newest, late]
        await watcher.event()
    assert watcher.run_ids == ["late"]


async def test_a_started_at_in_the_future_hides_no_later_run(service: RunService) -> None:
    odd = stream_run("odd", "COMPLETED", started=ago(hours=-24), finished=ago(hours=-25))
    service.runs["elt_stream_runs"] = [odd]
    async with watching(EltStreamRunEventTrigger("s", **OPTIONS), service) as watcher:
        later = stream_run("later", "COMPLETED", started=ago(), finished=ago())
        service.runs["elt_stream_runs"] = [odd, later]
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["later"]


@pytest.mark.parametrize(
    "finished",
    [None, ago(hours=-24), ago(hours=48), "0001-01-01T00:00:00.000Z"],
    ids=["absent", "in the future", "in the past", "zero time"],
)
async def test_a_finished_run_with_any_finished_at_is_reported_once(finished: str | None, service: RunService) -> None:
    run = orchestration_run("r1", "RUNNING", due=ago(), started=ago())
    service.runs["orchestration_runs"] = [run]
    async with watching(OrchestrationRunEventTrigger("o", **OPTIONS), service) as watcher:
        run |= {"status": "COMPLETED", "finished_at": finished}
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["r1"]


@pytest.mark.parametrize("hours", [-1, 1])
async def test_events_do_not_depend_on_the_clock_of_the_service(hours: int, service: RunService) -> None:
    started, finished = ago(hours=hours), ago(hours=hours)
    async with watching(ReverseEtlRunEventTrigger("r", **OPTIONS), service) as watcher:
        service.runs["reverse_etl_sync_runs"] = [reverse_etl_run("r1", "COMPLETED", started=started, finished=finished)]
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["r1"]


async def test_runs_that_finish_simultaneously_are_all_reported(service: RunService) -> None:
    runs = [orchestration_run(f"r{n}", "RUNNING", due=ago(minutes=n), started=ago(minutes=n)) for n in range(3)]
    service.runs["orchestration_runs"] = runs
    async with watching(OrchestrationRunEventTrigger("o", **OPTIONS), service) as watcher:
        end = {"status": "COMPLETED", "finished_at": ago()}
        runs[0] |= end
        await watcher.event()
        service.runs["orchestration_runs"] = [runs[0], runs[1] | end, runs[2] | end]
        await watcher.event(3)
        await watcher.poll()
    assert watcher.run_ids == ["r0", "r2", "r1"]


async def test_a_run_that_is_not_found_for_a_while_is_reported(service: RunService) -> None:
    run = orchestration_run("r1", "RUNNING", due=ago(hours=30), started=ago(hours=30))
    newest = orchestration_run("r2", "COMPLETED", due=ago(), started=ago(), finished=ago())
    service.runs["orchestration_runs"] = [run, newest]
    async with watching(OrchestrationRunEventTrigger("o", **OPTIONS), service) as watcher:
        service.unlisted, service.not_found = {"r1"}, {"r1"}
        await until(lambda: service.requests["orchestration_runs/one"] >= 3)
        run |= {"status": "COMPLETED", "finished_at": ago()}
        service.unlisted, service.not_found = set(), set()
        await watcher.event()
    assert watcher.run_ids == ["r1"]


async def test_an_empty_first_list_makes_old_runs_no_new_ones(service: RunService) -> None:
    old = [stream_run(f"r{day}", "COMPLETED", started=ago(days=day), finished=ago(days=day)) for day in range(1, 5)]
    async with watching(EltStreamRunEventTrigger("s", **OPTIONS), service) as watcher:
        service.runs["elt_stream_runs"] = old
        await watcher.poll()
        new = stream_run("new", "COMPLETED", started=ago(), finished=ago())
        service.runs["elt_stream_runs"] = [*old, new]
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["new"]


@pytest.mark.parametrize("missing_at", ["begin", "later"])
async def test_old_runs_of_a_reappearing_stream_are_not_reported(missing_at: str, service: RunService) -> None:
    old = [
        stream_run(f"{stream}{day}", "COMPLETED", started=ago(days=day), finished=ago(days=day), stream_id=stream)
        for stream in "ab"
        for day in range(1, 4)
    ]
    service.runs["elt_stream_runs"] = old
    service.streams = ["a"] if missing_at == "begin" else ["a", "b"]
    async with watching(EltStreamRunEventTrigger(sync_id="sync", **OPTIONS), service) as watcher:
        service.streams = ["a"]
        await watcher.poll()
        service.streams = ["a", "b"]
        await watcher.poll()
        new = stream_run("new", "COMPLETED", started=ago(), finished=ago(), stream_id="b")
        service.runs["elt_stream_runs"] = [*old, new]
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["new"]


def transform(status: str, updated_at: str) -> dict[str, Any]:
    return {
        "id": "t",
        "name": "t",
        "folder_path": "models",
        "status": "published",
        "materialization": "table",
        "sql_template": "SELECT 1",
        "parameters": [],
        "materialization_status": status,
        "created_at": ago(days=9),
        "updated_at": updated_at,
    }


async def test_a_lagging_answer_repeats_no_materialization_event(service: RunService) -> None:
    before, after = transform("completed", ago(hours=2)), transform("failed", ago())
    service.transform = before
    trigger = TransformMaterializationEventTrigger("t", outcomes=ANY, **OPTIONS)
    async with watching(trigger, service) as watcher:
        for answer in (after, before, after, before, after):
            service.transform = answer
            await watcher.poll()
        service.transform = transform("completed", ago(seconds=-1))
        await watcher.event(2)
    assert [event["outcome"] for event in watcher.events] == ["failed", "succeeded"]


def runs_of(kind: str, run_id: str, status: str, minutes: float, finished: str | None = None) -> dict[str, Any]:
    if kind == "orchestration":
        # Those of a schedule are due at whole minutes.
        due = ago(minutes=minutes)[:-7] + "00.000Z"
        return orchestration_run(run_id, status, due=due, started=ago(minutes=minutes), finished=finished)
    make = reverse_etl_run if kind == "reverse_etl" else stream_run
    return make(run_id, status, started=ago(minutes=minutes), finished=finished)


RENAMED: dict[str, tuple[Callable[[], Any], str]] = {
    "stream": (lambda: EltStreamRunEventTrigger("s", **OPTIONS), "elt_stream_runs"),
    "sync": (lambda: EltStreamRunEventTrigger(sync_id="sync", **OPTIONS), "elt_stream_runs"),
    "reverse_etl": (lambda: ReverseEtlRunEventTrigger("r", **OPTIONS), "reverse_etl_sync_runs"),
    "orchestration": (lambda: OrchestrationRunEventTrigger("o", **OPTIONS), "orchestration_runs"),
    "all_orchestrations": (lambda: OrchestrationRunEventTrigger(**OPTIONS), "orchestration_runs"),
}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", RENAMED)
async def test_a_changed_format_of_run_ids_loses_and_repeats_no_event(
    kind: str, restarts: bool, service: RunService, caplog: pytest.LogCaptureFixture
) -> None:
    trigger, name = RENAMED[kind]
    kind = "orchestration" if kind == "all_orchestrations" else kind
    store = Store()
    old = [runs_of(kind, f"old{n}", "COMPLETED", n, ago(minutes=n - 0.5)) for n in (2, 3, 60)]
    going = runs_of(kind, "going", "RUNNING", 1)
    service.runs[name] = [going, *old]
    caplog.set_level(logging.WARNING, logger="airflow_provider_datapipe")
    async with watching(trigger(), service, store) as watcher:
        if not restarts:
            service.format = lambda run_id: f"v2-{run_id}"
            await watcher.poll()
            assert watcher.events == []
            service.runs[name] = [going | {"status": "COMPLETED", "finished_at": ago()}, *old]
            await watcher.event()
            await watcher.poll()
    if restarts:
        # Format and state change while no triggerer runs.
        service.format = lambda run_id: f"v2-{run_id}"
        service.runs[name] = [going | {"status": "COMPLETED", "finished_at": ago()}, *old]
        async with watching(trigger(), service, store) as watcher:
            await watcher.event()
            await watcher.poll()
    assert watcher.run_ids == ["v2-going"]
    assert len([record for record in caplog.records if "changed the IDs" in record.message]) == 1


async def test_run_behind_many_newer_ones_survives_id_format_change(service: RunService) -> None:
    slow = orchestration_run("slow", "RUNNING", due=ago(hours=40), started=ago(hours=40))
    newer = [
        orchestration_run(f"r{n}", "FAILED", due=ago(minutes=n), started=ago(minutes=n), finished=ago(minutes=n))
        for n in range(300)
    ]
    service.runs["orchestration_runs"] = [slow]
    async with watching(OrchestrationRunEventTrigger("o", **OPTIONS), service) as watcher:
        service.runs["orchestration_runs"] = [slow, *newer]
        await watcher.poll(20)
        service.format = lambda run_id: f"v2-{run_id}"
        await watcher.poll(20)
        service.runs["orchestration_runs"] = [slow | {"status": "COMPLETED", "finished_at": ago()}, *newer]
        await watcher.event()
        await watcher.poll()
    assert watcher.run_ids == ["v2-slow"]
