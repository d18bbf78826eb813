"""The board on real event loops, against a real server with many runs."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.errors import ConfigurationError
from airflow_provider_datapipe.api.settings import Settings
from airflow_provider_datapipe.runs import board as board_module
from airflow_provider_datapipe.runs.batch import Batch, Hindered
from airflow_provider_datapipe.runs.board import _BOARDS, Board, wait_on_board
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.looks import Looks
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Reference, Target
from airflow_provider_datapipe.runs.sharing import SyncStatus
from airflow_provider_datapipe.runs.wait import EndReason, WaitPolicy
from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger
from tests.support.many_runs import ManyRuns, ManyRunsServer, Run, Said

CONN_ID = "datapipe_board"
OFTEN = WaitPolicy(poll_interval=0.1)
LONG = 10_000.0
#: Seconds after which a test is taken to hang.
PATIENCE = 30.0


def served(*, reverse_etl: int = 0, streams: int = 0, orchestrations: int = 0, lasting: float = LONG) -> ManyRuns:
    runs, now = ManyRuns(), time.time()
    runs.reverse_etl = {f"r{number}": Run(now - 5, now + lasting) for number in range(reverse_etl)}
    runs.streams["y"] = {f"s{number}": Run(now - 5, now + lasting) for number in range(streams)}
    runs.orchestrations = {f"o{number}": Run(now - 5 - number, now + lasting) for number in range(orchestrations)}
    return runs


def end_all(runs: ManyRuns) -> None:
    now = time.time()
    for run in [*runs.reverse_etl.values(), *runs.orchestrations.values(), *runs.streams["y"].values()]:
        run.ends_at = now


def reverse_etl(name: str) -> Reference:
    return Reference("reverse_etl", "r", name, run_id=name)


def stream(name: str) -> Reference:
    return Reference("elt_stream", name, name, run_id=f"y.{name}", sync_id="y")


def orchestration(name: str) -> Reference:
    return Reference("orchestration", "o", name, run_id=name)


def references(runs: ManyRuns) -> list[Reference]:
    return [
        *map(reverse_etl, runs.reverse_etl),
        *map(stream, runs.streams["y"]),
        *map(orchestration, runs.orchestrations),
    ]


class Connection:
    """
    What the Airflow connection says, and how often it was read.

    :param server: where it leads.
    """

    def __init__(self, server: ManyRunsServer, **more: Any) -> None:
        self.settings = Settings(server.url, "first-key", **more)
        self.reads = 0
        self.error: Exception | None = None

    async def read(self) -> Settings:
        self.reads += 1
        if self.error:
            raise self.error
        return self.settings


async def wait_for(connection: Connection, reference: Reference, policy: WaitPolicy = OFTEN) -> Batch:
    batch = Batch(reference.kind, waiting=[reference])
    await wait_on_board(CONN_ID, connection.read, batch, policy)
    return batch


async def until(holds: Callable[[], Any]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in another thread
            await asyncio.sleep(0.01)


def sockets() -> int:
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += str(each.readlink()).startswith("socket:")
    return found


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Assert that no task, no board and no socket is left."""
    before = sockets()
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not _BOARDS.get(asyncio.get_running_loop())
    await until(lambda: sockets() <= before)


def run(main: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE), nothing_left():
            return await main

    return asyncio.run(bounded())


def outcomes(batches: list[Batch]) -> set[Outcome]:
    return {end.outcome for batch in batches for end in batch.ended}


# Few requests, few connections.


