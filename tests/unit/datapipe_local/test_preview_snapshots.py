"""Previews see the tables and views of the warehouse as they are, with all types, in copies as small as possible."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from datapipe_local.previews import Preview, preview
from datapipe_local.query_process import snapshot
from datapipe_local.warehouse import Place, Warehouse, WarehouseError, bytes_of

pytestmark = pytest.mark.slow


PEOPLE = Place("shop", "people")
QUERIES = [
    "SELECT * FROM shop.people ORDER BY id",
    "SELECT NAME FROM Shop.People ORDER BY 1",
    "SELECT count(*) FROM shop.people",
    "SELECT p FROM shop.people AS p ORDER BY p.id",
    "SELECT people FROM shop.people ORDER BY id",
    "SELECT a, c FROM shop.people AS p(a, b, c) ORDER BY a",
    "SELECT x.id, y.name FROM shop.people x JOIN shop.people y USING (id) ORDER BY ALL",
    "SELECT * FROM shop.people NATURAL JOIN shop.adults ORDER BY ALL",
    "SELECT p.address.city FROM shop.people p ORDER BY 1",
    "SELECT address.city FROM shop.people ORDER BY 1",
    "SELECT COLUMNS('na.*') FROM shop.people ORDER BY ALL",
    "SELECT name FROM shop.adults ORDER BY name",
    'SELECT * FROM shop."of ""age""" ORDER BY ALL',
    "WITH people AS (SELECT 7 AS id) SELECT id FROM people",
    "WITH few AS (SELECT * FROM shop.people) SELECT max(id) FROM few",
    "SELECT (SELECT max(age) FROM shop.people q WHERE q.id <= p.id) AS oldest FROM shop.people p ORDER BY ALL",
    "SELECT age AS years, years + 1 AS next FROM shop.people ORDER BY ALL",
    "PIVOT shop.people ON age IN (36, 7) USING count(*) GROUP BY id ORDER BY id",
    "SELECT id FROM shop.people UNION SELECT age FROM shop.adults ORDER BY 1",
    "SELECT * EXCLUDE (name) REPLACE (id + 1 AS id) FROM shop.people ORDER BY ALL",
    "FROM shop.people SELECT id WHERE name = 'Ada'",
]


@pytest.fixture
def ours(warehouse: Warehouse) -> Warehouse:
    rows = "(VALUES (1, 'Ada', 36, {'city': 'London'}), (2, 'Bob', 7, {'city': 'Rome'})) t (id, name, age, address)"
    warehouse.show(warehouse.build(PEOPLE, f"FROM {rows}", 1))
    warehouse.create_view(Place("shop", "adults"), "SELECT id, name, age FROM shop.people WHERE age >= 18")
    warehouse.create_view(Place("shop", 'of "age"'), "SELECT a.name FROM shop.adults a")
    warehouse.show(warehouse.build(Place("shop", "many"), "SELECT range AS id, range % 7 AS k FROM range(5000)", 1))
    return warehouse


def shown(warehouse: Warehouse, query: str, most_rows: int = 1000) -> Preview:
    return preview(warehouse, query, seconds=60, most_rows=most_rows, most_characters=1_000_000, with_total=True)


@pytest.mark.parametrize("query", QUERIES)
def test_preview_equals_query_in_the_warehouse(ours: Warehouse, query: str) -> None:
    with ours.cursor() as cursor:
        expected = cursor.execute(query).fetchall()
        names = [column for column, *_ in cursor.description or []]
    found = shown(ours, query)
    assert found.rows == [dict(zip(names, row, strict=True)) for row in expected]
    assert (found.total, found.is_complete) == (len(expected), True)


