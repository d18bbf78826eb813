"""Tests of tables whose removal was promised, while other syncs use their places."""

from __future__ import annotations

from pathlib import Path

from datapipe_local.services import connections, elt_syncs, elt_tables
from datapipe_local.services.context import Context
from datapipe_local.warehouse.loads import Loads
from datapipe_local.warehouse.warehouse import Place, Scan, WarehouseError
from tests.unit.datapipe_local.file_loads import PLAIN

PLACE = Place("shop", "people")


def load(context: Context, sync_id: str, folder: Path) -> None:
    """Create a sync, and load its table."""
    connections.put(context, "data", integration_id="files", label="Data", settings={"path": "/"})
    elt_syncs.put(
        context,
        sync_id,
        connection_id="data",
        destination_schema_name="shop",
        sync_interval=None,
        enabled=True,
        orchestration_workflow_id=None,
        elt_settings={},
        start_date=None,
    )
    (folder / "numbers.csv").write_text("n\n1\n2\n")
    elt_tables.note(context, sync_id, PLACE)
    Loads(context.warehouse).whole(PLACE, Scan("read_csv", folder / "numbers.csv"), *PLAIN)


def state(context: Context) -> tuple[bool, int]:
    """Return True if the table exists, and the number of promised removals."""
    try:
        exists = context.warehouse.count(PLACE) >= 0
    except WarehouseError:
        exists = False
    return exists, context.store.database.value("SELECT count(*) FROM doomed_tables")


def test_a_table_in_use_is_removed_later(context: Context, tmp_path: Path) -> None:
    load(context, "old", tmp_path)
    with elt_tables.held(context, PLACE):
        elt_syncs.delete(context, "old", with_tables=True)
        # A load is using it, and would create it again at once.
        assert state(context) == (True, 1)
    elt_tables.drop_doomed(context)
    assert state(context) == (False, 0)


def test_a_promise_spares_the_next_table_of_that_name(context: Context, tmp_path: Path) -> None:
    load(context, "old", tmp_path)
    with elt_tables.held(context, PLACE):
        elt_syncs.delete(context, "old", with_tables=True)
        assert state(context) == (True, 1)
    with elt_tables.held(context, PLACE):
        load(context, "new", tmp_path)
    elt_tables.drop_doomed(context)
    assert state(context) == (True, 0)
    elt_syncs.delete(context, "new", with_tables=False)
    assert state(context) == (True, 0)


def test_a_stopping_service_keeps_its_promise_later(context: Context, tmp_path: Path) -> None:
    load(context, "old", tmp_path)
    context.warehouse.interrupt()
    elt_syncs.delete(context, "old", with_tables=True)
    context.warehouse.resume()
    assert state(context) == (True, 1)
    elt_tables.drop_doomed(context)
    assert state(context) == (False, 0)
