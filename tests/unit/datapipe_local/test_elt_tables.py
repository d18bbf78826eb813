"""Tables that are promised to go, while others want to stand in their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from datapipe_local.loading.manner import Manner, Run
from datapipe_local.loads import Loads, Told
from datapipe_local.service import connections, elt_syncs, elt_tables
from datapipe_local.service.context import Context
from datapipe_local.warehouse import Place, Scan, WarehouseError

PLACE = Place("shop", "people")
#: A load like any other.
PLAIN = (Manner(), Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE"))


@pytest.fixture
def numbers(tmp_path: Path) -> Scan:
    file = tmp_path / "numbers.csv"
    file.write_text("n\n1\n2\n")
    return Scan("read_csv", file)


def add_sync(context: Context, sync_id: str) -> None:
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


def is_there(context: Context) -> bool:
    try:
        return context.warehouse.count(PLACE) >= 0
    except WarehouseError:
        return False


def promised(context: Context) -> int:
    number: int = context.store.database.value("SELECT count(*) FROM doomed_tables")
    return number


def make(context: Context, sync_id: str, numbers: Scan) -> None:
    elt_tables.note(context, sync_id, PLACE)
    Loads(context.warehouse).whole(PLACE, numbers, *PLAIN)


def test_a_table_goes_as_promised(context: Context, numbers: Scan) -> None:
    add_sync(context, "old")
    make(context, "old", numbers)
    with elt_tables.held(context, PLACE):
        elt_syncs.delete(context, "old", with_tables=True)
        # Somebody is loading it: who drops it now would have it back at once.
        assert (is_there(context), promised(context)) == (True, 1)
    elt_tables.drop_doomed(context)
    assert (is_there(context), promised(context)) == (False, 0)


def test_a_promise_does_not_meet_the_next_table_of_that_name(context: Context, numbers: Scan) -> None:
    add_sync(context, "old")
    make(context, "old", numbers)
    with elt_tables.held(context, PLACE):
        elt_syncs.delete(context, "old", with_tables=True)
        assert promised(context) == 1
    # Before anybody kept the promise, another sync has made its table there.
    add_sync(context, "new")
    with elt_tables.held(context, PLACE):
        make(context, "new", numbers)
    elt_tables.drop_doomed(context)
    assert (is_there(context), promised(context)) == (True, 0)
    elt_syncs.delete(context, "new", with_tables=False)
    assert is_there(context)


def test_a_promise_is_kept_later_if_the_service_is_stopping(context: Context, numbers: Scan) -> None:
    add_sync(context, "old")
    make(context, "old", numbers)
    context.warehouse.interrupt()
    elt_syncs.delete(context, "old", with_tables=True)
    context.warehouse.resume()
    assert (is_there(context), promised(context)) == (True, 1)
    elt_tables.drop_doomed(context)
    assert (is_there(context), promised(context)) == (False, 0)
