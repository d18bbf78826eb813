from __future__ import annotations

import threading
import time
from pathlib import Path

import duckdb
import pytest

from datapipe_local.errors import SetupError
from datapipe_local.warehouse import Place, Warehouse, WarehouseError

HERE = Place("models", "thing")
THERE = Place("other", "thing")


def value_at(warehouse: Warehouse, place: Place) -> object:
    return [row for batch in warehouse.distinct_rows(place, ["x"], [], 10) for row in batch]


def test_a_view_and_a_table_take_each_others_place(warehouse: Warehouse) -> None:
    warehouse.create_view(HERE, "SELECT 1 AS x")
    warehouse.show(warehouse.build(HERE, "SELECT 2 AS x", 1), instead_of=HERE)
    assert value_at(warehouse, HERE) == [(2,)]
    warehouse.create_view(HERE, "SELECT 3 AS x", instead_of=HERE)
    assert value_at(warehouse, HERE) == [(3,)]


@pytest.mark.parametrize("kind", ["TIMESTAMPTZ", "TIMESTAMPTZ_NS"])
def test_a_time_keeps_its_microseconds(warehouse: Warehouse, kind: str) -> None:
    warehouse.create_view(HERE, f"SELECT '2026-01-01 01:00:00.123456+01'::{kind} AS x")
    assert value_at(warehouse, HERE) == [("2026-01-01T00:00:00.123456Z",)]


def test_what_moves_leaves_nothing_behind(warehouse: Warehouse) -> None:
    warehouse.create_view(HERE, "SELECT 1 AS x")
    warehouse.show(warehouse.build(THERE, "SELECT 2 AS x", 1), instead_of=HERE)
    assert value_at(warehouse, THERE) == [(2,)]
    with pytest.raises(WarehouseError, match="does not exist"):
        warehouse.count(HERE)


def test_a_table_is_not_seen_until_it_is_shown(warehouse: Warehouse) -> None:
    warehouse.create_view(HERE, "SELECT 1 AS x")
    unfinished = warehouse.build(HERE, "SELECT 2 AS x", 1)
    assert value_at(warehouse, HERE) == [(1,)]
    warehouse.discard(unfinished)
    warehouse.build(HERE, "SELECT 3 AS x", 2)
    warehouse.discard_all_unfinished()
    with pytest.raises(WarehouseError, match="does not exist"):
        warehouse.count(unfinished.built)


@pytest.mark.parametrize("query", ["SELECT nope FROM range(3)", "SELECT * FROM nowhere", "SELEC 1"])
def test_a_view_that_fails_changes_nothing(warehouse: Warehouse, query: str) -> None:
    warehouse.create_view(HERE, "SELECT 1 AS x")
    with pytest.raises(WarehouseError) as failure:
        warehouse.create_view(HERE, query)
    assert "\n" not in str(failure.value)
    assert value_at(warehouse, HERE) == [(1,)]


@pytest.mark.parametrize(
    "query", ["SELECT 1; DROP TABLE x", "DROP TABLE x", "CREATE TABLE y AS SELECT 1", "", "COPY x TO '/tmp/x'"]
)
def test_only_one_select_is_a_query(warehouse: Warehouse, query: str) -> None:
    with pytest.raises(WarehouseError, match="single SELECT"):
        warehouse.check_query(query)


@pytest.mark.parametrize("query", ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "FROM range(3)", "VALUES (1)"])
def test_every_kind_of_select_is_a_query(warehouse: Warehouse, query: str) -> None:
    warehouse.check_query(query)


def test_one_row_per_key_and_always_the_same(warehouse: Warehouse) -> None:
    warehouse.create_view(
        HERE, "SELECT * FROM (VALUES (1, 'b', 2), (1, 'a', 9), (2, NULL, 1), (1, 'a', 3)) AS t (k, s, x)"
    )
    rows = [row for batch in warehouse.distinct_rows(HERE, ["k", "s"], ["k"], 1) for row in batch]
    assert rows == [(1, "a"), (2, None)]


def test_values_that_duckdb_needs_help_to_hand_out(warehouse: Warehouse) -> None:
    warehouse.create_view(
        HERE,
        "SELECT TIMESTAMPTZ '2026-01-01 10:00:00.5+02' AS z, {'a': [1, 2], 'b': TIMESTAMPTZ '2026-01-01 00:00:00+00'}"
        " AS s, NULL::INTEGER[] AS n, MAP {'k': 1} AS m",
    )
    [[row]] = warehouse.distinct_rows(HERE, ["z", "s", "n", "m"], [], 10)
    assert row[0] == "2026-01-01T08:00:00.500000Z"
    assert row[1]["a"] == [1, 2]
    assert row[2:] == (None, {"k": 1})


def test_many_threads_at_once(warehouse: Warehouse) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                place = Place(f"schema{turn % 3}", f"t{number}")
                warehouse.show(warehouse.build(place, f"SELECT {turn} AS x", turn))
                warehouse.create_view(Place(place.schema, f"v{number}"), f"FROM {place.sql}")
                assert value_at(warehouse, Place(place.schema, f"v{number}")) == [(turn,)]
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_interrupt_ends_what_is_going_on_and_what_would_begin(warehouse: Warehouse) -> None:
    threading.Timer(0.2, warehouse.interrupt).start()
    begin = time.monotonic()
    with pytest.raises(WarehouseError):
        warehouse.build(HERE, "SELECT count(*) AS x FROM range(100000000000) a, range(1000) b", 1)
    assert time.monotonic() - begin < 5
    with pytest.raises(WarehouseError, match="stopping"):
        warehouse.count(HERE)


def test_a_file_that_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "w.duckdb").write_bytes(b"no warehouse" * 1_000)
    with pytest.raises(SetupError, match="Cannot open the warehouse"):
        Warehouse(tmp_path / "w.duckdb", tmp_path)


def test_the_file_is_plain_duckdb(tmp_path: Path, warehouse: Warehouse) -> None:
    warehouse.create_view(HERE, "SELECT 7 AS x")
    warehouse.close()
    with duckdb.connect(str(tmp_path / "warehouse.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT x FROM models.thing").fetchall() == [(7,)]


def test_what_is_not_wanted_any_more_is_broken_off_alone(warehouse: Warehouse) -> None:
    begun, ended = threading.Event(), threading.Event()
    told: list[str] = []

    def count_for_ever() -> None:
        with warehouse.working_on(1):
            try:
                with warehouse.cursor() as cursor:
                    begun.set()
                    cursor.execute("SELECT count(*) FROM range(1_000_000_000_000_000) WHERE random() < 2")
            except WarehouseError as error:
                told.append(str(error))
            # What it still has to come does not begin.
            with pytest.raises(WarehouseError, match="not wanted"), warehouse.cursor():
                pass
        # The thread's next work is another's.
        with warehouse.working_on(3):
            assert warehouse.columns("SELECT 1 AS x")
        ended.set()

    thread = threading.Thread(target=count_for_ever)
    thread.start()
    assert begun.wait(5)
    # Of another work, and of none.
    warehouse.break_off(2)
    with warehouse.working_on(2):
        assert warehouse.columns("SELECT 1 AS x")
    assert not ended.is_set()
    while not ended.is_set():
        # An interruption that comes before the statement has begun is lost to it.
        warehouse.break_off(1)
        ended.wait(0.01)
    thread.join(5)
    assert told
