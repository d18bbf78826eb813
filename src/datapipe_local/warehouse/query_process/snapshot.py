"""Snapshots: copies of the tables that a query names, for the process that runs the query."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from datapipe_local.warehouse import query_shape
from datapipe_local.warehouse.query_rules import syntax_tree
from datapipe_local.warehouse.warehouse import Place, literal, number, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    import duckdb

#: Statement that DuckDB stores for a view, up to its query.
_VIEW = re.compile(r'CREATE VIEW (?:"(?:[^"]|"")*"|[^\s".])+(?:\.(?:"(?:[^"]|"")*"|[^\s".])+)* AS ', re.IGNORECASE)
#: Types that DuckDB can store without compression, which would take most of the time of a snapshot.
_PLAIN = re.compile(
    r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)|VARCHAR|DATE|TIME|TIMESTAMP(_S|_MS|_NS)?"
    r"|TIMESTAMP WITH TIME ZONE)"
)


class Snapshot(NamedTuple):
    """
    Copy of tables.

    :param file: The DuckDB file with the tables.
    :param temporary: A folder for temporary data of the query.
    :param views: The statements that create the views that the query names, in order.
    :param time_zone: The time zone of the service's session.
    :param total: The number of rows of the query, if the snapshot has only the first rows of a table.
    """

    file: str
    temporary: str
    views: list[str]
    time_zone: str
    total: int | None = None


@dataclass
class _Named:
    """Tables and views that a query names, directly or through views."""

    tables: list[Place] = field(default_factory=list)
    views: dict[Place, str] = field(default_factory=dict)
    trees: list[Any] = field(default_factory=list)


def take(cursor: duckdb.DuckDBPyConnection, query: str, folder: Path, most_rows: int) -> Snapshot:
    """
    Copy the tables that a query names, in one transaction.

    Only columns that the query can refer to are copied. If the query shows unchanged rows of one table, only the shown
    rows are copied.

    :param cursor: A cursor of the warehouse.
    :param query: A query that was checked.
    :param folder: An empty folder.
    :param most_rows: The largest number of rows of the result that the caller needs.
    """
    file = folder / "snapshot.duckdb"
    with _attached(cursor, file) as copy:
        cursor.execute("BEGIN")
        try:
            snapshot = _filled(cursor, query, copy, most_rows)
            cursor.execute("COMMIT")
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
    return snapshot._replace(file=str(file), temporary=str(folder / "temporary"))


@contextmanager
def _attached(cursor: duckdb.DuckDBPyConnection, file: Path) -> Iterator[str]:
    alias = f"__snapshot__{uuid4().hex}"
    cursor.execute(f"ATTACH {literal(str(file))} AS {alias}")
    try:
        yield alias
    finally:
        cursor.execute(f"DETACH {alias}")


def _filled(cursor: duckdb.DuckDBPyConnection, query: str, copy: str, most_rows: int) -> Snapshot:
    tree = syntax_tree(cursor, query)
    named = _Named(trees=[tree])
    seen: set[Place] = set()
    for place in query_shape.tables(tree):
        _collect(cursor, Place(*place), named, seen)
    window = query_shape.window(tree) if not named.views and len(named.tables) == 1 else None
    wanted = query_shape.columns(named.trees)
    total = None
    limit = ""
    for schema in sorted({place.schema for place in (*named.tables, *named.views)}):
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {copy}.{quoted(schema)}")
    if window is not None:
        every = number(cursor.execute(f"SELECT count(*) FROM {named.tables[0].sql}"))  # noqa: S608 - quoted names
        total = max(0, every - window.offset)
        total = total if window.limit is None else min(total, window.limit)
        # One more row shows whether there are more.
        limit = f"LIMIT {window.offset + min(total, most_rows + 1)}"
    for place in named.tables:
        _copy(cursor, place, copy, wanted, limit)
    zone = cursor.execute("SELECT current_setting('TimeZone')").fetchone()
    return Snapshot("", "", list(named.views.values()), str(zone[0]) if zone else "UTC", total)


def _collect(cursor: duckdb.DuckDBPyConnection, place: Place, named: _Named, seen: set[Place]) -> None:
    found = cursor.execute(
        "SELECT schema_name, table_name, NULL FROM duckdb_tables() WHERE database_name = current_database()"
        " AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)"
        " UNION ALL SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal"
        " AND database_name = current_database() AND lower(schema_name) = lower($1) AND lower(view_name) = lower($2)",
        [*place],
    ).fetchone()
    # Other names are defined in WITH, or DuckDB refuses them.
    if found is None:
        return
    schema, name, sql = found
    here = Place(schema, name)
    if here in seen:
        return
    seen.add(here)
    if sql is None:
        named.tables.append(here)
        return
    statement = _VIEW.match(sql)
    tree = syntax_tree(cursor, sql[statement.end() :]) if statement else None
    if tree is not None:
        named.trees.append(tree)
        for inner in query_shape.tables(tree):
            _collect(cursor, Place(*inner), named, seen)
    # After the tables and views that it reads.
    named.views[here] = sql


def _copy(
    cursor: duckdb.DuckDBPyConnection, place: Place, copy: str, wanted: Collection[str] | None, limit: str
) -> None:
    every = cursor.execute(f"DESCRIBE {place.sql}").fetchall()
    columns = [(name, kind) for name, kind, *_ in every if wanted is None or name.lower() in wanted]
    # A table has at least one column.
    columns = columns or [(name, kind) for name, kind, *_ in every[:1]]
    declared = ", ".join(
        f"{quoted(name)} {kind}{' USING COMPRESSION uncompressed' if _PLAIN.fullmatch(kind) else ''}"
        for name, kind in columns
    )
    names = ", ".join(quoted(name) for name, _ in columns)
    cursor.execute(f"CREATE TABLE {copy}.{place.sql} ({declared})")
    cursor.execute(f"INSERT INTO {copy}.{place.sql} SELECT {names} FROM {place.sql} {limit}")  # noqa: S608 - quoted names
