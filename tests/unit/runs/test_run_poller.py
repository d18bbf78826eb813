"""Waits and requests that share a run poller, on real event loops with an HTTP server of many runs."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self
from unittest.mock import AsyncMock, Mock

import pytest

from airflow_provider_datapipe.api.endpoints import reverse_etl_failed_records
from airflow_provider_datapipe.api.errors import ConfigurationError, InvalidInputError, NotFoundError, RateLimitError
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs.batch import Batch, WaitingForOtherRun
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunRef, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.polling import run_poller
from airflow_provider_datapipe.runs.polling.bulk_status import SyncStatus
from airflow_provider_datapipe.runs.polling.poll_schedule import PollSchedule
from airflow_provider_datapipe.runs.polling.run_poller import RunPoller, shared_run_poller
from airflow_provider_datapipe.runs.polling.shared_client import Reader
from airflow_provider_datapipe.runs.wait import WaitOutcomeReason, WaitPolicy
from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger
from tests.support.many_runs import ManyRunsServer
from tests.support.responses import LONG_AGO
from tests.support.scripted_server import Reply
from tests.unit.runs.many_waits import many, orchestration, references, reverse_etl

CONN_ID = "datapipe_board"
OFTEN = WaitPolicy(poll_interval=0.1)
#: Seconds after which a test counts as hanging.
TIME_LIMIT = 30.0
SUCCEEDED = {Outcome.SUCCEEDED}
COUNT = replace(reverse_etl_failed_records.count("e"), once=True)


async def waiting_in_trigger(read: Reader, batch: Batch, policy: WaitPolicy) -> None:
    async with shared_run_poller(CONN_ID, read) as poller:
        await poller.wait(batch, policy)


class Scene:
    """
    Active runs, their server, and the Airflow connection to it.

    :param latency: seconds per response.
    :param settings: further settings of the connection.
    :param counts: numbers of runs by kind.
    """

    def __init__(self, latency: float = 0.0, settings: dict[str, Any] | None = None, **counts: int) -> None:
        self.runs = many(time.time(), **counts)
        self.server = ManyRunsServer(self.runs, latency)
        self.more = settings or {}
        #: Number of reads of the connection, and the error of the next read.
        self.reads = 0
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        self.server.__enter__()
        self.settings = Settings(self.server.url, "first-key", **self.more)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__(None, None, None)

    async def read(self) -> Settings:
        self.reads += 1
        if self.error:
            raise self.error
        return self.settings

    @property
    def references(self) -> list[RunRef]:
        return references(self.runs)

    def end_all(self) -> None:
        runs = self.runs
        for run in [*runs.reverse_etl.values(), *runs.orchestrations.values(), *runs.streams["y"].values()]:
            run.ends_at = time.time()

    async def wait(self, reference: RunRef, policy: WaitPolicy = OFTEN) -> Batch:
        batch = Batch(reference.kind, waiting=[reference])
        await waiting_in_trigger(self.read, batch, policy)
        return batch

    def tasks(self, policy: WaitPolicy = OFTEN) -> list[asyncio.Task[Batch]]:
        return [asyncio.create_task(self.wait(each, policy)) for each in self.references]

    async def wait_for_all(self, policy: WaitPolicy = OFTEN) -> list[Any]:
        return await asyncio.gather(*self.tasks(policy), return_exceptions=True)

    async def start(self, policy: WaitPolicy = OFTEN, *, after: int = 60) -> list[asyncio.Task[Batch]]:
        """Start a wait for each run. Return the waits after a number of requests."""
        waits = self.tasks(policy)
        await until(lambda: self.runs.count() > after)
        return waits

    async def finish(self, waits: Sequence[asyncio.Task[Any]]) -> list[Any]:
        """End all runs. Return the results or the errors of the waits."""
        self.end_all()
        return await asyncio.gather(*waits, return_exceptions=True)


@asynccontextmanager
async def scene_of(**fields: Any) -> AsyncIterator[Scene]:
    """Yield a scene. Limit the time of the test, and assert that no task, poller or socket remains."""
    with Scene(**fields) as scene:
        async with asyncio.timeout(TIME_LIMIT):
            before = sockets()
            yield scene
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert not shared_run_poller.objects.get(asyncio.get_running_loop())
            await until(lambda: sockets() <= before)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(TIME_LIMIT):
        while not holds():  # noqa: ASYNC110 - the condition depends on another thread
            await asyncio.sleep(0.01)


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait for their end."""
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(each.cancelled() for each in tasks)


