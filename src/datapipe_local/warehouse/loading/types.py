"""Schema changes of tables: column types adapt to new rows without loss."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import duckdb

from datapipe_local.warehouse.warehouse import quoted

if TYPE_CHECKING:
    from datapipe_local.warehouse.warehouse import Place

_TEXT = "VARCHAR"
_JSON = "JSON"
_NESTED = re.compile(r"(STRUCT|MAP|UNION)\(|.*\]$")
_EXACT = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|DECIMAL\(|BIGNUM$")
_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|DECIMAL\(|FLOAT$|DOUBLE$|BIGNUM$")
_MOMENT = re.compile(r"DATE$|TIMESTAMP")
_FLOATING = frozenset({"FLOAT", "DOUBLE"})


class Typed(NamedTuple):
    """Column and its type."""

    name: str
    type: str


def described(cursor: duckdb.DuckDBPyConnection, relation: str) -> list[Typed]:
    """Return the columns of a relation."""
    return [Typed(name, kind) for name, kind, *_ in cursor.execute(f"DESCRIBE FROM {relation}").fetchall()]


def kind_of(type_name: str) -> str:
    """Return the kind of a type. Values of one kind are comparable."""
    for kind, pattern in (("number", _NUMBER), ("moment", _MOMENT), ("nested", _NESTED)):
        if pattern.match(type_name):
            return kind
    return type_name


def converted(column: str, old: str, new: str) -> str:
    """Return the expression that converts a column to another type."""
    named = quoted(column)
    if old == new:
        return named
    if old == _JSON and new == _TEXT:
        # The text without quotes.
        return f"({named} ->> '$')"
    if _NESTED.match(old) and new in (_TEXT, _JSON):
        return f"to_json({named})" if new == _JSON else f"CAST(to_json({named}) AS VARCHAR)"
    return f"CAST({named} AS {new})"


def evolve(
    cursor: duckdb.DuckDBPyConnection, place: Place, fresh: str, *, cautious: bool = False
) -> tuple[list[Typed], list[str]]:
    """
    Change a table so that it can hold the rows of a relation.

    Missing columns are added. If the types of a column differ, it gets a type for both.

    :param cursor: A cursor in a transaction.
    :param place: The table.
    :param fresh: The relation.
    :param cautious: Numbers of different types become text, and nested values become JSON.
    :return: The columns that both had before, with their new types; and for each column of the relation the expression
        that the table stores, with its name there.
    """
    present = {column.name.lower(): column for column in described(cursor, place.sql)}
    common: list[Typed] = []
    values: list[str] = []
    for name, kind in described(cursor, fresh):
        known = present.get(name.lower())
        if known is None:
            cursor.execute(f"ALTER TABLE {place.sql} ADD COLUMN {quoted(name)} {kind}")
            values.append(quoted(name))
            continue
        wanted = _wanted(cursor, place, fresh, known, Typed(name, kind), cautious=cautious)
        if wanted != known.type:
            cursor.execute(
                f"ALTER TABLE {place.sql} ALTER COLUMN {quoted(known.name)} TYPE {wanted}"
                f" USING {converted(known.name, known.type, wanted)}"
            )
        common.append(Typed(known.name, wanted))
        values.append(f"{converted(name, kind, wanted)} AS {quoted(known.name)}")
    return common, values


def _wanted(
    cursor: duckdb.DuckDBPyConnection, place: Place, fresh: str, known: Typed, new: Typed, *, cautious: bool
) -> str:
    """Return the type for a column of a table with which it can also hold the values of a relation."""
    if known.type == new.type or not has(cursor, fresh, f"{quoted(new.name)} IS NOT NULL"):
        return known.type
    if not has(cursor, place.sql, f"{quoted(known.name)} IS NOT NULL"):
        # The column has no values, so that its type does not matter.
        return new.type
    wanted = common_type(cursor, known.type, new.type, cautious=cautious)
    if wanted in _FLOATING:
        for relation, column in ((place.sql, known), (fresh, new)):
            named = quoted(column.name)
            changes = f"TRY_CAST(CAST({named} AS {wanted}) AS {column.type}) IS DISTINCT FROM {named}"
            # Large integers, such as IDs, would change.
            if _EXACT.match(column.type) and has(cursor, relation, changes):
                return _TEXT
    return wanted


def common_type(cursor: duckdb.DuckDBPyConnection, first: str, second: str, *, cautious: bool = False) -> str:
    """
    Return a type that can hold the values of two types.

    :param cursor: DuckDB, which combines numbers, times and structures.
    :param first: A type.
    :param second: Another type.
    :param cautious: See :func:`evolve`.
    """
    if first == second:
        return first
    kinds = {kind_of(first), kind_of(second)}
    if kinds <= {"nested", _JSON}:
        # DuckDB combines a list with a structure, which loses values.
        if kinds != {"nested"} or cautious or first.endswith("]") != second.endswith("]"):
            return _JSON
        return _by_duckdb(cursor, first, second) or _JSON
    if kinds in ({"number"}, {"moment"}) and not cautious:
        return _by_duckdb(cursor, first, second) or _TEXT
    return _TEXT


def _by_duckdb(cursor: duckdb.DuckDBPyConnection, first: str, second: str) -> str | None:
    query = f"DESCRIBE (SELECT CAST(NULL AS {first}) AS x UNION ALL SELECT CAST(NULL AS {second}))"
    apart = cursor.cursor()
    try:
        # A separate cursor: an error must not abort the transaction.
        row = apart.execute(query).fetchone()
    except duckdb.Error:
        return None
    finally:
        apart.close()
    return str(row[1]) if row else None


def has(cursor: duckdb.DuckDBPyConnection, relation: str, condition: str) -> bool:
    """Return True if a relation has a row that meets a condition."""
    return cursor.execute(f"SELECT 1 FROM {relation} WHERE {condition} LIMIT 1").fetchone() is not None  # noqa: S608 - quoted names
