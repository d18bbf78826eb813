"""Event triggers in Airflow's shared streams, with real servers that fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_provider_datapipe.runs.events import event_poller
from airflow_provider_datapipe.runs.events.event_poller import EventBatch, Subscriber
from airflow_provider_datapipe.runs.events.event_sources import Subscription
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.triggers import events
from airflow_provider_datapipe.triggers.events import (
    EltStreamRunEventTrigger,
    FailedRecordsEventTrigger,
    OrchestrationRunEventTrigger,
    ReverseEtlRunEventTrigger,
    TransformMaterializationEventTrigger,
)
from tests.support.airflow_versions import since
from tests.support.asset_state import AssetStateStore, until
from tests.support.scripted_server import Reply, ScriptedServer

#: In earlier versions, each watcher runs alone and has no state store.
SHARED = since("3.3", "shared streams of triggers")
CONNECTION = "datapipe_events"
ALL = [
    EltStreamRunEventTrigger("s", datapipe_conn_id=CONNECTION, outcomes=["succeeded", "failed"], poll_interval=5),
    EltStreamRunEventTrigger(sync_id="y"),
    EltStreamRunEventTrigger("s", "y"),
    OrchestrationRunEventTrigger(),
    OrchestrationRunEventTrigger("o"),
    ReverseEtlRunEventTrigger("r"),
    TransformMaterializationEventTrigger("t"),
    FailedRecordsEventTrigger("r", 10),
]


def page(*ended: int, going: tuple[int, ...] = ()) -> Reply:
    runs = [
        {
            "id": f"r{number}",
            "reverse_etl_sync_id": "r",
            "started_at": f"2026-01-01T00:00:0{number}.000Z",
            "status": "COMPLETED",
            "synced_rows": 7,
            "failed_rows": 0,
        }
        | ({"finished_at": f"2026-01-01T00:01:0{number}.000Z"} if number in ended else {"status": "RUNNING"})
        for number in sorted({*ended, *going}, reverse=True)
    ]
    return Reply(body={"data": runs, "has_more": False})


class Runner:
    """Airflow's shared stream manager with watchers. Tests confirm the storage of events."""

    def __init__(self) -> None:
        from airflow.triggers.shared_stream import SharedStreamManager

        self.manager = SharedStreamManager()
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.unconfirmed: list[int] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, number: int, trigger: Any) -> None:
        self.tasks[number] = asyncio.create_task(self._run(number, trigger))

    async def _run(self, number: int, trigger: Any) -> None:
        key = trigger.shared_stream_key()
        stream = self.manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        try:
            async for event in trigger.filter_shared_stream(stream):
                sequence = self.manager.bind_pending_event(trigger_id=number, key=key)
                assert sequence is not None, "each event belongs to a batch"
                self.unconfirmed.append(sequence)
                self.events.append((number, json.loads(json.dumps(event.payload))))
        finally:
            await self.manager.unsubscribe(number, key)

    def confirm(self) -> None:
        self.manager.confirm_persisted(self.unconfirmed)
        self.unconfirmed = []

    async def stop(self, number: int) -> None:
        self.tasks[number].cancel()
        await asyncio.gather(self.tasks.pop(number), return_exceptions=True)


@asynccontextmanager
async def running() -> AsyncIterator[Runner]:
    runner = Runner()
    try:
        yield runner
        # No watcher has failed.
        assert [task.exception() for task in runner.tasks.values() if task.done()] == []
    finally:
        for number in list(runner.tasks):
            await runner.stop(number)
        await runner.manager.stop_all()
    # All clients and pollers are closed.
    assert event_poller.shared_event_poller.objects.get(asyncio.get_running_loop(), {}) == {}
    assert asyncio.all_tasks() == {asyncio.current_task()}


@asynccontextmanager
async def watched(monkeypatch: pytest.MonkeyPatch, *script: Reply) -> AsyncIterator[tuple[ScriptedServer, Runner]]:
    """Run watchers of a server with a script."""
    with ScriptedServer(script) as server:
        connect(monkeypatch, server.url)
        async with running() as runner:
            yield server, runner


def connect(monkeypatch: pytest.MonkeyPatch, host: str, key: str = "k") -> None:
    connection = {"conn_type": "datapipe", "host": host, "password": key, "extra": {"retry_budget": 0}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(connection))