def sockets() -> int:
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += str(each.readlink()).startswith("socket:")
    return found


def outcomes(batches: Iterable[Batch]) -> set[Outcome]:
    return {end.outcome for batch in batches for end in batch.ended}


# Few requests, few connections.


@pytest.mark.slow
async def test_many_waits_share_requests_and_connections() -> None:
    counts = {"reverse_etl": 10, "streams": 50, "orchestrations": 120}
    async with scene_of(latency=0.02, settings={"max_connections": 4}, **counts) as scene:
        runs = scene.runs
        waits = [*scene.tasks(), *scene.tasks(), *scene.tasks()]
        await until(lambda: runs.count("/elt_syncs/y/status") >= 10)
        assert outcomes(await scene.finish(waits)) == SUCCEEDED
    assert scene.server.most_under_way <= 4
    assert len(scene.server.peers) <= 4
    assert scene.reads == 1
    per_path = runs.per_path
    # The last poll, and a first poll for each of the three waits, which can join the poller at different times.
    assert max(per_path[f"/elt_stream_runs/y.s{number}"] for number in range(50)) <= 4
    assert not runs.count("/orchestration_runs/")
    assert runs.count("/orchestration_runs?") >= 2


async def test_waits_that_end_together_are_woken_few_at_a_time() -> None:
    turn, woken = 0, Counter[int]()

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with scene_of(orchestrations=200) as scene:

        async def wait(reference: RunRef) -> Batch:
            batch = Batch(reference.kind, waiting=[reference])
            async with shared_run_poller(CONN_ID, scene.read) as poller:
                await poller.wait(batch, OFTEN)
                woken[turn] += 1
                # Keep the loop busy until all waits have ended, like other triggers.
                await until(lambda: woken.total() == 200)
            return batch

        counting = asyncio.create_task(count())
        waits = [asyncio.create_task(wait(each)) for each in scene.references]
        await until(lambda: scene.runs.count("/orchestration_runs?") >= 2)
        assert outcomes(await scene.finish(waits)) == SUCCEEDED
        await cancel([counting])
    assert max(woken.values()) <= run_poller._GROUP_SIZE


async def test_wait_ends_if_a_blocked_target_can_start() -> None:
    async with scene_of(reverse_etl=3) as scene:
        queued = [RunTarget("a", "a"), RunTarget("b", "b")]
        blocked = [WaitingForOtherRun(reverse_etl("r1"), RunTarget("c", "c"))]
        batch = Batch("reverse_etl", queued, [reverse_etl("r0"), reverse_etl("r2")], blocked, at_a_time=3)
        waiting = asyncio.create_task(waiting_in_trigger(scene.read, batch, OFTEN))
        await until(lambda: scene.runs.count("/reverse_etl_sync_runs/r1") >= 2)
        scene.runs.reverse_etl["r1"].ends_at = time.time()
        await waiting
        # The target that was blocked is queued first.
        assert [each.name for each in batch.queued] == ["c", "a", "b"]
        assert {each.run_id for each in batch.waiting} == {"r0", "r2"}
        assert not batch.blocked
        # A batch that can start a run ends the wait at once.
        await waiting_in_trigger(scene.read, batch, OFTEN)


@pytest.mark.parametrize("counts", [{"streams": 4}, {"reverse_etl": 4}], ids=["shared", "direct"])
async def test_batch_with_several_overdue_runs_ends_alone(counts: dict[str, Any]) -> None:
    """The first timeout ends the other waits of its batch, but no wait of another batch."""
    async with scene_of(**counts) as scene:
        first, second, third, fourth = scene.references
        blocked = [WaitingForOtherRun(each, RunTarget(each.name, each.name)) for each in (second, third)]
        batch = Batch(first.kind, [], [first], blocked)
        policy = replace(OFTEN, deadline=time.time() + 0.3)
        late = asyncio.create_task(waiting_in_trigger(scene.read, batch, policy))
        await asyncio.sleep(0)
        other = asyncio.create_task(scene.wait(fourth, policy))
        await late
        assert {end.reference.name: end.reason for end in batch.ended} == {
            first.name: WaitOutcomeReason.TIMEOUT,
            second.name: WaitOutcomeReason.NOT_STARTED,
            third.name: WaitOutcomeReason.NOT_STARTED,
        }
        assert [end.reason for end in (await other).ended] == [WaitOutcomeReason.TIMEOUT]


# The connection changes.


