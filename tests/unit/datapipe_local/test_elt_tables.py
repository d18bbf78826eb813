"""Tests of pending drops of tables, while other syncs use the same table names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from datapipe_local.services import elt_syncs, elt_tables
from datapipe_local.services.context import Context
from datapipe_local.warehouse.loading.table_loader import TableLoader
from datapipe_local.warehouse.warehouse import Place, Scan
from tests.unit.datapipe_local.file_loads import PLAIN
from tests.unit.datapipe_local.resources import Resources

PLACE = Place("shop", "people")


@pytest.fixture
def load(context: Context, tmp_path: Path) -> Callable[[str], None]:
    """Return a function that creates a sync, and loads its table."""
    (tmp_path / "numbers.csv").write_text("n\n1\n2\n")
    made = Resources(context.store)

    def load(sync_id: str) -> None:
        made.sync(sync_id, attached=None)
        elt_tables.note(context, sync_id, PLACE)
        TableLoader(context.warehouse).load_all_rows(PLACE, Scan("read_csv", tmp_path / "numbers.csv"), *PLAIN)

    return load


def state(context: Context) -> tuple[bool, int]:
    """Return True if the table exists, and the number of pending drops."""
    return context.warehouse.has(PLACE), context.store.database.value("SELECT count(*) FROM doomed_tables")


def test_a_table_in_use_is_dropped_later(context: Context, load: Callable[[str], None]) -> None:
    load("old")
    with elt_tables.locked(context, PLACE):
        elt_syncs.delete(context, "old", with_tables=True)
        # A load uses the table, and would create it again at once.
        assert state(context) == (True, 1)
    elt_tables.drop_marked_tables(context)
    assert state(context) == (False, 0)


def test_a_pending_drop_spares_a_new_table_of_that_name(context: Context, load: Callable[[str], None]) -> None:
    load("old")
    with elt_tables.locked(context, PLACE):
        elt_syncs.delete(context, "old", with_tables=True)
        assert state(context) == (True, 1)
    with elt_tables.locked(context, PLACE):
        load("new")
    elt_tables.drop_marked_tables(context)
    assert state(context) == (True, 0)
    elt_syncs.delete(context, "new", with_tables=False)
    assert state(context) == (True, 0)


def test_a_drop_during_a_stop_is_completed_later(context: Context, load: Callable[[str], None]) -> None:
    load("old")
    context.warehouse.interrupt()
    elt_syncs.delete(context, "old", with_tables=True)
    context.warehouse.resume()
    assert state(context) == (True, 1)
    elt_tables.drop_marked_tables(context)
    assert state(context) == (False, 0)
