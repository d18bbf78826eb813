"""Types of columns that change: a table takes what comes, and no row is lost for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import duckdb

from datapipe_local.warehouse import quoted

if TYPE_CHECKING:
    from datapipe_local.warehouse import Place

_TEXT = "VARCHAR"
_JSON = "JSON"
_NESTED = re.compile(r"(STRUCT|MAP|UNION)\(|.*\]$")
_EXACT = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|DECIMAL\(|BIGNUM$")
_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|DECIMAL\(|FLOAT$|DOUBLE$|BIGNUM$")
_MOMENT = re.compile(r"DATE$|TIMESTAMP")
_FLOATING = frozenset({"FLOAT", "DOUBLE"})


class Typed(NamedTuple):
    """A column and its type."""

    name: str
    type: str


def described(cursor: duckdb.DuckDBPyConnection, relation: str) -> list[Typed]:
    """Tell the columns of a relation."""
    return [Typed(name, kind) for name, kind, *_ in cursor.execute(f"DESCRIBE FROM {relation}").fetchall()]


def kind_of(type_name: str) -> str:
    """Tell which kind a type is: values of one kind can be told to be less or more."""
    for kind, pattern in (("number", _NUMBER), ("moment", _MOMENT), ("nested", _NESTED)):
        if pattern.match(type_name):
            return kind
    return type_name


def converted(column: str, old: str, new: str) -> str:
    """Give a column as another type."""
    named = quoted(column)
    if old == new:
        return named
    if old == _JSON and new == _TEXT:
        # Text without its quotes.
        return f"({named} ->> '$')"
    if _NESTED.match(old) and new in (_TEXT, _JSON):
        return f"to_json({named})" if new == _JSON else f"CAST(to_json({named}) AS VARCHAR)"
    return f"CAST({named} AS {new})"


def evolve(
    cursor: duckdb.DuckDBPyConnection, place: Place, fresh: str, *, cautious: bool = False
) -> tuple[list[Typed], list[str]]:
    """
    Have a table take the rows of a relation.

    Columns that it does not have are added; one whose type is another gets a type that takes both.

    :param cursor: In a transaction.
    :param place: The table.
    :param fresh: The relation.
    :param cautious: Numbers of different types become text, and what is nested JSON.
    :return: The columns that both have had before, as the table has them now; and for each column of the relation
        its value as the table takes it, under its name there.
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
    """Tell which type a column of a table is to have, so that it takes that of a relation."""
    if known.type == new.type or not has(cursor, fresh, f"{quoted(new.name)} IS NOT NULL"):
        return known.type
    if not has(cursor, place.sql, f"{quoted(known.name)} IS NOT NULL"):
        # Whatever it was taken for: it has no values.
        return new.type
    wanted = common_type(cursor, known.type, new.type, cautious=cautious)
    if wanted in _FLOATING:
        for relation, column in ((place.sql, known), (fresh, new)):
            named = quoted(column.name)
            changes = f"TRY_CAST(CAST({named} AS {wanted}) AS {column.type}) IS DISTINCT FROM {named}"
            # Large numbers, such as ids, would become others.
            if _EXACT.match(column.type) and has(cursor, relation, changes):
                return _TEXT
    return wanted


def common_type(cursor: duckdb.DuckDBPyConnection, first: str, second: str, *, cautious: bool = False) -> str:
    """
    Give a type that takes the values of both.

    :param cursor: DuckDB, which knows its numbers, times and structures.
    :param first: A type.
    :param second: Another.
    :param cautious: See :func:`evolve`.
    """
    if first == second:
        return first
    kinds = {kind_of(first), kind_of(second)}
    if kinds <= {"nested", _JSON}:
        # DuckDB takes a list for what takes a structure, too, which it does not.
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
        # Apart: an error must not end the transaction.
        row = apart.execute(query).fetchone()
    except duckdb.Error:
        return None
    finally:
        apart.close()
    return str(row[1]) if row else None


def has(cursor: duckdb.DuckDBPyConnection, relation: str, condition: str) -> bool:
    """Tell whether a relation has a row that meets a condition."""
    return cursor.execute(f"SELECT 1 FROM {relation} WHERE {condition} LIMIT 1").fetchone() is not None  # noqa: S608 - quoted