async def test_new_api_key_is_used() -> None:
    async with scene_of(reverse_etl=20, streams=20) as scene:
        runs, waits = scene.runs, await scene.start()
        runs.keys = {"second-key"}
        refused = len(runs.asked)
        await until(lambda: len(runs.asked) > refused + 1)
        assert not any(wait.done() for wait in waits)
        scene.settings = replace(scene.settings, api_key="second-key")
        rotated = len(runs.asked)
        await until(lambda: any(each.headers.get("x-api-key") == "second-key" for each in runs.asked[rotated:]))
        assert outcomes(await scene.finish(waits)) == SUCCEEDED


@pytest.mark.slow
async def test_a_trigger_notices_a_deleted_or_changed_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def connect(key: str) -> None:
        connection = {"conn_type": "datapipe", "host": scene.server.url, "password": key}
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))

    async def event_of(reference: RunRef) -> Any:
        batch = Batch("reverse_etl", waiting=[reference])
        trigger = DatapipeRunTrigger(CONN_ID, batch.as_dict(), OFTEN.as_dict())
        (event,) = [event async for event in trigger.run()]
        return event.payload

    caplog.set_level(logging.WARNING)
    async with scene_of(reverse_etl=3) as scene:
        runs = scene.runs
        connect("old")
        waits = [asyncio.create_task(event_of(each)) for each in scene.references]
        await until(lambda: runs.count() > 10)
        monkeypatch.delenv(f"AIRFLOW_CONN_{CONN_ID.upper()}")
        runs.keys = {"new"}
        await until(lambda: "cannot be read again" in caplog.text)
        connect("new")
        before = len(runs.asked)
        await until(lambda: any(each.headers.get("x-api-key") == "new" for each in runs.asked[before:]))
        events = await scene.finish(waits)
        assert [event["status"] for event in events] == ["success"] * 3
        assert outcomes(Batch.from_dict(event["batch"]) for event in events) == SUCCEEDED
    assert "old" not in caplog.text


@pytest.mark.slow
async def test_an_unusable_change_of_the_connection_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async with scene_of(reverse_etl=5) as scene:
        waits = await scene.start(after=10)
        scene.settings = replace(scene.settings, ca_bundle="/nowhere/authority.pem")
        scene.runs.fault = lambda path, now: Reply(503)
        await until(lambda: "authority.pem" in caplog.text)
        scene.runs.fault = lambda path, now: None
        assert outcomes(await scene.finish(waits)) == SUCCEEDED


async def test_an_unreadable_connection_is_an_error_for_each_wait() -> None:
    async with scene_of(reverse_etl=3) as scene:
        scene.error = ConfigurationError("there is no key")
        assert [str(error) for error in await scene.wait_for_all()] == ["there is no key"] * 3


# Canceled waits.


async def test_canceled_waits_leave_no_state_and_others_continue() -> None:
    async with scene_of(reverse_etl=20, streams=20, orchestrations=20) as scene:
        kept = {reference.run_id for reference in scene.references[1::2]}
        waits = await scene.start()
        poller = shared_run_poller.objects[asyncio.get_running_loop()][CONN_ID]
        schedule = poller._schedule
        await until(lambda: len(poller._waits) == 60)
        await cancel(waits[::2])
        assert (poller.users, len(poller._waits), len(schedule)) == (30, 30, 30)
        # Their requests come to an end.
        await until(
            lambda: (
                len(schedule._scheduled) == 30
                and {watch.reference.run_id for each in schedule._sources.values() for watch in each.run_waits} <= kept
            )
        )
        assert outcomes(await scene.finish(waits[1::2])) == SUCCEEDED


@pytest.mark.slow
async def test_waits_canceled_during_hanging_requests_leave_no_state() -> None:
    async with scene_of(reverse_etl=100, streams=100) as scene:
        scene.server.hangs = ("/",)
        await cancel(await scene.start(after=15))


async def test_wait_that_joins_as_the_last_one_leaves_has_a_poller() -> None:
    async with scene_of(reverse_etl=40) as scene:
        for each in scene.references:
            leaving = asyncio.create_task(scene.wait(each))
            await until(partial(scene.runs.count, f"/reverse_etl_sync_runs/{each.run_id}"))
            leaving.cancel()
            await asyncio.sleep(0)
            coming = asyncio.create_task(scene.wait(each))
            scene.runs.reverse_etl[str(each.run_id)].ends_at = time.time()
            assert outcomes([await coming]) == SUCCEEDED
            assert leaving.cancelled()


