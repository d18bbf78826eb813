"""Tests of the warehouse: places of tables and views, values, threads, and interruptions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from datapipe_local.common.errors import SetupError
from datapipe_local.warehouse.warehouse import Place, Warehouse, WarehouseError

HERE = Place("models", "thing")
THERE = Place("other", "thing")


def value_at(warehouse: Warehouse, place: Place = HERE) -> object:
    return [row for batch in warehouse.distinct_rows(place, ["x"], [], 10) for row in batch]


def test_a_view_and_a_table_replace_each_other(warehouse: Warehouse) -> None:
    warehouse.create_view(HERE, "SELECT 1 AS x")
    unfinished = warehouse.build(HERE, "SELECT 2 AS x", 1)
    assert value_at(warehouse) == [(1,)]
    warehouse.show(unfinished, instead_of=HERE)
    assert value_at(warehouse) == [(2,)]
    warehouse.create_view(HERE, "SELECT 3 AS x", instead_of=HERE)
    assert value_at(warehouse) == [(3,)]
    # To another place.
    warehouse.show(warehouse.build(THERE, "SELECT 4 AS x", 1), instead_of=HERE)
    assert value_at(warehouse, THERE) == [(4,)]
    with pytest.raises(WarehouseError, match="does not exist"):
        warehouse.count(HERE)


def test_unfinished_tables_are_discarded(warehouse: Warehouse) -> None:
    first, second = (warehouse.build(HERE, "SELECT 2 AS x", number) for number in (1, 2))
    warehouse.drop(first.built)
    warehouse.discard_all_unfinished()
    for unfinished in (first, second):
        with pytest.raises(WarehouseError, match="does not exist"):
            warehouse.count(unfinished.built)


@pytest.mark.parametrize("query", ["SELECT nope FROM range(3)", "SELECT * FROM nowhere", "SELEC 1"])
def test_a_failed_view_changes_nothing(warehouse: Warehouse, query: str) -> None:
    warehouse.create_view(HERE, "SELECT 1 AS x")
    with pytest.raises(WarehouseError) as failure:
        warehouse.create_view(HERE, query)
    assert "\n" not in str(failure.value)
    assert value_at(warehouse) == [(1,)]


@pytest.mark.parametrize("query", ["SELECT 1; DROP TABLE x", "DROP TABLE x", "CREATE TABLE y AS SELECT 1", ""])
def test_only_a_single_select_is_a_query(warehouse: Warehouse, query: str) -> None:
    with pytest.raises(WarehouseError, match="single SELECT"):
        warehouse.check_query(query)


def test_one_row_per_key_is_always_the_same(warehouse: Warehouse) -> None:
    warehouse.create_view(HERE, "FROM (VALUES (1, 'b', 2), (1, 'a', 9), (2, NULL, 1), (1, 'a', 3)) AS t (k, s, x)")
    rows = [row for batch in warehouse.distinct_rows(HERE, ["k", "s"], ["k"], 1) for row in batch]
    assert rows == [(1, "a"), (2, None)]


def test_values_of_special_types(warehouse: Warehouse) -> None:
    warehouse.create_view(
        HERE,
        "SELECT '2026-01-01 10:00:00.5+02'::TIMESTAMPTZ AS z, '2026-01-01 01:00:00.123456+01'::TIMESTAMPTZ_NS AS ns,"
        " {'a': [1, 2], 'b': TIMESTAMPTZ '2026-01-01 00:00:00+00'} AS s, NULL::INTEGER[] AS n, MAP {'k': 1} AS m",
    )
    [[row]] = warehouse.distinct_rows(HERE, ["z", "ns", "s", "n", "m"], [], 10)
    assert row[:2] == ("2026-01-01T08:00:00.500000Z", "2026-01-01T00:00:00.123456Z")
    assert row[2]["a"] == [1, 2]
    assert row[3:] == (None, {"k": 1})


def test_an_interruption_ends_all_statements(warehouse: Warehouse) -> None:
    threading.Timer(0.2, warehouse.interrupt).start()
    with pytest.raises(WarehouseError):
        warehouse.build(HERE, "SELECT count(*) AS x FROM range(100000000000) a, range(1000) b", 1)
    with pytest.raises(WarehouseError, match="stopping"):
        warehouse.count(HERE)


def test_one_job_can_be_interrupted_alone(warehouse: Warehouse) -> None:
    begun, ended = threading.Event(), threading.Event()

    def count() -> None:
        with warehouse.cursor() as cursor:
            begun.set()
            cursor.execute("SELECT count(*) FROM range(1_000_000_000_000_000) WHERE random() < 2")

    def count_for_ever() -> None:
        with warehouse.working_on(1):
            with pytest.raises(WarehouseError):
                count()
            # The next statement of the job does not start.
            with pytest.raises(WarehouseError, match="no longer needed"), warehouse.cursor():
                pass
        # The next job of the thread is not affected.
        with warehouse.working_on(3):
            assert warehouse.columns("SELECT 1 AS x")
        ended.set()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(count_for_ever)
        assert begun.wait(5)
        # Other jobs, and work without a job, are not affected.
        warehouse.interrupt_job(2)
        with warehouse.working_on(2):
            assert warehouse.columns("SELECT 1 AS x")
        assert not ended.is_set()
        while not done.done():
            # An interruption before the statement begins has no effect.
            warehouse.interrupt_job(1)
            ended.wait(0.01)
        done.result()


def test_a_file_that_is_not_a_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.duckdb").write_bytes(b"no warehouse" * 1_000)
    with pytest.raises(SetupError, match="Cannot open the warehouse"):
        Warehouse(tmp_path / "w.duckdb", tmp_path)
