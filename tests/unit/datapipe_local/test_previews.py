"""Tests of query previews: rows and totals as in the warehouse, from snapshots as small as possible."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from datapipe_local.common.errors import RunError
from datapipe_local.engine.query_previews import QueryPreviewer
from datapipe_local.engine.stop import Stop
from datapipe_local.services import jobs, query_previews
from datapipe_local.services.context import Context
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import JobKind, QueryPreview
from datapipe_local.warehouse.previews import Preview, preview
from datapipe_local.warehouse.query_process import snapshot
from datapipe_local.warehouse.warehouse import Place, Warehouse, WarehouseError, bytes_of

QUERIES = [
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
    'SELECT * FROM shop."of ""age""" ORDER BY ALL',
    "WITH people AS (SELECT 7 AS id) SELECT id FROM people",
    "WITH few AS (SELECT * FROM shop.people) SELECT max(id) FROM few",
    "SELECT (SELECT max(age) FROM shop.people q WHERE q.id <= p.id) AS oldest FROM shop.people p ORDER BY ALL",
    "SELECT age AS years, years + 1 AS next FROM shop.people ORDER BY ALL",
    "PIVOT shop.people ON age IN (36, 7) USING count(*) GROUP BY id ORDER BY id",
    "SELECT id FROM shop.people UNION SELECT age FROM shop.adults ORDER BY 1",
    "SELECT * EXCLUDE (name) REPLACE (id + 1 AS id) FROM shop.people ORDER BY ALL",
    "FROM shop.people SELECT id WHERE name = 'Ada'",
    "SELECT extract(hour FROM TIMESTAMPTZ '2026-01-01 00:00:00+00') AS of_the_time_zone",
]


@pytest.fixture
def ours(warehouse: Warehouse) -> Warehouse:
    rows = "(VALUES (1, 'Ada', 36, {'city': 'London'}), (2, 'Bob', 7, {'city': 'Rome'})) t (id, name, age, address)"
    warehouse.show(warehouse.build(Place("shop", "people"), f"FROM {rows}", 1))
    warehouse.create_view(Place("shop", "adults"), "SELECT id, name, age FROM shop.people WHERE age >= 18")
    warehouse.create_view(Place("shop", 'of "age"'), "SELECT a.name FROM shop.adults a")
    warehouse.show(warehouse.build(Place("shop", "many"), "SELECT range AS id, range % 7 AS k FROM range(5000)", 1))
    return warehouse


def shown(warehouse: Warehouse, query: str, most_rows: int = 1000) -> Preview:
    return preview(warehouse, query, seconds=60, most_rows=most_rows, most_characters=1_000_000, with_total=True)


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_preview_equals_query_in_the_warehouse(ours: Warehouse, query: str) -> None:
    with ours.cursor() as cursor:
        expected = cursor.execute(query).fetchall()
        names = [column for column, *_ in cursor.description or []]
    found = shown(ours, query)
    assert found.rows == [dict(zip(names, row, strict=True)) for row in expected]
    assert (found.total, found.is_complete) == (len(expected), True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "rows", "total"),
    [
        ("SELECT * FROM shop.many", 10, 5000),
        ("FROM shop.many LIMIT 3", 3, 3),
        ("SELECT k, id FROM shop.many LIMIT 4000 OFFSET 4995", 5, 5),
        *((query, 0, 0) for query in ("FROM shop.many OFFSET 6000", "FROM shop.many LIMIT 0")),
        ("FROM shop.many LIMIT 2000 OFFSET 1", 10, 2000),
        *((query, 7, 7) for query in ("SELECT DISTINCT k FROM shop.many", "SELECT k FROM shop.many GROUP BY k")),
        ("SELECT id FROM shop.many WHERE k = 0 LIMIT 900", 10, 715),
        ("SELECT id FROM shop.many ORDER BY id DESC LIMIT 20", 10, 20),
        ("FROM shop.many LIMIT 10 + 1", 10, 11),
        ("FROM shop.many LIMIT 10%", 10, 500),
        ("SELECT unnest([id, k]) FROM shop.many", 10, 10_000),
        ("FROM range(9) AS numbers(i) ORDER BY i DESC", 9, 9),
        ("FROM range(10)", 10, 10),
        ("FROM range(11)", 10, 11),
    ],
)
def test_rows_and_total_of_a_large_table(ours: Warehouse, query: str, rows: int, total: int) -> None:
    found = shown(ours, query, most_rows=10)
    assert (len(found.rows), found.total) == (rows, total)
    if "DESC" in query:
        assert next(iter(found.rows[0].values())) == (8 if "range" in query else 4999)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "columns", "rows"),
    [
        ("SELECT k FROM shop.many WHERE id > 5", ["id", "k"], 5000),
        ("SELECT sum(k) FROM shop.many", ["k"], 5000),
        ("SELECT id FROM shop.many", ["id"], 11),
        ("FROM shop.many LIMIT 2 OFFSET 1", ["id", "k"], 3),
    ],
)
def test_a_snapshot_is_minimal(ours: Warehouse, tmp_path: Path, query: str, columns: list[str], rows: int) -> None:
    with ours.cursor() as cursor:
        taken = snapshot.take(cursor, query, tmp_path, 10)
    with duckdb.connect(taken.file) as copy:
        assert [name for name, *_ in copy.execute("DESCRIBE shop.many").fetchall()] == columns
        assert copy.execute("SELECT count(*) FROM shop.many").fetchall() == [(rows,)]
        assert copy.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]


