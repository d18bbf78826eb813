"""Frequent requests have constant cost with any number of stored runs, counted in steps of SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from datapipe_local.clock import Clock, as_timestamp
from datapipe_local.ids import RunId
from datapipe_local.service import elt_streams, elt_syncs, orchestrations, reverse_etl, transforms
from datapipe_local.service.context import Context
from datapipe_local.store import records
from datapipe_local.store.store import Store
from datapipe_local.warehouse import Warehouse

FEW, MANY = 100, 10_000
NOW = datetime.now(UTC)
CREATED = as_timestamp(NOW)


def moment(number: int, of: int) -> str:
    return as_timestamp(NOW - timedelta(minutes=of - number))


def stream_run(stream: str, at: str, status: str = "COMPLETED") -> records.EltStreamRun:
    return records.EltStreamRun(
        id=str(RunId(stream, at)),
        elt_sync_id=stream.partition(".")[0],
        elt_stream_id=stream,
        started_at=at,
        finished_at=at,
        status=status,
        full_sync_trigger="NONE",
        operation_mode="FULL",
    )


def filled(path: Path, number: int) -> Context:
    """Return a service with this number of runs of each kind, of three streams of each of two syncs."""
    store = Store(path)
    with store.transaction():
        store.connections.insert(
            records.Connection(id="files", integration_id="files", label="", settings={}, created_at=CREATED)
        )
        for sync in ("run", "never"):
            store.elt_syncs.insert(
                records.EltSync(
                    id=sync,
                    connection_id="files",
                    destination_schema_name=sync,
                    sync_interval=None,
                    enabled=True,
                    orchestration_workflow_id=None,
                    created_at=CREATED,
                    updated_at=CREATED,
                )
            )
            for stream in range(3):
                store.elt_streams.insert(
                    records.EltStream(
                        id=f"{sync}.{stream}",
                        elt_sync_id=sync,
                        name=f"s{stream}",
                        origin={},
                        created_at=CREATED,
                        updated_at=CREATED,
                    )
                )
        store.elt_stream_runs.insert_all(
            stream_run(f"run.{stream}", moment(n, number)) for stream in range(3) for n in range(number)
        )
        store.reverse_etl_syncs.insert(
            records.ReverseEtlSync(
                id="out",
                enabled=True,
                source_id="t",
                destination_connection_id="files",
                object_type_id="x",
                sync_interval=None,
                orchestration_workflow_id=None,
                operation={},
                settings={},
                created_at=CREATED,
                updated_at=CREATED,
            )
        )
        store.reverse_etl_sync_runs.insert_all(
            records.ReverseEtlSyncRun(
                id=str(RunId("out", at)),
                reverse_etl_sync_id="out",
                started_at=at,
                finished_at=at,
                status="COMPLETED",
            )
            for at in (moment(n, number) for n in range(number))
        )
        for name in ("busy", "idle"):
            store.orchestrations.insert(
                records.Orchestration(
                    id=name, name=name, cron_schedule="0 2 * * *", created_at=CREATED, updated_at=CREATED
                )
            )
        store.orchestration_runs.insert_all(
            records.OrchestrationRun(
                id=f"run-{n}",
                orchestration_id="idle" if n < 20 else "busy",
                status="COMPLETED",
                due_at=moment(n, number),
                started_at=CREATED,
                finished_at=CREATED,
            )
            for n in range(number)
        )
        store.transforms.insert_all(
            records.Transform(
                id=f"t{n}",
                name=f"t{n}",
                folder_path="",
                status="draft",
                materialization="view",
                latest_version_id="v",
                # Most of them are gone for callers.
                deleted_at=CREATED if n < number - 50 else None,
                created_at=moment(n, number),
                updated_at=CREATED,
            )
            for n in range(number)
        )
    # The warehouse is not asked.
    return Context(store, cast(Warehouse, None), Clock())


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Context]]:
    folder = tmp_path_factory.mktemp("long")
    made = {number: filled(folder / f"{number}.sqlite", number) for number in (FEW, MANY)}
    yield made
    for context in made.values():
        context.store.close()


def steps(context: Context, ask: Callable[[], Any]) -> int:
    """Count the instructions of SQLite's machine, in tens."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection = context.store.database._connection
    connection.set_progress_handler(count, 10)
    try:
        ask()
    finally:
        connection.set_progress_handler(None, 10)
    return counted