@pytest.mark.parametrize(
    ("query", "rows", "total"),
    [
        ("SELECT * FROM shop.many", 10, 5000),
        ("FROM shop.many LIMIT 3", 3, 3),
        ("SELECT k, id FROM shop.many LIMIT 4000 OFFSET 4995", 5, 5),
        ("FROM shop.many OFFSET 6000", 0, 0),
        ("FROM shop.many LIMIT 0", 0, 0),
        ("FROM shop.many LIMIT 2000 OFFSET 1", 10, 2000),
        ("SELECT DISTINCT k FROM shop.many", 7, 7),
        ("SELECT id FROM shop.many WHERE k = 0 LIMIT 900", 10, 715),
        ("SELECT id FROM shop.many ORDER BY id DESC LIMIT 20", 10, 20),
        ("FROM shop.many LIMIT 10 + 1", 10, 11),
        ("FROM shop.many LIMIT 10%", 10, 500),
        ("SELECT unnest([id, k]) FROM shop.many", 10, 10_000),
        ("SELECT k FROM shop.many GROUP BY k", 7, 7),
    ],
)
def test_rows_and_total_of_a_large_table(ours: Warehouse, query: str, rows: int, total: int) -> None:
    found = shown(ours, query, most_rows=10)
    assert (len(found.rows), found.total) == (rows, total)


def test_order_of_a_limited_query_counts_all_rows(ours: Warehouse) -> None:
    assert shown(ours, "SELECT id FROM shop.many ORDER BY id DESC LIMIT 1").rows == [{"id": 4999}]


@pytest.mark.parametrize(
    ("query", "columns", "rows"),
    [
        ("SELECT k FROM shop.many WHERE id > 5", ["id", "k"], 5000),
        ("SELECT sum(k) FROM shop.many", ["k"], 5000),
        ("SELECT id FROM shop.many", ["id"], 11),
        ("FROM shop.many LIMIT 2 OFFSET 1", ["id", "k"], 3),
    ],
)
def test_snapshot_has_no_more_than_the_query_needs(
    ours: Warehouse, tmp_path: Path, query: str, columns: list[str], rows: int
) -> None:
    with ours.cursor() as cursor:
        taken = snapshot.take(cursor, query, tmp_path, 10)
    with duckdb.connect(taken.file) as copy:
        assert [name for name, *_ in copy.execute("DESCRIBE shop.many").fetchall()] == columns
        assert copy.execute("SELECT count(*) FROM shop.many").fetchall() == [(rows,)]
        assert copy.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]


def test_values_of_every_type_are_copied(ours: Warehouse) -> None:
    ours.show(ours.build(Place("shop", "types"), "SELECT * FROM test_all_types()", 1))
    query = "SELECT * FROM {}"
    assert shown(ours, query.format("shop.types")) == shown(ours, query.format("test_all_types()"))


def test_snapshot_is_one_moment_during_loads(ours: Warehouse) -> None:
    over = threading.Event()
    failures: list[Exception] = []

    def load() -> None:
        turn = 1
        try:
            while not over.is_set():
                turn += 1
                with ours.cursor() as cursor:
                    cursor.execute("BEGIN")
                    cursor.execute(f"CREATE OR REPLACE TABLE shop.left_side AS FROM repeat({turn}, 500) AS t (n)")
                    cursor.execute(f"CREATE OR REPLACE TABLE shop.right_side AS FROM repeat({turn}, 500) AS t (n)")
                    cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    for name in ("left", "right"):
        ours.show(ours.build(Place("shop", f"{name}_side"), "SELECT 1 AS n FROM range(500)", 1))
    thread = threading.Thread(target=load)
    thread.start()
    try:
        found: list[dict[str, Any]] = []
        for _ in range(5):
            query = "SELECT l.n = r.n AS same, count(*) AS rows FROM shop.left_side l, shop.right_side r GROUP BY 1"
            found += shown(ours, query).rows
    finally:
        over.set()
        thread.join()
    assert found == [{"same": True, "rows": 250_000}] * 5
    assert failures == []


def test_preview_uses_the_time_zone_of_the_service(ours: Warehouse) -> None:
    query = "SELECT extract(hour FROM TIMESTAMPTZ '2026-01-01 00:00:00+00') AS h"
    with ours.cursor() as cursor:
        expected = cursor.execute(query).fetchall()[0][0]
    assert shown(ours, query).rows == [{"h": expected}]


def test_snapshots_leave_no_database_attached(ours: Warehouse) -> None:
    with pytest.raises(WarehouseError):
        shown(ours, "SELECT id, error('stop') FROM shop.people")
    shown(ours, "SELECT id FROM shop.people")
    with ours.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM duckdb_databases() WHERE NOT internal").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("size", "expected"), [("512.0 MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("100 bytes", 100), ("2.0 TiB", 2 << 40)]
)
def test_bytes_of_a_size(size: str, expected: int) -> None:
    assert bytes_of(size) == expected