def watcher(store: AssetStateStore | None = None, **options: Any) -> ReverseEtlRunEventTrigger:
    trigger = ReverseEtlRunEventTrigger("r", datapipe_conn_id=CONNECTION, **{"poll_interval": 0.05} | options)
    trigger.asset_state_store = store  # type: ignore[assignment]  # the used part of Airflow's class
    return trigger


@pytest.mark.parametrize("trigger", ALL, ids=lambda trigger: str(trigger.serialize()[1]))
def test_trigger_serialization_round_trip(trigger: Any) -> None:
    path, arguments = trigger.serialize()
    assert path.rpartition(".")[0] == events.__name__
    again = type(trigger)(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)
    assert again.shared_stream_key() == trigger.shared_stream_key()
    assert arguments["datapipe_conn_id"] == trigger.datapipe_conn_id


@SHARED
def test_watchers_of_one_connection_share_a_stream() -> None:
    assert len({trigger.shared_stream_key() for trigger in ALL[1:]}) == 1
    assert ALL[0].shared_stream_key() != ALL[1].shared_stream_key()


def test_order_of_outcomes_does_not_change_the_trigger() -> None:
    one, other = (
        EltStreamRunEventTrigger("s", outcomes=each) for each in (["failed", "partial"], ("partial", "failed"))
    )
    assert one.serialize() == other.serialize()


def test_allowed_outcomes_are_those_of_ended_runs() -> None:
    assert {str(outcome) for outcome in Outcome if outcome.is_over} - {"skipped"} == events.OUTCOMES


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (EltStreamRunEventTrigger, "stream_id or sync_id"),
        (lambda: EltStreamRunEventTrigger("s", outcomes=["success"]), "outcomes must be of .*, not success"),
        (lambda: EltStreamRunEventTrigger("s", outcomes=[]), "at least one"),
        (lambda: EltStreamRunEventTrigger("s", outcomes="failed"), "must be a list"),
        (lambda: OrchestrationRunEventTrigger(poll_interval=0), "poll_interval"),
        (lambda: FailedRecordsEventTrigger("r", 0), "threshold"),
        # Without the ID, it would watch all streams of the sync.
        (lambda: EltStreamRunEventTrigger("", "y"), "stream_id is empty"),
        (lambda: EltStreamRunEventTrigger("s", ""), "sync_id is empty"),
        (lambda: OrchestrationRunEventTrigger(" "), "orchestration_id is empty"),
        (lambda: ReverseEtlRunEventTrigger(""), "reverse_etl_sync_id is empty"),
        (lambda: TransformMaterializationEventTrigger(""), "transform_id is empty"),
        (lambda: FailedRecordsEventTrigger(""), "reverse_etl_sync_id is empty"),
        (lambda: OrchestrationRunEventTrigger("o", datapipe_conn_id=""), "datapipe_conn_id is empty"),
    ],
)
def test_invalid_arguments_are_refused_at_parsing(make: Callable[[], Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


@SHARED
async def test_a_cursor_is_stored_after_the_events_it_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    store = AssetStateStore()
    async with watched(monkeypatch, page(1, going=(2,)), page(1, going=(2,)), page(1, 2)) as (server, runner):
        runner.start(1, watcher(store))
        await until(lambda: bool(runner.events))
        # The initial cursor covers no events.
        assert list(store.cursor["going"]) == ["r2"]
        asked = len(server.seen)
        await until(lambda: len(server.seen) > asked + 2)
        assert list(store.cursor["going"]) == ["r2"]
        runner.confirm()
        await until(lambda: store.cursor["going"] == {})
        ((_, event),) = runner.events
    assert (event["run_id"], event["outcome"], event["rows_synced"]) == ("r2", "succeeded", 7)
    assert (event["started_at"], event["finished_at"]) == ("2026-01-01T00:00:02.000Z", "2026-01-01T00:01:02.000Z")
    assert event["duration"] == 60


@SHARED
async def test_a_crash_between_event_and_cursor_repeats_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    store = AssetStateStore()
    with ScriptedServer([page(1), page(1, 2)]) as server:
        connect(monkeypatch, server.url)
        for _ in range(2):
            async with running() as runner:
                runner.start(1, watcher(store))
                await until(lambda runner=runner: bool(runner.events))  # type: ignore[misc]  # the default binds the loop variable
                assert [event["run_id"] for _, event in runner.events] == ["r2"]
        async with running() as runner:
            runner.start(1, watcher(store))
            await until(lambda: bool(runner.events))
            runner.confirm()
            await until(lambda: "r2" in store.cursor["reported"])
        asked = len(server.seen)
        async with running() as runner:
            runner.start(1, watcher(store))
            await until(lambda: len(server.seen) > asked + 2)
            assert runner.events == []


@SHARED
async def test_watchers_of_one_resource_share_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch, page(1), page(1), page(1)) as (server, runner):
        for number in range(20):
            runner.start(number, watcher(outcomes=["failed"] if number % 2 else ["succeeded"], poll_interval=300))
        await until(lambda: len(server.seen) >= 1)
        poller = event_poller.shared_event_poller.objects[asyncio.get_running_loop()][CONNECTION]
        (resource,) = poller._resources.values()
        await until(lambda: all(subscriber.cursor for subscriber in resource.subscribers))
        assert len(resource.subscribers) == 20
        # Watchers may join before or during the first poll.
        assert len(server.seen) <= 3


@SHARED
async def test_leaving_watcher_takes_no_events_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [AssetStateStore(), AssetStateStore()]
    async with watched(monkeypatch, page(1)) as (server, runner):
        for number, store in enumerate(stores):
            runner.start(number, watcher(store, poll_interval=0.05))
        await until(lambda: all(store.kept for store in stores))
        await runner.stop(0)
        server._script[:] = [page(1, 2)]
        await until(lambda: bool(runner.events))
        runner.confirm()
        await until(lambda: "r2" in stores[1].cursor["reported"])
    assert "r2" not in stores[0].cursor["reported"]
    assert [number for number, _ in runner.events] == [1]


@SHARED
async def test_watcher_that_leaves_early_gets_its_events_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_poller, "_STARTED_WITHIN", 3600.0)
    stores = [AssetStateStore(), AssetStateStore()]
    async with watched(monkeypatch, page(1)) as (server, runner):
        for number, store in enumerate(stores):
            runner.start(number, watcher(store))
        await until(lambda: all(store.kept for store in stores))
        server._script[:] = [page(1, 2, 3, 4)]
        # Each watcher has got two of the three events.
        await until(lambda: len(runner.events) == 4)
        await runner.stop(0)
        server._script[:] = [page(1, 2, 3, 4, 5, 6)]
        await until(lambda: len(runner.events) == 6)
        runner.confirm()
        await until(lambda: "r4" in stores[1].cursor["reported"])
        assert "r2" not in stores[0].cursor["reported"]
        # The watcher starts again, perhaps on another triggerer.
        runner.start(0, watcher(stores[0]))
        server._script[:] = [page(1, 2, 3, 4, 5, 6, 7)]
        await until(lambda: sum(number == 0 for number, _ in runner.events) >= 6)
    assert [event["run_id"] for number, event in runner.events if number == 0][2:6] == ["r2", "r3", "r4", "r5"]


