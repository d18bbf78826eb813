"""Rows of a database table, written as JSON Lines for DuckDB."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from datapipe_local.connectors.sources import sql_incremental, sql_types
from datapipe_local.warehouse.loading.json_lines import LONGEST_LINE
from datapipe_local.warehouse.loading.readable import Query
from datapipe_local.warehouse.warehouse import Scan, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from datapipe_local.connectors.sources.base import Need

# Number of rows in memory at a time.
_AT_A_TIME = 5_000
#: Types without JSON values: the type in which they are read, and the expression that converts them.
_ARRIVE = {"BLOB": ("VARCHAR", "from_hex({})"), "JSON": ("VARCHAR", "CAST({} AS JSON)")}


class Rows(NamedTuple):
    """
    Written rows.

    :param query: The query that reads them.
    :param size: Their size in bytes.
    :param is_whole: They are all rows of the table.
    """

    query: Query
    size: int
    is_whole: bool


class _Column(NamedTuple):
    name: str
    selected: sa.ColumnElement[Any]
    kinds: list[str]


def write(connection: sa.Connection, table: sa.Table, need: Need, path: Path) -> Rows:
    """
    Write the required rows of a table, read by one statement.

    :param connection: The database.
    :param table: The table.
    :param need: The required part.
    :param path: The file, which must not exist.
    """
    columns = _columns(connection, table, need)
    condition = sql_incremental.newer(connection, table, need.newest) if need.newest else None
    statement = sa.select(*(column.selected for column in columns)).select_from(table)
    if condition is not None:
        statement = statement.where(condition)
    if not need.rows:
        statement = statement.limit(0)
    encode = json.JSONEncoder(default=_as_text, ensure_ascii=False, allow_nan=True).encode
    names = [column.name for column in columns]
    kinds = [column.kinds for column in columns]
    size, longest = 0, LONGEST_LINE
    result = connection.execution_options(stream_results=True, yield_per=_AT_A_TIME).execute(statement)
    with path.open("wb") as file:
        for rows in result.partitions():
            need.check()
            kinds = _still_possible(kinds, rows)
            lines = [f"{encode(dict(zip(names, row, strict=True)))}\n".encode() for row in rows]
            longest = max(longest, *map(len, lines))
            size += file.write(b"".join(lines))
    types = {column.name: kind[0] for column, kind in zip(columns, kinds, strict=True)}
    excluded = {name.casefold() for name in need.excluded}
    left_out = tuple(column.name for column in table.columns if column.name.casefold() in excluded)
    query = replace(_query(path, types, longest, size), left_out=left_out)
    return Rows(query, size, condition is None)


def _columns(connection: sa.Connection, table: sa.Table, need: Need) -> list[_Column]:
    excluded = {name.casefold() for name in need.excluded}
    # If all columns are excluded, the caller reports the error.
    wanted = [column for column in table.columns if column.name.casefold() not in excluded] or list(table.columns)
    taken: set[str] = set()
    columns: list[_Column] = []
    for column in wanted:
        # For DuckDB, names that differ only by case are equal.
        name, number = column.name, 0
        while name.lower() in taken:
            number += 1
            name = f"{column.name}_{number}"
        taken.add(name.lower())
        kind = sql_types.declared(column.type)
        # Except in SQLite, values have the type of their column; DECIMAL may also hold NaN.
        is_sure = connection.dialect.name != "sqlite" and not kind.startswith("DECIMAL")
        kinds = [kind] if is_sure else sql_types.possible(kind)
        columns.append(_Column(name, _selected(connection, column).label(f"c{len(columns)}"), kinds))
    return columns


def _selected(connection: sa.Connection, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    if connection.dialect.name == "sqlite":
        # Select the actual value, without conversion to the type of its column.
        return sa.type_coerce(column, sa.types.NullType())
    # Python's numbers cannot represent all JSON numbers.
    return sa.cast(column, sa.Text()) if isinstance(column.type, sa.JSON) else column


def _still_possible(kinds: list[list[str]], rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [
        known if len(known) == 1 else sql_types.still_possible(known, [value for value in values if value is not None])
        for known, values in zip(kinds, zip(*rows, strict=True), strict=True)
    ]


def _query(path: Path, types: dict[str, str], longest: int, size: int) -> Query:
    """Return the query of the rows with the given types, and a fallback with DuckDB's types."""
    options = {"format": "newline_delimited", "maximum_object_size": longest}
    arriving = {name: _ARRIVE.get(kind, (kind, ""))[0] for name, kind in types.items()}
    replaced = ", ".join(
        f"{_ARRIVE[kind][1].format(quoted(name))} AS {quoted(name)}" for name, kind in types.items() if kind in _ARRIVE
    )
    star = f"* REPLACE ({replaced})" if replaced else "*"
    typed = Scan("read_json", path, {**options, "columns": arriving})
    inferred = Scan("read_json", path, {**options, "sample_size": -1})
    # An empty file has no column types to infer.
    instead = f"SELECT * FROM {inferred.sql()}" if size else None  # noqa: S608 - a reader of ours
    return Query(f"SELECT {star} FROM {typed.sql()}", instead)  # noqa: S608 - as above


def _as_text(value: Any) -> str:
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