@pytest.mark.slow
def test_many_waits_share_requests_and_connections() -> None:
    runs = served(reverse_etl=10, streams=50, orchestrations=120)
    with ManyRunsServer(runs, latency=0.02) as server:
        connection = Connection(server, max_connections=4)

        async def main() -> list[Batch]:
            # Three for each.
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs) * 3]
            await until(lambda: runs.count("/elt_syncs/y/status") >= 10)
            end_all(runs)
            return await asyncio.gather(*waits)

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}
    assert server.most_under_way <= 4
    assert len(server.peers) <= 4
    assert connection.reads == 1
    per_path = runs.per_path
    # At the end, and at first for each of its three waits: they can join the board one after another.
    assert max(per_path[f"/elt_stream_runs/y.s{number}"] for number in range(50)) <= 4
    assert not runs.count("/orchestration_runs/")
    assert runs.count("/orchestration_runs?") >= 2


def test_waits_that_end_together_are_told_so_few_at_a_time() -> None:
    runs = served(orchestrations=200)
    turn, told = 0, Counter[int]()

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def wait(reference: Reference) -> Batch:
            batch = Batch(reference.kind, waiting=[reference])
            async with board_module.joined(CONN_ID, connection.read) as board:
                await board.wait(batch, OFTEN)
                told[turn] += 1
                # It stays until all are over, as the loop's other work would.
                await until(lambda: told.total() == len(runs.orchestrations))
            return batch

        async def main() -> list[Batch]:
            counting = asyncio.create_task(count())
            waits = [asyncio.create_task(wait(each)) for each in references(runs)]
            await until(lambda: runs.count("/orchestration_runs?") >= 2)
            end_all(runs)
            try:
                return await asyncio.gather(*waits)
            finally:
                counting.cancel()
                await asyncio.gather(counting, return_exceptions=True)

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}
    assert max(told.values()) <= board_module._AT_A_TIME


def test_a_batch_with_hindered_and_queued_targets_gets_room() -> None:
    runs = served(reverse_etl=3)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> None:
            queued = [Target("a", "a"), Target("b", "b")]
            hindered = [Hindered(reverse_etl("r1"), Target("c", "c"))]
            batch = Batch("reverse_etl", queued, [reverse_etl("r0"), reverse_etl("r2")], hindered, at_a_time=3)
            waiting = asyncio.create_task(wait_on_board(CONN_ID, connection.read, batch, OFTEN))
            await until(lambda: runs.count("/reverse_etl_sync_runs/r1") >= 2)
            runs.reverse_etl["r1"].ends_at = time.time()
            await waiting
            # The way is free for the one that was hindered; it comes first.
            assert [each.name for each in batch.queued] == ["c", "a", "b"]
            assert {each.run_id for each in batch.waiting} == {"r0", "r2"}
            assert not batch.hindered
            # With room, there is nothing to wait for.
            await wait_on_board(CONN_ID, connection.read, batch, OFTEN)

        run(main())


@pytest.mark.parametrize("kind", ["elt_stream", "reverse_etl"])
def test_a_batch_whose_runs_are_late_together_ends_by_itself(kind: str) -> None:
    """Delayed waits end with the first one: their own delay is no news then, and does not affect others."""
    runs = served(reverse_etl=4, streams=4)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> None:
            first, second, third, fourth = map(
                *(
                    (stream, ["s0", "s1", "s2", "s3"])
                    if kind == "elt_stream"
                    else (reverse_etl, ["r0", "r1", "r2", "r3"])
                )
            )
            hindered = [Hindered(each, Target(each.name, each.name)) for each in (second, third)]
            batch = Batch(kind, [], [first], hindered)
            policy = replace(OFTEN, deadline=time.time() + 0.3)
            late = asyncio.create_task(wait_on_board(CONN_ID, connection.read, batch, policy))
            await asyncio.sleep(0)
            other = asyncio.create_task(wait_for(connection, fourth, policy))
            await late
            assert {end.reference.name: end.reason for end in batch.ended} == {
                first.name: EndReason.TIMEOUT,
                second.name: EndReason.NOT_STARTED,
                third.name: EndReason.NOT_STARTED,
            }
            (end,) = (await other).ended
            assert end.reason is EndReason.TIMEOUT

        run(main())


# The connection changes.