def subscriber(store: AssetStateStore) -> Subscriber:
    async def keep(cursor: dict[str, Any]) -> None:
        await store.aset("key", cursor)

    return Subscriber("reverse_etl", "r", Subscription(), outcomes=["succeeded"], poll_interval=1, store=keep)


async def test_the_cursor_of_a_watcher_that_left_early_is_not_stored() -> None:
    stores = [AssetStateStore(), AssetStateStore()]
    there, gone = (subscriber(store) for store in stores)
    report = EventBatch({each: ([{"run_id": "r1"}], {"reported": "r1"}) for each in (there, gone)})
    report.mark_sent(there)
    await report.confirm()
    assert [store.kept for store in stores] == [{"key": {"reported": "r1"}}, {}]


async def test_a_held_back_event_is_not_sent_to_a_watcher_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_poller, "_STARTED_WITHIN", 0.05)
    sent: list[EventBatch] = []
    stays, goes = subscriber(AssetStateStore()), subscriber(AssetStateStore())
    for each in (goes, stays):
        part = each.take_due([{"run_id": "r1"}, {"run_id": "r2"}], {"reported": "r2"}, sent.append)
        # The cursor would cover an event that is held back.
        assert part == ([{"run_id": "r1"}], None)
    goes.drop_held()
    # The event that is held back for the remaining watcher is due later.
    await until(lambda: bool(sent))
    assert [report.of(stays) for report in sent] == [[{"run_id": "r2"}]]
    assert [report.of(goes) for report in sent] == [[]]


FAULTS = [
    Reply(401),
    Reply(403),
    Reply(404),
    Reply(429, headers={"Retry-After": "1"}),
    Reply(429, headers={"Retry-After": "4102444800"}),
    Reply(500),
    Reply(503),
    Reply(0),
    Reply(body=b"<html>"),
    Reply(body={"data": [{"id": 1}]}),
]