def middle(number: int) -> str:
    return moment(number // 2, number)


ASKED: dict[str, Callable[[Context, int], Any]] = {
    "stream runs, newest": lambda c, _: elt_streams.page_of_runs(c, "run.1", after=None, limit=10, direction="desc"),
    "stream runs, oldest": lambda c, _: elt_streams.page_of_runs(c, "run.1", after=None, limit=10, direction="asc"),
    "stream runs, from the middle back": lambda c, n: elt_streams.page_of_runs(
        c, "run.1", after=str(RunId("run.1", middle(n))), limit=10, direction="desc"
    ),
    # What a status URL asks for.
    "stream runs, from the middle on": lambda c, n: elt_streams.page_of_runs(
        c, "run.1", after=str(RunId("run.1", middle(n))), limit=1, direction="asc"
    ),
    "a stream run": lambda c, n: elt_streams.runs(c).shown(str(RunId("run.1", middle(n)))),
    "reverse runs, newest": lambda c, _: reverse_etl.page_of_runs(c, "out", after=None, limit=10, direction="desc"),
    "reverse runs, from the middle on": lambda c, n: reverse_etl.page_of_runs(
        c, "out", after=str(RunId("out", middle(n))), limit=10, direction="asc"
    ),
    "orchestration runs, first": lambda c, _: orchestrations.page_of_runs(c, after=None, limit=10),
    "orchestration runs of a busy one": lambda c, _: orchestrations.page_of_runs(
        c, after=None, limit=10, orchestration_id="busy"
    ),
    "orchestration runs of an idle one": lambda c, _: orchestrations.page_of_runs(
        c, after=None, limit=10, orchestration_id="idle"
    ),
    "the state of a sync": lambda c, _: elt_syncs.state(c, elt_syncs.get(c, "run")),
    "the state of a sync that never ran": lambda c, _: elt_syncs.state(c, elt_syncs.get(c, "never")),
    "the status of a sync": lambda c, _: elt_syncs.stream_states(c, "run"),
    "transforms, most of which were deleted": lambda c, _: transforms.page(c, after=None, limit=10),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_long_history_costs_nothing(services: dict[int, Context], what: str) -> None:
    few, many = (steps(context, lambda: ASKED[what](context, number)) for number, context in services.items())  # noqa: B023
    assert few > 0
    assert many <= 1.5 * few + 5, (few, many)


def test_a_page_within_is_as_cheap_as_the_first(services: dict[int, Context]) -> None:
    context = services[MANY]
    after, costs = None, []
    for _ in range(20):
        page = orchestrations.page_of_runs(context, after=after, limit=100)
        after = page.next_cursor
        costs.append(steps(context, lambda: orchestrations.page_of_runs(context, after=after, limit=100)))  # noqa: B023
    assert max(costs) <= 1.2 * min(costs)


def test_status_of_many_streams_takes_as_many_queries_as_of_one(tmp_path: Path) -> None:
    context = filled(tmp_path / "s.sqlite", 2)
    statements: list[str] = []
    context.store.database._connection.set_trace_callback(statements.append)
    elt_syncs.stream_states(context, "run")
    of_three = len(statements)
    context.store.database._connection.set_trace_callback(None)
    with context.store.transaction():
        for stream in range(3, 300):
            context.store.elt_streams.insert(
                records.EltStream(
                    id=f"run.{stream}",
                    elt_sync_id="run",
                    name=f"s{stream}",
                    origin={},
                    created_at=CREATED,
                    updated_at=CREATED,
                )
            )
    context.store.database._connection.set_trace_callback(statements.append)
    assert len(elt_syncs.stream_states(context, "run")) == 300
    assert len(statements) == 2 * of_three
    context.store.close()
