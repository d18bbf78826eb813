"""SQL databases: rows that are not needed do not travel, and which these are makes no difference to the table."""

from __future__ import annotations

import datetime as dt
import json
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import sqlalchemy as sa

from datapipe_local.errors import RunError
from datapipe_local.loading.increment import OutdatedError
from datapipe_local.loading.manner import Manner, Run
from datapipe_local.loading.readable import Query, Selection
from datapipe_local.loads import Loads, Told
from datapipe_local.sources.base import Need
from datapipe_local.sources.sql import SqlSource
from datapipe_local.warehouse import Place, Warehouse, WarehouseError
from tests.support.postgresql import PostgreSQL, need_postgresql

pytestmark = pytest.mark.slow


ALL, PART = Place("raw", "all"), Place("raw", "part")
TOLD = Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE")
MERGED = Manner(pointer="at", key=("id",))


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    need_postgresql()
    with PostgreSQL() as server:
        yield server.url.replace("+psycopg", "")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql"))
    sqlite3.connect(tmp_path / "source.db").close()
    return f"sqlite:///{tmp_path}/source.db"


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
    yield engine
    engine.dispose()


class Sync:
    """A table of a database, and two tables of a warehouse: one gets what the source leaves, the other gets all."""

    def __init__(self, url: str, warehouse: Warehouse, manner: Manner = MERGED) -> None:
        self._source, self._warehouse, self._manner = SqlSource({"url": url}), warehouse, manner

    def run(self) -> tuple[int, int]:
        """Load what is new into both; give how many rows have travelled, and how many were new."""
        loads = Loads(self._warehouse)
        added = [self._added(loads, place) for place in (ALL, PART)]
        assert self.rows(ALL) == self.rows(PART)
        assert added[0][1] == added[1][1]
        return added[1]

    def rows(self, place: Place) -> list[tuple[Any, ...]]:
        with self._warehouse.cursor() as cursor:
            return sorted(cursor.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {place.sql}").fetchall(), key=str)  # noqa: S608

    def type_of(self, column: str) -> str:
        return next(one.type for one in self._warehouse.columns(f"FROM {PART.sql}") if one.name == column)

    def _added(self, loads: Loads, place: Place) -> tuple[int, int]:
        newest = loads.newest(place, self._manner) if place == PART else None
        need = Need(self._manner.selection.excluded, newest)
        with self._source.fetch({"table": "t"}, self._warehouse.scratch, need) as fetched:
            travelled = len(written(fetched.scan))
            assert fetched.is_whole or newest is not None
            if loads.noted(place) is None:
                return travelled, loads.whole(place, fetched.scan, self._manner, TOLD)
            since = None if fetched.is_whole else newest
            try:
                return travelled, loads.added(place, fetched.scan, self._manner, TOLD, since=since)
            except OutdatedError:
                pass
        # As the engine does it.
        with self._source.fetch({"table": "t"}, self._warehouse.scratch, Need()) as fetched:
            return travelled, loads.whole(place, fetched.scan, self._manner, TOLD)


def written(scan: Any) -> list[dict[str, Any]]:
    """Return the rows that the source has transferred."""
    assert isinstance(scan, Query)
    file = scan.sql.partition("read_json('")[2].partition("'")[0]
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def insert(engine: sa.Engine, *values: Any, start: int) -> None:
    with engine.begin() as connection:
        table = sa.Table("t", sa.MetaData(), autoload_with=connection)
        connection.execute(sa.insert(table), [{"id": start + n, "at": value} for n, value in enumerate(values)])


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


class Pointer(NamedTuple):
    """
    A column that tells what is new.

    :param kind: Its type.
    :param first: What a first run loads; the last of them is the greatest.
    :param new: What comes then.
    """

    kind: str
    first: list[Any]
    new: list[Any]


POINTERS = [
    Pointer("BIGINT", [-5, 0, 2**53 + 1, 2**62 + 1], [2**62 + 1, 2**62 + 2]),
    Pointer("SMALLINT", [-1, 3], [3, 4]),
    Pointer("DOUBLE PRECISION", [-1.5, 0.1, 0.7], [0.7, 0.7000000000000001]),
    Pointer("TEXT", ["", "B", "Z", "a", "\u00e9"], ["\u00e9", "\u00ea", "\U0001f600"]),
    Pointer("VARCHAR(20)", ["10", "9"], ["9", "90"]),
    Pointer("DATE", [dt.date(1900, 1, 1), dt.date(2026, 1, 2)], [dt.date(2026, 1, 2), dt.date(2026, 1, 3)]),
    Pointer(
        "TIMESTAMP",
        [moment("1969-12-31T23:59:59.999999"), moment("2026-01-02T03:04:05.678901")],
        [moment("2026-01-02T03:04:05.678901"), moment("2026-01-02T03:04:06.678901")],
    ),
]


@pytest.mark.parametrize("pointer", POINTERS, ids=lambda pointer: pointer.kind)
def test_rows_that_are_older_do_not_travel(url: str, engine: sa.Engine, warehouse: Warehouse, pointer: Pointer) -> None:
    kind, first, new = pointer
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t (id INTEGER, at {kind})")
    insert(engine, *first, None, start=0)
    sync = Sync(url, warehouse)
    assert sync.run() == (len(first) + 1, len(first) + 1)
    # The greatest again, and none.
    assert sync.run() == (2, 0)
    insert(engine, *new, first[0], None, start=100)
    assert sync.run() == (2 + len(new) + 1, len(new) + 1)
    assert sync.run() == (1 + 2, 0)


@pytest.mark.parametrize(("url", "collation"), [("sqlite", "NOCASE"), ("postgresql", '"en-x-icu"')], indirect=["url"])
def test_text_is_compared_as_duckdb_does(url: str, engine: sa.Engine, warehouse: Warehouse, collation: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t (id INTEGER, at TEXT COLLATE {collation})")
    insert(engine, "A", "Z", start=0)
    sync = Sync(url, warehouse)
    sync.run()
    # To a person it comes before Z.
    insert(engine, "a", "B", start=100)
    assert sync.run() == (2, 1)


#: What these databases do not compare as DuckDB does.
OTHERS = {
    "postgresql": [
        Pointer("REAL", [0.7], [0.7, 0.8]),
        Pointer("CHAR(5)", ["a"], ["a", "b"]),
        Pointer("NUMERIC", [Decimal("9.5"), Decimal(10)], [Decimal("9.75")]),
        Pointer("UUID", [UUID(int=1)], [UUID(int=2)]),
        Pointer("BOOLEAN", [False], [True]),
    ],
    "sqlite": [
        Pointer("NUMERIC(10,2)", [Decimal("1.25")], [Decimal("1.5")]),
        Pointer("BOOLEAN", [False], [True]),
    ],
}


@pytest.mark.parametrize(
    ("url", "pointer"),
    [(database, pointer) for database, pointers in OTHERS.items() for pointer in pointers],
    indirect=["url"],
)
def test_what_is_compared_in_another_way_is_read_as_a_whole(
    url: str, engine: sa.Engine, warehouse: Warehouse, pointer: Pointer
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t (id INTEGER, at {pointer.kind})")
    insert(engine, *pointer.first, start=0)
    sync = Sync(url, warehouse)
    sync.run()
    insert(engine, *pointer.new, start=100)
    travelled, _ = sync.run()
    assert travelled == len(pointer.first) + len(pointer.new)


def test_moments_with_a_zone(postgresql: str, warehouse: Warehouse) -> None:
    engine = sa.create_engine(postgresql.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER, at TIMESTAMPTZ)")
        connection.exec_driver_sql(
            "INSERT INTO t VALUES (1, '2026-01-01 00:00+02'), (2, '2026-01-01 00:00+00'), (3, '1800-01-01 00:00+00'),"
            " (4, '-infinity')"
        )
    sync = Sync(postgresql, warehouse)
    assert sync.run() == (4, 4)
    assert sync.type_of("at") == "TIMESTAMP WITH TIME ZONE"
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (5, '2026-01-01 01:00+02'), (6, '2026-01-01 03:00+02')")
    assert sync.run() == (2, 1)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (7, 'infinity')")
    # What is infinite is greater than all; from the greatest of the others on rows are read.
    assert sync.run() == (2, 1)
    assert sync.run() == (2, 0)


#: Values of SQLite, where any can stand in any column; and the type that its column gets.
LOOSE: list[tuple[str, list[Any], str]] = [
    ("INTEGER", [1, 1.5, 2], "DOUBLE"),
    ("INTEGER", [2**53 + 1, 1.5], "VARCHAR"),
    ("INTEGER", [1, "two"], "VARCHAR"),
    ("BOOLEAN", [0, 1], "BOOLEAN"),
    ("BOOLEAN", [0, 2], "BIGINT"),
    ("BOOLEAN", ["f"], "VARCHAR"),
    ("DATETIME", ["2026-01-01 00:00:00", "2026-01-01T00:00:00.5"], "TIMESTAMP"),
    ("DATETIME", [1_700_000_000], "VARCHAR"),
    ("DATETIME", ["2026-01-01 00:00:00+02:00"], "VARCHAR"),
    ("DATE", ["2026-01-01", "2026-01-01 10:00:00"], "TIMESTAMP"),
    ("DECIMAL(10,2)", [1, 2.5], "DECIMAL(10,2)"),
    ("DECIMAL(10,2)", [12.345], "DOUBLE"),
    ("DECIMAL(10,2)", [1e12], "DOUBLE"),
    ("JSON", ['{"a": 1.10}'], "JSON"),
    ("JSON", ["{"], "VARCHAR"),
    ("BLOB", [b"\x00\xff"], "BLOB"),
    ("BLOB", ["text"], "VARCHAR"),
]


@pytest.mark.parametrize(("kind", "values", "expected"), LOOSE)
def test_sqlite_keeps_what_it_is_given(
    tmp_path: Path, warehouse: Warehouse, kind: str, values: list[Any], expected: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "source.db")) as database, database:
        database.execute(f"CREATE TABLE t (id INTEGER, at INTEGER, x {kind})")
        database.executemany("INSERT INTO t VALUES (?, 0, ?)", enumerate(values))
        stored = [str(x) for (x,) in database.execute("SELECT x FROM t")]
    sync = Sync(f"sqlite:///{tmp_path}/source.db", warehouse)
    sync.run()
    assert sync.type_of("x") == expected
    found = [row[2] for row in sorted(sync.rows(PART))]
    if expected == "VARCHAR":
        assert found == stored
    elif expected == "DOUBLE":
        assert [*map(float, found)] == [*map(float, stored)]


@pytest.mark.parametrize(
    ("kind", "first", "new"),
    [
        ("INTEGER", [1, 5], ["late", 1, 4.5, b"x", 6]),
        ("DATETIME", ["2026-01-01 00:00:00"], ["2026-01-01T00:00:00.000", "2026-01-01", "2026-01-01 00:00", "soon", 5]),
        ("REAL", [1.5], [1.5, "x", 2]),
        ("TEXT", ["b"], ["B", "b", "c", b"a"]),
        ("", ["b", 3], ["a", 2, 4, "c"]),
    ],
)
def test_a_pointer_of_sqlite_that_is_written_in_several_ways(
    tmp_path: Path, warehouse: Warehouse, kind: str, first: list[Any], new: list[Any]
) -> None:
    """Whatever is new in the eyes of DuckDB has travelled: both tables are the same, also where the type changes."""
    with closing(sqlite3.connect(tmp_path / "source.db")) as database:
        database.execute(f"CREATE TABLE t (id INTEGER, at {kind} COLLATE NOCASE)")
        database.executemany("INSERT INTO t VALUES (?, ?)", enumerate(first))
        database.commit()
        sync = Sync(f"sqlite:///{tmp_path}/source.db", warehouse)
        sync.run()
        for number, value in enumerate(new, 100):
            database.execute("INSERT INTO t VALUES (?, ?)", (number, value))
            database.commit()
            sync.run()


def test_columns_that_are_excluded_do_not_travel(url: str, engine: sa.Engine, warehouse: Warehouse) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER, at INTEGER, secret TEXT, hashed TEXT)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 1, 's3cret', 'h')")
    need = Need(excluded=("SECRET", "nothing"))
    with SqlSource({"url": url}).fetch({"table": "t"}, warehouse.scratch, need) as fetched:
        assert written(fetched.scan) == [{"id": 1, "at": 1, "hashed": "h"}]
    selection = Selection(excluded=("SECRET",), hashed=("hashed",))
    assert Sync(url, warehouse, Manner(selection, "at", ("id",))).run() == (1, 1)