async def test_two_cancellations_still_close_the_connections(caplog: pytest.LogCaptureFixture) -> None:
    async with scene_of(reverse_etl=1) as scene:
        waits = await scene.start(after=3)
        # The second cancellation interrupts the closing of the connections.
        while not waits[0].done():
            waits[0].cancel()
            await asyncio.sleep(0)
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
        # Connections that were not closed are reported when they are deleted.
        waits.clear()
        gc.collect()
    assert "Unclosed" not in caplog.text


# Event loops.


@pytest.mark.slow
def test_concurrent_and_consecutive_event_loops() -> None:
    results: list[set[Outcome]] = []
    with Scene(reverse_etl=4, streams=4) as scene:

        def one_after_the_other() -> None:
            results.extend(outcomes(asyncio.run(asyncio.wait_for(scene.wait_for_all(), TIME_LIMIT))) for _ in range(2))

        before = sockets()
        threads = [threading.Thread(target=one_after_the_other) for _ in range(3)]
        for thread in threads:
            thread.start()
        while scene.runs.count() < 60:
            time.sleep(0.01)
        scene.end_all()
        for thread in threads:
            thread.join()
        assert results == [SUCCEEDED] * 6
        assert scene.reads == 6
        gc.collect()
        assert sockets() <= before + 20
    gc.collect()
    assert not [loop for loop in shared_run_poller.objects if loop.is_closed() and shared_run_poller.objects[loop]]


@pytest.mark.slow
async def test_waits_continue_after_a_blocked_event_loop() -> None:
    async with scene_of(reverse_etl=20, streams=20) as scene:
        waits = await scene.start()
        time.sleep(2)  # noqa: ASYNC251 - blocks the loop like a faulty trigger
        assert outcomes(await scene.finish(waits)) == SUCCEEDED


