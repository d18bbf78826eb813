"""Tests of the store: pages, records, transactions, and unsuitable files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipe_local.common.errors import BadRequestError, SetupError
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