def test_a_look_at_the_columns_reads_no_row(url: str, engine: sa.Engine, warehouse: Warehouse) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER, price NUMERIC(10,2))")
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 1.5)")
    with SqlSource({"url": url}).fetch({"table": "t"}, warehouse.scratch, Need(rows=False)) as fetched:
        assert written(fetched.scan) == []
        assert isinstance(fetched.scan, Query)
        assert [(one.name, one.type) for one in warehouse.columns(fetched.scan.sql)] == [
            ("id", "BIGINT"),
            ("price", "DECIMAL(10,2)"),
        ]


def counted(after: int) -> tuple[list[None], Callable[[], None]]:
    """Return a check that fails after a number of calls, and the number of its calls."""
    asked: list[None] = []

    def check() -> None:
        asked.append(None)
        if len(asked) > after:
            raise WarehouseError("It is not wanted any more.")

    return asked, check


def test_a_long_read_ends_once_nobody_wants_it(url: str, engine: sa.Engine, warehouse: Warehouse) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER)")
        numbers = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 50000)"
        connection.exec_driver_sql(f"INSERT INTO t {numbers} SELECT id FROM n")  # noqa: S608 - the test's own
    asked, check = counted(3)
    source = SqlSource({"url": url})
    with (
        pytest.raises(WarehouseError, match="not wanted"),
        source.fetch({"table": "t"}, warehouse.scratch, Need(check=check)),
    ):
        pass
    assert len(asked) == 4
    assert list(warehouse.scratch.glob("tmp*")) == []