# Failures.


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_deadline_holds_during_a_hanging_request_or_a_pause(
    monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.wait._GRACE", 0.2)
    monkeypatch.setattr("airflow_provider_datapipe.runs.polling.poll_schedule._SWEEP", 0.2)
    async with scene_of(reverse_etl=3, streams=3) as scene:
        if hangs:
            scene.server.hangs = ("/",)
        else:
            scene.runs.fault = lambda path, now: Reply(429, {}, {"retry-after": "3600"})
        batches = await scene.wait_for_all(replace(OFTEN, deadline=time.time() + 0.5))
        assert {end.reason for batch in batches for end in batch.ended} == {WaitOutcomeReason.TIMEOUT}


@pytest.mark.parametrize("where", ["answered", "failed", "next", "overdue"])
async def test_a_defect_ends_all_waits_with_an_error_that_is_logged(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene_of(reverse_etl=10, streams=10) as scene:
        waits = await scene.start(after=30)
        with monkeypatch.context() as patched:
            patched.setattr(PollSchedule, where, Mock(side_effect=LookupError("a defect")))
            if where == "failed":
                scene.runs.fault = lambda path, now: Reply(500)
            await asyncio.wait(waits)
        assert [str(error) for error in await scene.finish(waits)] == ["a defect"] * 20
    # The log contains the traceback.
    assert any(record.exc_info for record in caplog.records if record.name == run_poller.__name__)


async def test_an_unreadable_response_concerns_its_own_wait_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = KINDS["reverse_etl"].read

    def broken(reference: RunRef, answer: Any) -> Any:
        if reference.run_id == "r1":
            raise OverflowError("date value out of range")
        return read(reference, answer)

    monkeypatch.setattr(KINDS["reverse_etl"], "read", broken)
    async with scene_of(reverse_etl=3, streams=3) as scene:
        batches = await scene.finish(await scene.start(replace(OFTEN, contact_limit=0.5), after=30))
    ends = {end.reference.run_id: end for batch in batches for end in batch.ended}
    assert ends.pop("r1").reason is WaitOutcomeReason.LOST_CONTACT
    assert [end.outcome for end in ends.values()] == [Outcome.SUCCEEDED] * 5
    assert "could not be read (OverflowError)" in caplog.text


@pytest.mark.parametrize("run_id", ["", ".", ".."])
async def test_a_run_id_that_cannot_be_polled_ends_its_own_wait_only(run_id: str) -> None:
    going = {"id": run_id, "elt_sync_id": "x", "elt_stream_id": "s", "started_at": LONG_AGO, "status": "RUNNING"}
    url = "/elt_stream_runs?elt_stream_id=s&limit=1&sort_direction=asc"
    async with scene_of(reverse_etl=3) as scene:
        scene.runs.fault = lambda path, _: Reply(body={"data": [going], "hasMore": False}) if path == url else None
        others = scene.tasks()
        reference = RunRef("elt_stream", "s", "s", status_url=url)
        listed = await scene.wait(reference, replace(OFTEN, contact_limit=0.5))
        assert [end.reason for end in listed.ended] == [WaitOutcomeReason.LOST_CONTACT]
        # The bulk status of orchestrations does not show this run.
        with pytest.raises(InvalidInputError):
            await scene.wait(orchestration(run_id))
        assert outcomes(await scene.finish(others)) == SUCCEEDED


@pytest.mark.slow
@pytest.mark.parametrize("where", ["index", "find", "fingerprint", "read"])
async def test_defect_in_the_bulk_status_ends_no_wait(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncStatus, where, Mock(side_effect=OverflowError("date value out of range")))
    async with scene_of(streams=3) as scene:
        assert outcomes(await scene.finish(await scene.start(after=10))) == SUCCEEDED


async def test_a_wait_that_joins_after_a_defect_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_of(reverse_etl=3) as scene:
        waiting = asyncio.create_task(scene.wait(reverse_etl("r0")))
        await until(lambda: scene.runs.count() > 2)
        poller = shared_run_poller.objects[asyncio.get_running_loop()][CONN_ID]
        # Another wait is reading the connection when the defect occurs.
        await poller._clients._opening.acquire()
        reading = asyncio.create_task(scene.wait(reverse_etl("r1")))
        await asyncio.sleep(0)
        with monkeypatch.context() as patched:
            patched.setattr(RunPoller, "_step", AsyncMock(side_effect=LookupError("a defect")))
            poller._wake.set()
            with pytest.raises(LookupError):
                await waiting
        scene.end_all()
        # A later wait gets a working poller.
        assert outcomes([await scene.wait(reverse_etl("r2"))]) == SUCCEEDED
        poller._clients._opening.release()
        with pytest.raises(LookupError):
            await reading


# Single requests.


@pytest.mark.parametrize("status", [200, 404])
async def test_equal_concurrent_requests_are_sent_once(status: int) -> None:
    body = {"count": 3, "error_code": "not_found", "message": "no sync"}
    other = reverse_etl_failed_records.count("other")
    async with scene_of(latency=0.1) as scene, shared_run_poller(CONN_ID, scene.read) as poller:
        scene.runs.fault = lambda path, now: Reply(status, body)
        answers: list[Any] = await asyncio.gather(*map(poller.send, [COUNT] * 20 + [other]), return_exceptions=True)
        answers += await asyncio.gather(poller.send(COUNT), return_exceptions=True)
    if status == 200:
        assert [answer.count for answer in answers] == [3] * 22
    else:
        assert [type(answer) for answer in answers] == [NotFoundError] * 22
    assert scene.runs.count() == 3


async def test_canceled_request_does_not_cancel_an_equal_one() -> None:
    async with scene_of(latency=0.3) as scene, shared_run_poller(CONN_ID, scene.read) as poller:
        scene.runs.fault = lambda path, now: Reply(200, {"count": 3})
        leaving, staying = (asyncio.create_task(poller.send(COUNT)) for _ in range(2))
        await until(lambda: scene.server.peers)
        leaving.cancel()
        assert (await staying).count == 3
    assert scene.runs.count() == 1


async def test_canceled_requests_leave_no_task_or_socket() -> None:
    async with scene_of() as scene, shared_run_poller(CONN_ID, scene.read) as poller:
        scene.server.hangs = ("/reverse_etl_failed_records",)
        asking = [asyncio.create_task(poller.send(COUNT)) for _ in range(3)]
        await until(scene.runs.count)
        await cancel(asking)


async def test_requests_wait_for_the_end_of_retry_after() -> None:
    slow = Reply(429, {"error_code": "rate", "message": "slowly"}, {"Retry-After": "1"})
    async with scene_of() as scene, shared_run_poller(CONN_ID, scene.read) as poller:
        scene.runs.fault = lambda path, now: slow if scene.runs.count() == 1 else Reply(200, {"count": 3})
        with pytest.raises(RateLimitError):
            await poller.send(COUNT)
        assert (await poller.send(reverse_etl_failed_records.count("other"))).count == 3
    first, second = (asked.at for asked in scene.runs.asked)
    assert second >= first + 1
