from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipe_local.errors import BadRequestError, SetupError
from datapipe_local.store.records import Connection, EltStream, Orchestration
from datapipe_local.store.store import Store
from datapipe_local.store.table import Order, Position
from tests.support.examples import scaled

T0 = "2026-11-21T09:00:00.000Z"


def connection(number: int, created_at: str = T0) -> Connection:
    return Connection(id=f"c{number}", integration_id="files", label="x", settings={"path": "/"}, created_at=created_at)


def all_ids(store: Store, order: Order, limit: int) -> list[str]:
    ids: list[str] = []
    after = None
    while True:
        page = store.connections.page(order, after=after, limit=limit)
        ids += [record.id for record in page.records]
        after = page.next_cursor
        if after is None:
            return ids
        assert len(page.records) == limit


@settings(max_examples=scaled(40))
@given(moments=st.lists(st.integers(0, 3), max_size=12), limit=st.integers(1, 5), descending=st.booleans())
def test_pages_give_every_record_once_in_order(moments: list[int], limit: int, descending: bool) -> None:
    store = Store(Path(":memory:"))
    try:
        for number, moment in enumerate(moments):
            store.connections.insert(connection(number, f"2026-11-21T09:00:0{moment}.000Z"))
        expected = sorted(range(len(moments)), key=lambda n: (moments[n], n), reverse=descending)
        assert all_ids(store, Order(descending=descending), limit) == [f"c{number}" for number in expected]
    finally:
        store.close()


def test_the_cursor_outlives_the_record(store: Store) -> None:
    for number in range(4):
        store.connections.insert(connection(number))
    page = store.connections.page(Order(), after=None, limit=2)
    store.database.run("DELETE FROM connections WHERE id = 'c1'")
    rest = store.connections.page(Order(), after=page.next_cursor, limit=2)
    assert [record.id for record in rest.records] == ["c2", "c3"]
    assert rest.next_cursor is None


def test_names_sort_in_any_case(store: Store) -> None:
    for name in ("beta", "Alpha", "alpine", "Gamma"):
        store.orchestrations.insert(
            Orchestration(id=name, name=name, cron_schedule="0 0 * * *", created_at=T0, updated_at=T0)
        )
    order = Order("name COLLATE NOCASE")
    first = store.orchestrations.page(order, after=None, limit=2)
    second = store.orchestrations.page(order, after=first.next_cursor, limit=2)
    assert [record.name for record in first.records + second.records] == ["Alpha", "alpine", "beta", "Gamma"]


def test_a_record_reads_back_with_its_types(store: Store) -> None:
    store.connections.insert(connection(1))
    store.database.run(
        "INSERT INTO elt_syncs (id, connection_id, destination_schema_name, enabled, settings, created_at, updated_at)"
        " VALUES ('y', 'c1', 'raw', 1, '{}', ?, ?)",
        T0,
        T0,
    )
    stream = EltStream(
        id="s",
        elt_sync_id="y",
        name="n",
        origin={"file": "a.csv", "options": {"skip": 1}},
        incremental_primary_key_name=["id"],
        excluded_substreams=["x"],
        full_sync_always=True,
        created_at=T0,
        updated_at=T0,
    )
    store.elt_streams.insert(stream)
    assert store.elt_streams.get("s") == stream
    store.elt_streams.update("s", loaded=True, incremental_primary_key_name=None)
    read = store.elt_streams.get("s")
    assert read is not None
    assert (read.loaded, read.incremental_primary_key_name) == (True, None)


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "ü", "null", "W10", "WzFd", "A" * 10_000, "W" * 10_001),
        *(Position("connections", "a", seq).as_cursor() for seq in (2**63, -1)),
        Position("orchestrations", "a", 1).as_cursor(),
    ],
)
def test_what_is_no_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(BadRequestError, match="starting_after"):
        store.connections.page(Order(), after=cursor, limit=1)


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    def fail_after(number: int) -> None:
        with store.transaction():
            store.connections.insert(connection(number))
            with store.transaction():
                store.connections.insert(connection(number + 1))
            raise KeyError(number)

    with pytest.raises(KeyError):
        fail_after(1)
    assert store.connections.all() == []


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    store = Store(path)
    store.database.run("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(SetupError, match="version 99"):
        Store(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(SetupError, match="Cannot open the state"):
        Store(path)


def test_pages_are_flat_in_time_with_100_000_runs(store: Store) -> None:
    store.database.run("PRAGMA foreign_keys = OFF")
    store.database.run(
        "INSERT INTO orchestration_runs (id, orchestration_id, status, due_at, finished_at)"
        " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
        " SELECT 'r' || i, 'o' || (i % 7), 'COMPLETED', strftime('%Y-%m-%dT%H:%M:%fZ', i * 60, 'unixepoch'), 'x' FROM n"
    )
    order = Order("due_at", descending=True)

    def page_takes(after: str | None, orchestration_id: str | None) -> float:
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            filters = {"orchestration_id = ?": orchestration_id}
            page = store.orchestration_runs.page(order, after=after, limit=100, filters=filters)
            times.append(time.perf_counter() - begin)
            assert len(page.records) == 100
        return min(times)

    due_at = store.database.value("SELECT due_at FROM orchestration_runs WHERE seq = 1000")
    deep = Position("orchestration_runs", due_at, 1000).as_cursor()
    # A scan of the table takes more than 10 ms, a page along the index less than one.
    for after in (None, deep):
        for orchestration_id in (None, "o3"):
            assert page_takes(after, orchestration_id) < 0.008
