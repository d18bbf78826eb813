"""Tests of all event triggers against the local service: events of finished runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.triggers.events import (
    EltStreamRunEventTrigger,
    FailedRecordsEventTrigger,
    OrchestrationRunEventTrigger,
    ReverseEtlRunEventTrigger,
    TransformMaterializationEventTrigger,
)
from tests.contract.seeds import connect, send
from tests.support.local_service import LocalService
from tests.support.processes import wait_for
from tests.system.events import seed_in

pytestmark = pytest.mark.slow


CONNECTION: dict[str, Any] = {"datapipe_conn_id": "datapipe_contract", "poll_interval": 0.05}
ANY = ["succeeded", "partial", "failed", "canceled", "unknown"]


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[LocalService]:
    with LocalService(seed_in(folder), control=True) as service:
        yield service


@pytest.fixture(autouse=True)
def connected(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, service, "datapipe_contract")


async def until(what: str, condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_for, what, condition, limit=30)


@asynccontextmanager
async def watched(trigger: Any, service: LocalService, pattern: str) -> AsyncIterator[Any]:
    """Run a trigger, and return a function that waits for its next event. The trigger has polled twice before."""
    before = len(service.journal_requests(pattern))
    events = trigger.run()
    following = asyncio.ensure_future(anext(events))

    async def event() -> dict[str, Any]:
        nonlocal following
        async with asyncio.timeout(30):
            given = await following
        following = asyncio.ensure_future(anext(events))
        payload: dict[str, Any] = json.loads(json.dumps(given.payload))
        return payload

    try:
        await until("two polls", lambda: len(service.journal_requests(pattern)) >= before + 2)
        yield event
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await events.aclose()


STREAM, SYNC = {"stream_id": "s1"}, {"sync_id": "sync"}


@pytest.mark.parametrize("what", [STREAM, SYNC, STREAM | SYNC], ids=str)
async def test_events_of_a_stream(what: dict[str, Any], service: LocalService) -> None:
    service.runs({"resources": {"s1": {"outcomes": [{}, {"fail": "planned failure"}, {"chunks": 2}]}}})
    send(service, "POST", "/elt_streams/s1/request_run")
    await until("a run is over", lambda: any(run["finished_at"] for run in service.journal_runs("s1")))
    pattern = "/elt_syncs/*/status" if "sync_id" in what else "/elt_stream_runs"
    trigger = EltStreamRunEventTrigger(**what, outcomes=ANY, **CONNECTION)
    async with watched(trigger, service, pattern) as event:
        reported = []
        for _ in range(2):
            send(service, "POST", "/elt_streams/s1/request_run")
            reported.append(await event())
    runs = service.journal_runs("s1")
    slices = [run for run in runs if run["status"] == "CHUNK_COMPLETED"]
    assert {payload["resource_id"] for payload in reported} == {"s1"}
    assert [payload["outcome"] for payload in reported] == ["failed", "succeeded"]
    assert reported[0]["run_id"] == runs[1]["run_id"]
    # A load in slices has one event, with its last run and all rows.
    assert len(slices) == 2
    assert reported[1]["run_id"] == runs[-1]["run_id"]
    assert reported[1]["rows_synced"] >= 2
    assert ("sync_id" in reported[0]) == ("sync_id" in what)


@pytest.mark.parametrize("orchestration_id", [None, "o1"])
async def test_events_of_orchestrations(orchestration_id: str | None, service: LocalService) -> None:
    trigger = OrchestrationRunEventTrigger(orchestration_id, **CONNECTION)
    async with watched(trigger, service, "/orchestration_runs") as event:
        send(service, "POST", "/orchestrations/o0/request_run")
        if orchestration_id is None:
            assert (await event())["resource_id"] == "o0"
        send(service, "POST", "/orchestrations/o1/request_run")
        payload = await event()
    (run,) = service.journal_runs("o1")
    assert (payload["resource_id"], payload["run_id"], payload["outcome"]) == ("o1", run["run_id"], "succeeded")
    assert payload["duration"] >= 0


async def test_event_of_a_reverse_etl_run(service: LocalService) -> None:
    async with watched(ReverseEtlRunEventTrigger("numbers", **CONNECTION), service, "/reverse_etl_sync_runs") as event:
        send(service, "POST", "/reverse_etl_syncs/numbers/request_run")
        payload = await event()
    (run,) = service.journal_runs("numbers")[-1:]
    assert payload["run_id"] == run["run_id"]
    assert (payload["outcome"], payload["rows_synced"], payload["rows_failed"]) == ("succeeded", 5, 0)


async def test_events_of_a_materialization(service: LocalService) -> None:
    trigger = TransformMaterializationEventTrigger("numbers", outcomes=ANY, **CONNECTION)
    # The table of the seed is still being built.
    path = "/transforms/numbers"
    await until("it is built", lambda: send(service, "GET", path)["materialization_status"] != "running")
    async with watched(trigger, service, "/transforms/*") as event:
        send(service, "POST", f"{path}/publish")
        payload = await event()
        service.runs({"resources": {"numbers": {"outcomes": [{"fail": "planned failure"}]}}})
        send(service, "POST", f"{path}/publish")
        failed = await event()
    assert (payload["kind"], payload["resource_id"], payload["outcome"]) == ("transform", "numbers", "succeeded")
    assert (failed["outcome"], failed["error"]) == ("failed", "planned failure")
    assert failed["finished_at"] > payload["finished_at"]


async def test_event_of_failed_records(service: LocalService) -> None:
    path = "/reverse_etl_failed_records/count"
    async with watched(FailedRecordsEventTrigger("numbers", 10, **CONNECTION), service, path) as event:
        for count in (9, 12):
            service.faults([{"path": path, "rewrite": {"count": count}, "times": "always"}])
        payload = await event()
    reported = {"kind": "failed_records", "resource_id": "numbers", "rows_failed": 12, "threshold": 10}
    assert payload == reported | {"outcome": "partial"}