@pytest.mark.slow
@SHARED
@pytest.mark.parametrize("fault", FAULTS, ids=lambda reply: f"{reply.status} {reply.body}"[:20])
async def test_service_errors_do_not_end_a_watcher(fault: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch, fault, page(1), fault, fault, page(1, 2)) as (_, runner):
        runner.start(1, watcher(AssetStateStore()))
        await until(lambda: bool(runner.events))
        assert [event["run_id"] for _, event in runner.events] == ["r2"]


@SHARED
@pytest.mark.parametrize("bad", [{"started_at": "soon"}, {"started_at": "0001-01-01T00:00:00Z"}, {"status": 7}])
async def test_an_unreadable_run_holds_back_no_event_of_others(
    bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def with_bad(reply: Reply) -> Reply:
        (first, *_) = reply.body["data"]
        return Reply(body={"data": [first | {"id": "bad"} | bad, *reply.body["data"]], "has_more": False})

    async with watched(monkeypatch, with_bad(page(1)), with_bad(page(1, 2)), with_bad(page(1, 2))) as (server, runner):
        runner.start(1, watcher(AssetStateStore()))
        await until(lambda: bool(runner.events) and len(server.seen) > 5)
        assert [event["run_id"] for _, event in runner.events] == ["r2"]
    assert caplog.text.count("Run bad cannot be read") == (bad.get("started_at") != "0001-01-01T00:00:00Z")


@SHARED
async def test_the_last_of_several_events_is_held_back_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_poller, "_STARTED_WITHIN", 3600.0)
    async with watched(monkeypatch, page(1), page(1, 2, 3, 4)) as (server, runner):
        runner.start(1, watcher(AssetStateStore()))
        await until(lambda: len(runner.events) == 2)
        asked = len(server.seen)
        await until(lambda: len(server.seen) > asked + 3)
        assert len(runner.events) == 2
        server._script[:] = [page(1, 2, 3, 4, 5, 6)]
        await until(lambda: len(runner.events) == 4)
        server._script[:] = [page(1, 2, 3, 4, 5, 6, 7, 8)]
        await until(lambda: len(runner.events) == 6)
        assert [event["run_id"] for _, event in runner.events] == ["r2", "r3", "r4", "r5", "r6", "r7"]


@SHARED
async def test_last_of_several_events_is_sent_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_poller, "_STARTED_WITHIN", 0.2)
    async with watched(monkeypatch, page(1), page(1, 2, 3, 4)) as (_, runner):
        runner.start(1, watcher(AssetStateStore()))
        await until(lambda: len(runner.events) == 3)


@SHARED
async def test_watcher_retries_an_unreadable_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    store = AssetStateStore()
    async with watched(monkeypatch, page(1)) as (_, runner):
        store.failing = 1
        runner.start(1, watcher(store))
        await until(lambda: bool(store.kept))


@SHARED
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_watcher_uses_a_corrected_connection(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([Reply(status)]) as wrong, ScriptedServer([page(1), page(1, 2)]) as right:
        monkeypatch.delenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", raising=False)
        async with running() as runner:
            runner.start(1, watcher())
            await asyncio.sleep(0)
            connect(monkeypatch, wrong.url)
            await until(lambda: bool(wrong.seen))
            connect(monkeypatch, right.url, key="new")
            await until(lambda: bool(runner.events))
    headers = {name.lower(): value for name, value in right.seen[0].headers.items()}
    assert headers["x-api-key"] == "new"


async def test_watcher_without_a_shared_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_poller, "_STORED_WITHIN", 0.0)
    store = AssetStateStore()
    with ScriptedServer([page(1), page(1, 2)]) as server:
        connect(monkeypatch, server.url)
        stream: Any = watcher(store).run()
        event = await anext(stream)
        assert event.payload["run_id"] == "r2"
        assert "r2" not in store.cursor["reported"]
        following = asyncio.ensure_future(anext(stream))
        await until(lambda: "r2" in store.cursor["reported"])
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await stream.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@SHARED
async def test_watchers_restart_if_events_are_not_stored_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = AssetStateStore()
    async with watched(monkeypatch, page(1), page(1, 2)) as (_, runner):
        runner.manager = type(runner.manager)(ack_timeout=0.3)
        runner.start(1, watcher(store))
        await until(runner.tasks[1].done)
        assert runner.tasks.pop(1).exception() is not None
        assert "r2" not in store.cursor["reported"]
