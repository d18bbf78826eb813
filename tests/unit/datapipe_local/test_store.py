"""Tests of the store: pages, records, transactions, also of several requests, and unsuitable files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipe_local.common.errors import BadRequestError, SetupError
from datapipe_local.storage.group_commit import GroupCommit
from datapipe_local.storage.records import Connection, EltStream
from datapipe_local.storage.store import Store
from datapipe_local.storage.table import Order, Position
from tests.support.examples import scaled
from tests.unit.datapipe_local.resources import TIMES, Resources

T0 = "2026-11-21T09:00:00.000Z"


def connection(number: int, created_at: str = T0) -> Connection:
    return Connection(id=f"c{number}", integration_id="files", label="x", settings={"path": "/"}, created_at=created_at)


@settings(max_examples=scaled(40))
@given(moments=st.lists(st.integers(0, 3), max_size=12), limit=st.integers(1, 5), descending=st.booleans())
def test_pages_contain_every_record_once_in_order(moments: list[int], limit: int, descending: bool) -> None:
    with closing(Store(Path(":memory:"))) as store:
        for number, moment in enumerate(moments):
            store.connections.insert(connection(number, f"2026-11-21T09:00:0{moment}.000Z"))
        found: list[str] = []
        page = store.connections.page(Order(descending=descending), after=None, limit=limit)
        found += [record.id for record in page.records]
        while page.next_cursor is not None:
            assert len(page.records) == limit
            page = store.connections.page(Order(descending=descending), after=page.next_cursor, limit=limit)
            found += [record.id for record in page.records]
        expected = sorted(range(len(moments)), key=lambda n: (moments[n], n), reverse=descending)
        assert found == [f"c{number}" for number in expected]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "ü", "null", "W10", "WzFd", "A" * 10_000, "W" * 10_001),
        *(Position("connections", "a", seq).as_cursor() for seq in (2**63, -1)),
        Position("orchestrations", "a", 1).as_cursor(),
    ],
)
def test_invalid_cursors_are_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadRequestError, match="starting_after"):
        store.connections.page(Order(), after=cursor, limit=1)


def test_a_record_keeps_its_types(store: Store) -> None:
    Resources(store).sync("y")
    origin = {"file": "a.csv", "options": {"skip": 1}}
    options: Any = {"incremental_primary_key_name": ["id"], "excluded_substreams": ["x"], "full_sync_always": True}
    stream = EltStream(id="s", elt_sync_id="y", name="n", origin=origin, **options, **TIMES)
    store.elt_streams.insert(stream)
    assert store.elt_streams.get("s") == stream
    store.elt_streams.update("s", loaded=True, incremental_primary_key_name=None)
    (read,) = store.elt_streams.all()
    assert (read.loaded, read.incremental_primary_key_name) == (True, None)


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    def fail() -> None:
        with store.transaction():
            store.connections.insert(connection(1))
            with store.transaction():
                store.connections.insert(connection(2))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert store.connections.all() == []


def test_unsuitable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with closing(Store(path)) as store:
        store.database.run("PRAGMA user_version = 99")
    with pytest.raises(SetupError, match="version 99"):
        Store(path)
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(SetupError, match="Cannot open the state"):
        Store(path)


class Commits:
    """Transactions that end when a test releases them. ``judge`` returns or raises the error of an item."""

    def __init__(self, judge: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.groups: list[list[int]] = []
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self._judge = judge
        self._group_commit = GroupCommit(self._commit)

    def _commit(self, group: Sequence[int]) -> list[Exception | None]:
        self.groups.append(list(group))
        self.begun.release()
        assert self.may_end.acquire(timeout=30)
        return [self._judge(item) for item in group]

    async def waiting(self, *items: int) -> list[asyncio.Task[None]]:
        """Start a request per item, and let it wait."""
        tasks = [asyncio.create_task(self._group_commit.keep(item)) for item in items]
        await asyncio.sleep(0)
        return tasks

    async def wait_for_begin(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=30)


async def test_requests_during_a_transaction_join_the_next_one() -> None:
    commits = Commits()
    first = await commits.waiting(1)
    await commits.wait_for_begin()
    others = await commits.waiting(2, 3, 4)
    commits.may_end.release()
    await asyncio.gather(*first)
    await commits.wait_for_begin()
    # The first transaction does not answer them.
    assert not any(task.done() for task in others)
    commits.may_end.release()
    await asyncio.gather(*others)
    assert commits.groups == [[1], [2, 3, 4]]


def refuse_two(item: int) -> Exception | None:
    return LookupError("gone") if item == 2 else None


def fail_with_two(item: int) -> Exception | None:
    if item == 2:
        raise OSError("the disk is full")
    return None


@pytest.mark.parametrize(
    ("judge", "errors"),
    [(refuse_two, [None, LookupError, None]), (fail_with_two, [OSError, OSError, OSError])],
    ids=["refused item", "failed transaction"],
)
async def test_errors_reach_their_requests_only(
    judge: Callable[[int], Exception | None], errors: list[type[Exception] | None]
) -> None:
    commits = Commits(judge)
    commits.may_end.release(2)
    found = await asyncio.gather(*await commits.waiting(1, 2, 3), return_exceptions=True)
    assert [None if error is None else type(error) for error in found] == errors
    assert commits.groups == [[1, 2, 3]]
    # The next transaction succeeds.
    await asyncio.gather(*await commits.waiting(4))


async def test_a_canceled_request_does_not_block_others() -> None:
    commits = Commits()
    leaving, staying = await commits.waiting(1, 2)
    await commits.wait_for_begin()
    leaving.cancel()
    commits.may_end.release()
    await staying
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert commits.groups == [[1, 2]]