def test_a_new_key_is_picked_up() -> None:
    runs = served(reverse_etl=20, streams=20)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() > 60)
            runs.keys = {"second-key"}
            refused = len(runs.asked)
            await until(lambda: len(runs.asked) > refused + 1)
            assert not any(wait.done() for wait in waits)
            connection.settings = replace(connection.settings, api_key="second-key")
            rotated = len(runs.asked)
            await until(lambda: any(each.headers.get("x-api-key") == "second-key" for each in runs.asked[rotated:]))
            end_all(runs)
            return await asyncio.gather(*waits)

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}


@pytest.mark.slow
def test_a_trigger_notices_a_deleted_or_changed_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs = served(reverse_etl=3)

    def connect(key: str) -> None:
        connection = {"conn_type": "datapipe", "host": server.url, "password": key}
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))

    async def event_of(name: str) -> Any:
        batch = Batch("reverse_etl", waiting=[reverse_etl(name)])
        trigger = DatapipeRunTrigger(CONN_ID, batch.as_dict(), OFTEN.as_dict())
        (event,) = [event async for event in trigger.run()]
        return event.payload

    async def main() -> list[Any]:
        waits = [asyncio.create_task(event_of(name)) for name in runs.reverse_etl]
        await until(lambda: runs.count() > 10)
        monkeypatch.delenv(f"AIRFLOW_CONN_{CONN_ID.upper()}")
        runs.keys = {"new"}
        await until(lambda: "can't be read again" in caplog.text)
        connect("new")
        before = len(runs.asked)
        await until(lambda: any(each.headers.get("x-api-key") == "new" for each in runs.asked[before:]))
        end_all(runs)
        return await asyncio.gather(*waits)

    with ManyRunsServer(runs) as server, caplog.at_level(logging.WARNING):
        connect("old")
        for event in run(main()):
            assert event["status"] == "success"
            (end,) = Batch.from_dict(event["batch"]).ended
            assert end.outcome is Outcome.SUCCEEDED
    assert "old" not in caplog.text


@pytest.mark.slow
def test_an_unusable_change_of_the_connection_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    runs = served(reverse_etl=5)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() > 10)
            connection.settings = replace(connection.settings, ca_bundle="/nowhere/authority.pem")
            runs.fault = lambda path, now: Said(503)
            await until(lambda: "authority.pem" in caplog.text)
            runs.fault = lambda path, now: None
            end_all(runs)
            return await asyncio.gather(*waits)

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}


def test_an_unreadable_connection_is_an_error_for_each_wait() -> None:
    with ManyRunsServer(served(reverse_etl=3)) as server:
        connection = Connection(server)
        connection.error = ConfigurationError("there is no key")

        async def main() -> list[Any]:
            waits = [wait_for(connection, each) for each in references(server.runs)]
            return await asyncio.gather(*waits, return_exceptions=True)

        assert [str(error) for error in run(main())] == ["there is no key"] * 3


# Who leaves.


def test_who_is_cancelled_leaves_nothing_while_the_others_go_on() -> None:
    runs = served(reverse_etl=20, streams=20, orchestrations=20)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() > 60)
            for wait in waits[::2]:
                wait.cancel()
            assert all(
                isinstance(each, asyncio.CancelledError)
                for each in await asyncio.gather(*waits[::2], return_exceptions=True)
            )
            board = _BOARDS[asyncio.get_running_loop()][CONN_ID]
            assert (board.users, len(board._waits), len(board._looks)) == (30, 30, 30)
            # What was under way for those who left comes to its end.
            kept = {reference.run_id for reference in references(runs)[1::2]}
            await until(
                lambda: (
                    len(board._looks._places) == 30
                    and all(
                        watch.reference.run_id in kept
                        for source in board._looks._sources.values()
                        for watch in source.watches
                    )
                )
            )
            end_all(runs)
            return await asyncio.gather(*waits[1::2])

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}