@pytest.mark.slow
def test_values_of_every_type_are_copied(ours: Warehouse) -> None:
    ours.show(ours.build(Place("shop", "types"), "SELECT * FROM test_all_types()", 1))
    query = "SELECT * FROM {}"
    assert shown(ours, query.format("shop.types")) == shown(ours, query.format("test_all_types()"))


@pytest.mark.slow
def test_snapshot_is_one_moment_during_loads(ours: Warehouse) -> None:
    over, loaded = threading.Event(), threading.Semaphore(0)
    sides = ("shop.left_side", "shop.right_side")

    def load() -> None:
        turn = 1
        while not over.is_set():
            turn += 1
            creations = [f"CREATE OR REPLACE TABLE {side} AS FROM repeat({turn}, 500) AS t (n)" for side in sides]
            with ours.cursor() as cursor:
                cursor.execute("; ".join(["BEGIN", *creations, "COMMIT"]))
            loaded.release()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        query = "SELECT l.n = r.n AS same, count(*) AS rows FROM shop.left_side l, shop.right_side r GROUP BY 1"
        for _ in range(5):
            # A load that fails ends this wait.
            assert loaded.acquire(timeout=30)
            assert shown(ours, query).rows == [{"same": True, "rows": 250_000}]
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_previews_leave_nothing_behind(ours: Warehouse) -> None:
    threads = threading.active_count()
    with pytest.raises(WarehouseError):
        shown(ours, "SELECT id, error('stop') FROM shop.people")
    assert shown(ours, "SELECT 1 AS x") == ([{"x": 1}], 1, True)
    with ours.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM duckdb_databases() WHERE NOT internal").fetchall() == [(1,)]
    assert threading.active_count() == threads
    assert list(ours.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("size", "expected"), [("512.0 MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("100 bytes", 100), ("2.0 TiB", 2 << 40)]
)
def test_bytes_of_a_size(size: str, expected: int) -> None:
    assert bytes_of(size) == expected


def done(context: Context, sql: str, *, seconds: float = 30.0) -> QueryPreview:
    """Create a preview, and execute its query as the engine does."""
    created = query_previews.create(context, sql)
    (job,) = context.store.jobs.all("WHERE subject_id = ?", created.id)
    previewer = QueryPreviewer(context, seconds=seconds)
    try:
        result, error = previewer.work(job, Stop()), None
    except RunError as failure:
        result, error = None, str(failure)
    previewer.finish(job, result, error)
    assert jobs.get(context, JobKind.QUERY_PREVIEW, created.id) is None
    return query_previews.get(context, created.id)


def test_the_count_of_rows_has_the_same_time_limit(context: Context) -> None:
    # The first rows are found at once.
    failed = done(context, "SELECT * FROM range(100000000000) WHERE range % 3 = 1 AND hash(range) > 0", seconds=0.5)
    assert failed.status == "FAILED"
    remedy = "reduce the data that it reads, or raise --preview-time-limit of the service."
    assert failed.error == f"The query took longer than 0.5 seconds: {remedy}"
    assert done(context, "SELECT 1 AS x").rows == [{"x": 1}]


def test_large_rows_are_fewer(context: Context) -> None:
    found = done(context, "SELECT repeat('x', 1000000) AS text FROM range(100)")
    assert (found.num_rows_total, len(found.rows or [])) == (100, 4)


def test_values_are_valid_in_json(context: Context) -> None:
    found = done(
        context,
        "SELECT 1 AS a, 2 AS a, 3 AS a_1, TIMESTAMPTZ '2026-01-01 10:00:00+02' AS z, {'k': [1, NULL]} AS n,"
        " 'nan'::DOUBLE AS f, 'é' || chr(0) AS t, 'x'::BLOB AS b, DATE '2026-01-02' AS d, 1.50::DECIMAL(9,2) AS m"
        " -- the end",
    )
    values = {"z": "2026-01-01T08:00:00.000000Z", "n": {"k": [1, None]}, "f": None, "t": "é\0", "b": "eA=="}
    assert found.rows == [{"a": 1, "a_2": 2, "a_1": 3, **values, "d": "2026-01-02", "m": 1.5}]
    assert done(context, "FROM test_all_types()").status == "DONE"


def stored(context: Context, number: int, **fields: Any) -> None:
    values = {"status": "DONE", "created_at": context.clock.now(), **fields}
    context.store.query_previews.insert(QueryPreview(id=str(number), dw_sql="SELECT 1", **values))


def test_previews_are_kept_for_a_day(context: Context) -> None:
    day_ago = later(context.clock.now(), -24 * 60 * 60 - 1)
    stored(context, 1, created_at=day_ago)
    stored(context, 2, created_at=day_ago, status="RUNNING")
    stored(context, 3)
    newest = query_previews.create(context, "SELECT 1")
    assert [found.id for found in context.store.query_previews.all("ORDER BY seq")] == ["2", "3", newest.id]


def test_a_thousand_previews_are_kept(context: Context) -> None:
    with context.store.transaction():
        for number in range(1_005):
            stored(context, number)
        query_previews.create(context, "SELECT 1")
    ids = [found.id for found in context.store.query_previews.all("ORDER BY seq")]
    assert (len(ids), ids[0]) == (1_000, "6")