def test_names_that_differ_in_case_alone_are_columns_apart(postgresql: str, warehouse: Warehouse) -> None:
    engine = sa.create_engine(postgresql.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
        connection.exec_driver_sql('CREATE TABLE t (id INTEGER, at INTEGER, "Name" TEXT, name TEXT, "NAME" TEXT)')
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 1, 'a', 'b', 'c')")
    sync = Sync(postgresql, warehouse)
    sync.run()
    assert [one.name for one in warehouse.columns(f"FROM {PART.sql}")] == ["id", "at", "Name", "name_1", "NAME_2"]
    assert sync.rows(PART) == [("1", "1", "a", "b", "c")]


def test_what_python_cannot_hold_arrives(postgresql: str, warehouse: Warehouse) -> None:
    engine = sa.create_engine(postgresql.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
        connection.exec_driver_sql(
            "CREATE TABLE t AS SELECT 1 AS id, 1 AS at, timestamp 'infinity' AS forever, date '-infinity' AS never,"
            " interval '1 month 2 days' AS span, jsonb '{\"n\": 1.10, \"big\": 12345678901234567890.5}' AS j,"
            " timetz '10:00+02' AS t, numeric 'NaN' AS nan, timestamp '0044-03-15 00:00 BC' AS ides, null::json AS none"
            ", CAST('NaN' AS numeric(10, 2)) AS odd, '2026-01-01' AS words"
        )
    sync = Sync(postgresql, warehouse)
    sync.run()
    assert sync.rows(PART) == [
        (
            *("1", "1", "infinity", "-infinity", "1 mon 2 days"),
            '{"n": 1.10, "big": 12345678901234567890.5}',
            *("10:00:00+02", "NaN", "0044-03-15 (BC) 00:00:00", None, "NaN", "2026-01-01"),
        )
    ]
    assert [sync.type_of(one) for one in ("odd", "words", "ides", "j")] == ["VARCHAR", "VARCHAR", "TIMESTAMP", "JSON"]


def test_what_is_wrong_is_told_with_what_to_do(tmp_path: Path, warehouse: Warehouse) -> None:
    def said(url: str) -> str:
        with (
            pytest.raises(RunError) as failure,
            SqlSource({"url": url}).fetch({"table": "t"}, warehouse.scratch, Need()),
        ):
            pass
        assert "s3cret" not in str(failure.value)
        return str(failure.value)

    (tmp_path / "none.db").write_text("this is no database, whatever it is called")
    assert said(f"sqlite:///{tmp_path}/none.db").endswith("none.db cannot be read: file is not a database.")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"postgresql://user:s3cret@127.0.0.1:{nobody.getsockname()[1]}/shop"
    refused = said(url)
    assert "cannot be reached: " in refused
    assert refused.endswith("Correct `url`, or start it.")
    with closing(sqlite3.connect(tmp_path / "view.db")) as database, database:
        database.execute("CREATE TABLE gone (a INTEGER)")
        database.execute("CREATE VIEW t AS SELECT a FROM gone")
        database.execute("ALTER TABLE gone RENAME COLUMN a TO b")
        database.execute("PRAGMA writable_schema = on")
        database.execute("DELETE FROM sqlite_master WHERE name = 'gone'")
    assert "cannot be read: " in said(f"sqlite:///{tmp_path}/view.db")
