"""Tests of SQL databases as sources: only new rows are transferred, and the table is the same as after a full read."""

from __future__ import annotations

import datetime as dt
import json
import socket
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import sqlalchemy as sa

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.sources.base import Need
from datapipe_local.connectors.sources.sql import SqlSource
from datapipe_local.warehouse.loading.incremental import OutdatedError
from datapipe_local.warehouse.loading.load_options import LoadOptions
from datapipe_local.warehouse.loading.readable import Query, Selection
from datapipe_local.warehouse.loading.table_loader import TableLoader
from datapipe_local.warehouse.warehouse import Place, Warehouse
from tests.support.postgresql import PostgreSQL
from tests.unit.datapipe_local.file_loads import FACTS

pytestmark = pytest.mark.slow


ALL, PART = Place("raw", "all"), Place("raw", "part")
MERGED = LoadOptions(pointer="at", key=("id",))


class Database:
    """A database with a table ``t``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.pool.NullPool)

    def create(self, columns: str, *rows: str) -> None:
        self.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t {columns}")
        self.execute(*(f"INSERT INTO t VALUES {row}" for row in rows))  # noqa: S608 - fixed names of the test

    def execute(self, *statements: str) -> None:
        with self._engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def insert(self, *pointers: Any, start: int) -> None:
        with self._engine.begin() as connection:
            table = sa.Table("t", sa.MetaData(), autoload_with=connection)
            connection.execute(sa.insert(table), [{"id": start + n, "at": value} for n, value in enumerate(pointers)])


@pytest.fixture
def postgresql(postgresql_server: PostgreSQL) -> Database:
    return Database(postgresql_server.url.replace("+psycopg", ""))


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    sqlite3.connect(tmp_path / "source.db").close()
    return Database(f"sqlite:///{tmp_path}/source.db")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Database)
    return found


class Sync:
    """A table of a database, and two tables of a warehouse: one gets the new rows only, the other gets all rows."""

    def __init__(self, database: Database, warehouse: Warehouse, options: LoadOptions = MERGED) -> None:
        self._source, self._warehouse, self._options = SqlSource({"url": database.url}), warehouse, options

    def run(self) -> tuple[int, int]:
        """Load new rows into both tables. Return how many rows were transferred, and how many of them were new."""
        loader = TableLoader(self._warehouse)
        added = [self._added(loader, place) for place in (ALL, PART)]
        assert self.rows(ALL) == self.rows(PART)
        assert added[0][1] == added[1][1]
        return added[1]

    def rows(self, place: Place = PART) -> list[tuple[Any, ...]]:
        with self._warehouse.cursor() as cursor:
            return sorted(cursor.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {place.sql}").fetchall(), key=str)  # noqa: S608 - a table name of the test

    def types(self) -> dict[str, str]:
        return {column.name: column.type for column in self._warehouse.columns(f"FROM {PART.sql}")}

    def _added(self, loader: TableLoader, place: Place) -> tuple[int, int]:
        newest = loader.newest_pointer(place, self._options) if place == PART else None
        need = Need(self._options.selection.excluded, newest)
        with self._source.fetch({"table": "t"}, self._warehouse.scratch, need) as fetched:
            transferred = len(written(fetched.scan))
            assert fetched.is_whole or newest is not None
            if loader.last_load(place) is None:
                return transferred, loader.load_all_rows(place, fetched.scan, self._options, FACTS)
            since = None if fetched.is_whole else newest
            try:
                return transferred, loader.load_new_rows(place, fetched.scan, self._options, FACTS, since=since)
            except OutdatedError:
                pass
        # As the engine does it.
        with self._source.fetch({"table": "t"}, self._warehouse.scratch, Need()) as fetched:
            return transferred, loader.load_all_rows(place, fetched.scan, self._options, FACTS)


def written(scan: Any) -> list[dict[str, Any]]:
    """Return the rows that the source transferred."""
    assert isinstance(scan, Query)
    file = scan.sql.partition("read_json('")[2].partition("'")[0]
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


class Pointer(NamedTuple):
    """
    Column that shows which rows are new.

    :param kind: Its type.
    :param first: Values of the first run. The last one is the greatest.
    :param new: Values that are added then.
    """

    kind: str
    first: list[Any]
    new: list[Any]


MOMENTS = [dt.datetime.fromisoformat(text) for text in ("1969-12-31T23:59:59.999999", "2026-01-02T03:04:05.678901")]
POINTERS = [
    Pointer("BIGINT", [-5, 0, 2**53 + 1, 2**62 + 1], [2**62 + 1, 2**62 + 2]),
    Pointer("SMALLINT", [-1, 3], [3, 4]),
    Pointer("DOUBLE PRECISION", [-1.5, 0.1, 0.7], [0.7, 0.7000000000000001]),
    Pointer("TEXT", ["", "B", "Z", "a", "\u00e9"], ["\u00e9", "\u00ea", "\U0001f600"]),
    Pointer("VARCHAR(20)", ["10", "9"], ["9", "90"]),
    Pointer("DATE", [dt.date(1900, 1, 1), dt.date(2026, 1, 2)], [dt.date(2026, 1, 2), dt.date(2026, 1, 3)]),
    Pointer("TIMESTAMP", MOMENTS, [MOMENTS[1], MOMENTS[1] + dt.timedelta(seconds=1)]),
]


@pytest.mark.parametrize("pointer", POINTERS, ids=lambda pointer: pointer.kind)
def test_older_rows_are_not_transferred(database: Database, warehouse: Warehouse, pointer: Pointer) -> None:
    kind, first, new = pointer
    database.create(f"(id INTEGER, at {kind})")
    database.insert(*first, None, start=0)
    sync = Sync(database, warehouse)
    assert sync.run() == (len(first) + 1, len(first) + 1)
    # The greatest value again, and null.
    assert sync.run() == (2, 0)
    database.insert(*new, first[0], None, start=100)
    assert sync.run() == (2 + len(new) + 1, len(new) + 1)
    assert sync.run() == (1 + 2, 0)


@pytest.mark.parametrize(
    ("database", "collation"), [("sqlite", "NOCASE"), ("postgresql", '"en-x-icu"')], indirect=["database"]
)
def test_text_is_compared_as_by_duckdb(database: Database, warehouse: Warehouse, collation: str) -> None:
    database.create(f"(id INTEGER, at TEXT COLLATE {collation})")
    database.insert("A", "Z", start=0)
    sync = Sync(database, warehouse)
    sync.run()
    # By the collation, both are less than Z.
    database.insert("a", "B", start=100)
    assert sync.run() == (2, 1)


#: Types that these databases compare in another way than DuckDB.
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
    ("database", "pointer"),
    [(database, pointer) for database, pointers in OTHERS.items() for pointer in pointers],
    indirect=["database"],
)
def test_types_with_another_order_are_read_in_full(database: Database, warehouse: Warehouse, pointer: Pointer) -> None:
    database.create(f"(id INTEGER, at {pointer.kind})")
    database.insert(*pointer.first, start=0)
    sync = Sync(database, warehouse)
    sync.run()
    database.insert(*pointer.new, start=100)
    transferred, _ = sync.run()
    assert transferred == len(pointer.first) + len(pointer.new)


def test_pointers_with_a_time_zone(postgresql: Database, warehouse: Warehouse) -> None:
    postgresql.create(
        "(id INTEGER, at TIMESTAMPTZ)",
        "(1, '2026-01-01 00:00+02'), (2, '2026-01-01 00:00+00'), (3, '1800-01-01 00:00+00'), (4, '-infinity')",
    )
    sync = Sync(postgresql, warehouse)
    assert sync.run() == (4, 4)
    assert sync.types()["at"] == "TIMESTAMP WITH TIME ZONE"
    postgresql.execute("INSERT INTO t VALUES (5, '2026-01-01 01:00+02'), (6, '2026-01-01 03:00+02')")
    assert sync.run() == (2, 1)
    postgresql.execute("INSERT INTO t VALUES (7, 'infinity')")
    # Infinity is greater than all values. Rows are read from the greatest finite one.
    assert sync.run() == (2, 1)
    assert sync.run() == (2, 0)


#: Values of SQLite, which can be in any column, and the resulting type.
LOOSE: dict[str, list[tuple[list[Any], str]]] = {
    "INTEGER": [([1, 1.5, 2], "DOUBLE"), ([2**53 + 1, 1.5], "VARCHAR"), ([1, "two"], "VARCHAR")],
    "BOOLEAN": [([0, 1], "BOOLEAN"), ([0, 2], "BIGINT"), (["f"], "VARCHAR")],
    "DATETIME": [
        (["2026-01-01 00:00:00", "2026-01-01T00:00:00.5"], "TIMESTAMP"),
        *(([value], "VARCHAR") for value in (1_700_000_000, "2026-01-01 00:00:00+02:00")),
    ],
    "DATE": [(["2026-01-01", "2026-01-01 10:00:00"], "TIMESTAMP")],
    "DECIMAL(10,2)": [([1, 2.5], "DECIMAL(10,2)"), ([12.345], "DOUBLE"), ([1e12], "DOUBLE")],
    "JSON": [(['{"a": 1.10}'], "JSON"), (["{"], "VARCHAR")],
    "BLOB": [([b"\x00\xff"], "BLOB"), (["text"], "VARCHAR")],
}


@pytest.mark.parametrize(
    ("kind", "values", "expected"), [(kind, *case) for kind, cases in LOOSE.items() for case in cases]
)
def test_sqlite_values_of_other_types_are_kept(
    sqlite: Database, warehouse: Warehouse, kind: str, values: list[Any], expected: str
) -> None:
    with closing(sqlite3.connect(sqlite.url.removeprefix("sqlite:///"))) as database, database:
        database.execute(f"CREATE TABLE t (id INTEGER, at INTEGER, x {kind})")
        database.executemany("INSERT INTO t VALUES (?, 0, ?)", enumerate(values))
        stored = [str(x) for (x,) in database.execute("SELECT x FROM t")]
    sync = Sync(sqlite, warehouse)
    sync.run()
    assert sync.types()["x"] == expected
    found = [row[2] for row in sync.rows()]
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
def test_sqlite_pointers_of_several_forms_lose_no_row(
    sqlite: Database, warehouse: Warehouse, kind: str, first: list[Any], new: list[Any]
) -> None:
    """All rows that DuckDB takes as new are transferred, also if the type of the column changes."""
    with closing(sqlite3.connect(sqlite.url.removeprefix("sqlite:///"), isolation_level=None)) as database:
        database.execute(f"CREATE TABLE t (id INTEGER, at {kind} COLLATE NOCASE)")
        database.executemany("INSERT INTO t VALUES (?, ?)", enumerate(first))
        sync = Sync(sqlite, warehouse)
        sync.run()
        for number, value in enumerate(new, 100):
            database.execute("INSERT INTO t VALUES (?, ?)", (number, value))
            sync.run()


def test_excluded_columns_are_not_transferred(database: Database, warehouse: Warehouse) -> None:
    database.create("(id INTEGER, at INTEGER, secret TEXT, hashed TEXT)", "(1, 1, 's3cret', 'h')")
    need = Need(excluded=("SECRET", "nothing"))
    with SqlSource({"url": database.url}).fetch({"table": "t"}, warehouse.scratch, need) as fetched:
        assert written(fetched.scan) == [{"id": 1, "at": 1, "hashed": "h"}]
    selection = Selection(excluded=("SECRET",), hashed=("hashed",))
    assert Sync(database, warehouse, LoadOptions(selection, "at", ("id",))).run() == (1, 1)


def test_columns_are_read_without_a_row(database: Database, warehouse: Warehouse) -> None:
    database.create("(id INTEGER, price NUMERIC(10,2))", "(1, 1.5)")
    with SqlSource({"url": database.url}).fetch({"table": "t"}, warehouse.scratch, Need(rows=False)) as fetched:
        assert written(fetched.scan) == []
        assert isinstance(fetched.scan, Query)
        columns = [(one.name, one.type) for one in warehouse.columns(fetched.scan.sql)]
    assert columns == [("id", "BIGINT"), ("price", "DECIMAL(10,2)")]


def test_table_with_a_foreign_key_to_a_missing_table(sqlite: Database, warehouse: Warehouse) -> None:
    sqlite.create("(id INTEGER, at INTEGER, person INTEGER REFERENCES people (id))", "(1, 1, 7)")
    sync = Sync(sqlite, warehouse)
    assert sync.run() == (1, 1)
    assert sync.rows() == [("1", "1", "7")]


def test_names_that_differ_in_case_are_separate_columns(postgresql: Database, warehouse: Warehouse) -> None:
    postgresql.create('(id INTEGER, at INTEGER, "Name" TEXT, name TEXT, "NAME" TEXT)', "(1, 1, 'a', 'b', 'c')")
    sync = Sync(postgresql, warehouse)
    sync.run()
    assert list(sync.types()) == ["id", "at", "Name", "name_1", "NAME_2"]
    assert sync.rows() == [("1", "1", "a", "b", "c")]


def test_values_without_a_python_type_are_loaded(postgresql: Database, warehouse: Warehouse) -> None:
    postgresql.create(
        "AS SELECT 1 AS id, 1 AS at, timestamp 'infinity' AS forever, date '-infinity' AS never,"
        " interval '1 month 2 days' AS span, jsonb '{\"n\": 1.10, \"big\": 12345678901234567890.5}' AS j,"
        " timetz '10:00+02' AS t, numeric 'NaN' AS nan, timestamp '0044-03-15 00:00 BC' AS ides, null::json AS none,"
        " CAST('NaN' AS numeric(10, 2)) AS odd, '2026-01-01' AS words"
    )
    sync = Sync(postgresql, warehouse)
    sync.run()
    before_t = ("1", "1", "infinity", "-infinity", "1 mon 2 days", '{"n": 1.10, "big": 12345678901234567890.5}')
    from_t_on = ("10:00:00+02", "NaN", "0044-03-15 (BC) 00:00:00", None, "NaN", "2026-01-01")
    assert sync.rows() == [before_t + from_t_on]
    types = sync.types()
    assert [types[one] for one in ("odd", "words", "ides", "j")] == ["VARCHAR", "VARCHAR", "TIMESTAMP", "JSON"]


def test_failures_name_the_remedy_and_no_password(tmp_path: Path, warehouse: Warehouse) -> None:
    def error_of(url: str) -> str:
        source = SqlSource({"url": url})
        with pytest.raises(RunError) as failure, source.fetch({"table": "t"}, warehouse.scratch, Need()):
            pass
        assert "s3cret" not in str(failure.value)
        return str(failure.value)

    (tmp_path / "none.db").write_text("not a database")
    assert error_of(f"sqlite:///{tmp_path}/none.db").endswith("none.db cannot be read: file is not a database.")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"postgresql://user:s3cret@127.0.0.1:{closed.getsockname()[1]}/shop"
    refused = error_of(url)
    assert "cannot be reached: " in refused
    assert refused.endswith("Correct `url`, or start it.")
    with closing(sqlite3.connect(tmp_path / "view.db")) as database, database:
        database.execute("CREATE TABLE gone (a INTEGER)")
        database.execute("CREATE VIEW t AS SELECT a FROM gone")
        database.execute("ALTER TABLE gone RENAME COLUMN a TO b")
        database.execute("PRAGMA writable_schema = on")
        database.execute("DELETE FROM sqlite_master WHERE name = 'gone'")
    assert "cannot be read: " in error_of(f"sqlite:///{tmp_path}/view.db")