@pytest.mark.slow
@pytest.mark.parametrize("hanging", [False, True])
def test_all_that_are_cancelled_at_once_leave_nothing(hanging: bool) -> None:
    runs = served(reverse_etl=100, streams=100)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> None:
            server.hangs = ("/",) if hanging else ()
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() >= 16)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            assert all(wait.cancelled() for wait in waits)

        run(main())
        gc.collect()


def test_who_comes_while_the_last_one_leaves_finds_a_board() -> None:
    runs = served(reverse_etl=40)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> None:
            for each in references(runs):
                leaving = asyncio.create_task(wait_for(connection, each))
                path = f"/reverse_etl_sync_runs/{each.run_id}"
                await until(partial(runs.count, path))
                leaving.cancel()
                await asyncio.sleep(0)
                coming = asyncio.create_task(wait_for(connection, each))
                runs.reverse_etl[str(each.run_id)].ends_at = time.time()
                assert outcomes([await coming]) == {Outcome.SUCCEEDED}
                assert leaving.cancelled()

        run(main())


def test_two_cancellations_still_close_the_connections(caplog: pytest.LogCaptureFixture) -> None:
    runs = served(reverse_etl=5)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> None:
            wait = asyncio.create_task(wait_for(connection, reverse_etl("r0")))
            await until(lambda: runs.count() > 3)
            # From the second time on it is closing the connections.
            while not wait.done():
                wait.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(wait, return_exceptions=True)
            await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

        run(main())
        gc.collect()
    assert "Unclosed" not in caplog.text


# Loops.


@pytest.mark.slow
def test_several_loops_at_a_time_and_one_after_the_other() -> None:
    runs = served(reverse_etl=4, streams=4)
    results: list[set[Outcome]] = []
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            return await asyncio.gather(*(wait_for(connection, each) for each in references(runs)))

        def one_after_the_other() -> None:
            results.extend(outcomes(asyncio.run(asyncio.wait_for(main(), PATIENCE))) for _ in range(2))

        before = sockets()
        threads = [threading.Thread(target=one_after_the_other) for _ in range(3)]
        for thread in threads:
            thread.start()
        while runs.count() < 60:
            time.sleep(0.01)
        end_all(runs)
        for thread in threads:
            thread.join()
        assert results == [{Outcome.SUCCEEDED}] * 6
        assert connection.reads == 6
        gc.collect()
        assert sockets() <= before + 20
    gc.collect()
    assert not [loop for loop in _BOARDS if loop.is_closed() and _BOARDS[loop]]


@pytest.mark.slow
def test_a_loop_that_is_blocked_goes_on() -> None:
    runs = served(reverse_etl=20, streams=20)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() > 60)
            time.sleep(2)  # noqa: ASYNC251 - as the trigger of somebody else does
            end_all(runs)
            return await asyncio.gather(*waits)

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}


# What goes wrong.


@pytest.mark.slow
def test_a_service_that_is_down_is_asked_by_one_for_all() -> None:
    runs = served(reverse_etl=300)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() > 300)
            runs.fault = lambda path, now: Said(503)
            down = len(runs.asked)
            await until(lambda: connection.reads >= 4)
            # What was under way, and one for each time that the connection was read again.
            assert len(runs.asked) - down <= 16 + connection.reads
            runs.fault = lambda path, now: None
            end_all(runs)
            return await asyncio.gather(*waits)

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}


@pytest.mark.parametrize("hangs", [True, False])
def test_a_deadline_holds_during_a_hanging_request_or_a_pause(monkeypatch: pytest.MonkeyPatch, hangs: bool) -> None:
    monkeypatch.setattr("airflow_provider_datapipe.runs.wait._GRACE", 0.2)
    monkeypatch.setattr("airflow_provider_datapipe.runs.looks._SWEEP", 0.2)
    runs = served(reverse_etl=3, streams=3)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)
        if hangs:
            server.hangs = ("/",)
        else:
            runs.fault = lambda path, now: Said(429, {}, {"retry-after": "3600"})

        async def main() -> list[Batch]:
            policy = replace(OFTEN, deadline=time.time() + 0.5)
            return await asyncio.gather(*(wait_for(connection, each, policy) for each in references(runs)))

        batches = run(main())
    assert {end.reason for batch in batches for end in batch.ended} == {EndReason.TIMEOUT}


