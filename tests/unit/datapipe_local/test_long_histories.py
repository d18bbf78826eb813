"""Tests of frequent requests with few and many stored runs: their cost, in steps of SQLite, is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from datapipe_local.services import elt_streams, elt_syncs, orchestrations, reverse_etl_syncs, transforms
from datapipe_local.services.context import Context
from datapipe_local.storage import records
from datapipe_local.storage.clock import Clock, as_timestamp
from datapipe_local.storage.ids import RunId
from datapipe_local.storage.store import Store
from datapipe_local.warehouse.warehouse import Warehouse
from tests.unit.datapipe_local.resources import TIMES, Resources

FEW, MANY = 100, 10_000
END = datetime.now(UTC)
LOAD: dict[str, Any] = {"elt_sync_id": "run", "full_sync_trigger": "NONE", "operation_mode": "FULL"}
VIEW = {"folder_path": "", "status": "draft", "materialization": "view", "latest_version_id": "v", **TIMES}


def moment(number: int, of: int) -> str:
    return as_timestamp(END - timedelta(minutes=of - number))


def ended(at: str) -> dict[str, Any]:
    """Return the fields of a run without a duration."""
    return {"status": "COMPLETED", "started_at": at, "finished_at": at}


def filled(path: Path, number: int) -> Context:
    """Return a service with this number of runs of each kind, and of transforms."""
    store = Store(path)
    moments = [moment(n, number) for n in range(number)]
    with store.transaction():
        resources = Resources(store)
        for sync in ("run", "never"):
            resources.sync(sync, "0", "1", "2", attached=None)
        resources.export("out", "t")
        store.elt_stream_runs.insert_all(
            records.EltStreamRun(id=str(RunId(f"run.{stream}", at)), elt_stream_id=f"run.{stream}", **LOAD, **ended(at))
            for stream in range(3)
            for at in moments
        )
        store.reverse_etl_sync_runs.insert_all(
            records.ReverseEtlSyncRun(id=str(RunId("out", at)), reverse_etl_sync_id="out", **ended(at))
            for at in moments
        )
        store.orchestration_runs.insert_all(
            records.OrchestrationRun(
                id=f"run-{n}", orchestration_id="weekly" if n < 20 else "nightly", due_at=at, **ended(at)
            )
            for n, at in enumerate(moments)
        )
        store.transforms.insert_all(
            records.Transform(
                id=f"t{n}",
                name=f"t{n}",
                # Most of them were deleted.
                deleted_at=at if n < number - 50 else None,
                **{**VIEW, "created_at": at},
            )
            for n, at in enumerate(moments)
        )
    # The requests do not use the warehouse.
    return Context(store, cast(Warehouse, None), Clock())


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Context]]:
    folder = tmp_path_factory.mktemp("long")
    made = {number: filled(folder / f"{number}.sqlite", number) for number in (FEW, MANY)}
    yield made
    for context in made.values():
        context.store.close()


def steps(context: Context, request: Callable[[], Any]) -> int:
    """Count the instructions of SQLite's machine, in tens."""
    count, connection = Mock(return_value=0), context.store.database._connection
    connection.set_progress_handler(count, 10)
    try:
        request()
    finally:
        connection.set_progress_handler(None, 10)
    return count.call_count


def stream_runs(context: Context, after: str | None, direction: Any = "desc", limit: int = 10) -> Any:
    return elt_streams.page_of_runs(context, "run.1", after=after, limit=limit, direction=direction)


def orchestration_runs(context: Context, orchestration_id: str | None = None, after: str | None = None) -> Any:
    return orchestrations.page_of_runs(context, after=after, limit=100, orchestration_id=orchestration_id)


def middle(number: int, stream: str = "run.1") -> str:
    return str(RunId(stream, moment(number // 2, number)))


REQUESTS: dict[str, Callable[[Context, int], Any]] = {
    "stream runs, newest": lambda c, _: stream_runs(c, None),
    "stream runs, oldest": lambda c, _: stream_runs(c, None, "asc"),
    "stream runs, from the middle back": lambda c, n: stream_runs(c, middle(n)),
    "status URL": lambda c, n: stream_runs(c, middle(n), "asc", limit=1),
    "a stream run": lambda c, n: elt_streams.runs(c).get(middle(n)),
    "reverse runs, newest": lambda c, _: reverse_etl_syncs.page_of_runs(
        c, "out", after=None, limit=10, direction="desc"
    ),
    "reverse runs, from the middle on": lambda c, n: reverse_etl_syncs.page_of_runs(
        c, "out", after=middle(n, "out"), limit=10, direction="asc"
    ),
    "orchestration runs, first": lambda c, _: orchestration_runs(c),
    "orchestration runs of one with many": lambda c, _: orchestration_runs(c, "nightly"),
    "orchestration runs of one with few": lambda c, _: orchestration_runs(c, "weekly"),
    "the state of a sync": lambda c, _: elt_syncs.state(c, elt_syncs.get(c, "run")),
    "the state of a sync that never ran": lambda c, _: elt_syncs.state(c, elt_syncs.get(c, "never")),
    "the status of a sync": lambda c, _: elt_syncs.stream_states(c, "run"),
    "transforms, most of which were deleted": lambda c, _: transforms.page(c, after=None, limit=10),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_long_history_does_not_slow_a_request(services: dict[int, Context], request_name: str) -> None:
    request = REQUESTS[request_name]
    few, many = (steps(context, lambda: request(context, number)) for number, context in services.items())  # noqa: B023 - called within the iteration
    assert few > 0
    assert many <= 1.5 * few + 5, (few, many)


def test_a_later_page_costs_as_much_as_the_first(services: dict[int, Context]) -> None:
    context = services[MANY]
    after, costs = None, []
    for _ in range(20):
        after = orchestration_runs(context, after=after).next_cursor
        costs.append(steps(context, lambda: orchestration_runs(context, after=after)))  # noqa: B023 - called within the iteration
    assert max(costs) <= 1.2 * min(costs)


def test_status_of_many_streams_takes_as_many_queries_as_of_one(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "state.sqlite")) as store:
        context, counts = Context(store, cast(Warehouse, None), Clock()), []
        resources = Resources(store)
        for sync, number in (("small", 3), ("large", 300)):
            resources.sync(sync, *map(str, range(number)))
            statements: list[str] = []
            store.database._connection.set_trace_callback(statements.append)
            states = elt_syncs.stream_states(context, sync)
            store.database._connection.set_trace_callback(None)
            counts.append((len(states), len(statements)))
        (few, of_few), (many, of_many) = counts
        assert (few, many) == (3, 300)
        assert of_few == of_many > 0