@pytest.mark.parametrize("where", ["answered", "failed", "next", "overdue"])
def test_a_defect_ends_all_waits_with_an_error_that_is_logged(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs = served(reverse_etl=10, streams=10)

    def broken(self: Any, *_: Any) -> Any:
        raise LookupError("a defect")

    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Any]:
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() > 30)
            with monkeypatch.context() as patched:
                patched.setattr(Looks, where, broken)
                if where == "failed":
                    runs.fault = lambda path, now: Said(500)
                return await asyncio.gather(*waits, return_exceptions=True)

        assert [str(error) for error in run(main())] == ["a defect"] * 20
    # With where it came from, for whoever is to mend it.
    assert any(record.exc_info for record in caplog.records if record.name == board_module.__name__)


def test_an_unreadable_response_concerns_its_own_wait_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs = served(reverse_etl=3, streams=3)
    read = KINDS["reverse_etl"].read

    def broken(reference: Reference, answer: Any) -> Any:
        if reference.run_id == "r1":
            raise OverflowError("date value out of range")
        return read(reference, answer)

    monkeypatch.setattr(KINDS["reverse_etl"], "read", broken)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            policy = replace(OFTEN, contact_limit=0.5)
            waits = [asyncio.create_task(wait_for(connection, each, policy)) for each in references(runs)]
            await until(lambda: runs.count() > 30)
            end_all(runs)
            return await asyncio.gather(*waits)

        ends = {end.reference.run_id: end for batch in run(main()) for end in batch.ended}
    assert ends.pop("r1").reason is EndReason.LOST_CONTACT
    assert len(ends) == 5
    assert {end.outcome for end in ends.values()} == {Outcome.SUCCEEDED}
    assert "could not be read (OverflowError)" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("where", ["index", "find", "mark", "read"])
def test_a_list_that_can_not_be_read_costs_no_wait(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OverflowError("date value out of range")

    runs = served(streams=3)
    monkeypatch.setattr(SyncStatus, where, broken)
    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> list[Batch]:
            waits = [asyncio.create_task(wait_for(connection, each)) for each in references(runs)]
            await until(lambda: runs.count() > 10)
            end_all(runs)
            return await asyncio.gather(*waits)

        assert outcomes(run(main())) == {Outcome.SUCCEEDED}


def test_a_wait_that_joins_after_a_defect_does_not_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = served(reverse_etl=3)

    async def broken(self: Board) -> None:
        raise LookupError("a defect")

    with ManyRunsServer(runs) as server:
        connection = Connection(server)

        async def main() -> None:
            waiting = asyncio.create_task(wait_for(connection, reverse_etl("r0")))
            await until(lambda: runs.count() > 2)
            board = _BOARDS[asyncio.get_running_loop()][CONN_ID]
            # Somebody is still reading the connection when it happens.
            await board._clients._opening.acquire()
            reading = asyncio.create_task(wait_for(connection, reverse_etl("r1")))
            await asyncio.sleep(0)
            with monkeypatch.context() as patched:
                patched.setattr(Board, "_step", broken)
                board._wake.set()
                with pytest.raises(LookupError):
                    await waiting
            end_all(runs)
            # Who comes now has a board that works.
            assert outcomes([await wait_for(connection, reverse_etl("r2"))]) == {Outcome.SUCCEEDED}
            board._clients._opening.release()
            with pytest.raises(LookupError):
                await reading

        run(main())
