"""Adding to a table what is new at its source: rows are merged by their key, or appended where there is none."""

from __future__ import annotations

import datetime as dt
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.loading.manner import Note
from datapipe_local.loading.types import Typed, described, evolve, has, kind_of
from datapipe_local.warehouse import WarehouseError, number, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from datapipe_local.loading.manner import Manner
    from datapipe_local.warehouse import Place

# Of this cursor alone, as all that is temporary.
_FRESH, _NEW = "temp.main.__fresh__", "temp.main.__new__"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# What is infinite, or no number, is greater than all: whoever reads from the others on reads it, too.
_FINITE = "max({0}) FILTER (isfinite({0}))"
_MOMENT = f"epoch_us({_FINITE})"
#: How a pointer is asked for, so that its value is the same in Python. Others are not handed on.
_ASKED = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "VARCHAR"), "max({0})"),
    "DOUBLE": _FINITE,
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"), _MOMENT),
}


class Newest(NamedTuple):
    """
    The greatest pointer of a table.

    :param pointer: The column.
    :param type: Its type.
    :param value: A number, text, or time.
    """

    pointer: str
    type: str
    value: Any


class OutdatedError(Exception):
    """What is new cannot be added to what is there: everything has to be loaded. The message says why."""


def newest_of_each(query: str, columns: Sequence[Typed], manner: Manner) -> str:
    """Give a query with one row for each key, the one whose pointer is greatest."""
    if not manner.key or manner.pointer is None:
        return query
    keys = ", ".join(quoted(found(columns, name).name) for name in manner.key)
    pointer = found(columns, manner.pointer)
    # Of rows with the same pointer, too, always the same.
    others = "".join(f", {quoted(column.name)}" for column in columns if column != pointer)
    order = f"{quoted(pointer.name)} DESC NULLS LAST{others}"
    return f"FROM ({query}) QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) = 1"


def newest(cursor: duckdb.DuckDBPyConnection, place: Place, manner: Manner) -> Newest | None:
    """
    Give the greatest pointer of a table, if rows can be added to it, and it can be handed on exactly.

    :param place: The table; it need not exist.
    """
    note = Note.read(cursor, place)
    if note is None or manner.pointer is None or note.signature != manner.signature:
        return None
    pointer = found(described(cursor, place.sql), manner.pointer)
    asked = _ASKED.get(pointer.type.partition("(")[0])
    if asked is None:
        return None
    row = cursor.execute(f"SELECT {asked.format(quoted(pointer.name))} FROM {place.sql}").fetchone()  # noqa: S608
    value = row[0] if row else None
    if value is not None and _MOMENT in asked:
        value = _moment(pointer.type, value)
    return None if value is None else Newest(pointer.name, pointer.type, value)


def _moment(type_name: str, microseconds: int) -> dt.date | None:
    try:
        moment = _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    if type_name == "DATE":
        return moment.date()
    return moment if type_name.endswith("ZONE") else moment.replace(tzinfo=None)


def check(cursor: duckdb.DuckDBPyConnection, place: Place, query: str, manner: Manner) -> None:
    """
    See to it that what is new can be told.

    :param query: All rows of the source.
    :raises OutdatedError: it cannot, until everything is loaded.
    :raises WarehouseError: it cannot at all.
    """
    note = Note.read(cursor, place)
    columns = described(cursor, f"({query})")
    for name in (*manner.key, *([manner.pointer] if manner.pointer else [])):
        found(columns, name)
    if note is None or note.signature != manner.signature:
        raise OutdatedError("it is to be loaded in another manner than it was")
    assert manner.pointer is not None  # noqa: S101 - else everything is loaded
    before, now = (found(each, manner.pointer).type for each in (described(cursor, place.sql), columns))
    is_there = f"{quoted(manner.pointer)} IS NOT NULL"
    # What has no values is of any kind.
    if kind_of(before) != kind_of(now) and all(has(cursor, each, is_there) for each in (place.sql, f"({query})")):
        raise OutdatedError(f"the pointer {manner.pointer!r} was {before}, and is {now}")


def add(cursor: duckdb.DuckDBPyConnection, place: Place, query: str, manner: Manner, *, cautious: bool = False) -> int:
    """
    Add what is new.

    New is what has a greater pointer than all rows of the table; what has the same, or none, and is not there yet.

    :param cursor: In a transaction.
    :param place: The table, to which :func:`check` has no objection.
    :param query: All rows of the source.
    :param manner: How.
    :param cautious: See :func:`datapipe_local.loading.types.evolve`.
    :return: How many rows are added or changed.
    """
    assert manner.pointer is not None  # noqa: S101 - as above
    pointer = quoted(manner.pointer)
    last = f"(SELECT max({pointer}) FROM {place.sql})"  # noqa: S608 - quoted, as below
    is_known = f"{pointer} = {last} OR {pointer} IS NULL"
    kinds = {kind_of(found(described(cursor, each), manner.pointer).type) for each in (place.sql, f"({query})")}
    # Of different kinds: then one of them has no values.
    is_later = f"{pointer} >= {last}" if len(kinds) == 1 else "false"
    cursor.execute(
        f"CREATE OR REPLACE TEMP TABLE __fresh__ AS FROM ({query})"
        f" WHERE {is_later} OR {pointer} IS NULL OR {last} IS NULL"
    )
    common, values = evolve(cursor, place, _FRESH, cautious=cautious)
    taken = f"SELECT {', '.join(values)} FROM {_FRESH}"  # noqa: S608
    names = [column.name for relation in (place.sql, _FRESH) for column in described(cursor, relation)]
    cursor.execute(f"CREATE OR REPLACE TEMP TABLE __new__ AS {_without_known(place, taken, names, common, is_known)}")
    columns = described(cursor, _NEW)
    new = newest_of_each(f"FROM {_NEW}", columns, manner)
    if manner.key:
        same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM n.{name}" for name in map(quoted, manner.key))
        cursor.execute(f"DELETE FROM {place.sql} AS t USING {_NEW} AS n WHERE {same}")  # noqa: S608
    added = number(cursor.execute(f"INSERT INTO {place.sql} BY NAME {new}"))
    cursor.execute(f"DROP TABLE {_FRESH}")
    cursor.execute(f"DROP TABLE {_NEW}")
    return added


def _without_known(place: Place, taken: str, columns: Sequence[str], common: Sequence[Typed], is_known: str) -> str:
    """Give the rows without those that the table has, each as often as it has it."""
    names = ", ".join(quoted(column.name) for column in common)
    taken_names = {name.lower() for name in columns}
    # As short as it can be: no other column is called so.
    number_name = quoted(next(name for length in count(1) if (name := "_" * length) not in taken_names))
    numbered = f"row_number() OVER (PARTITION BY {names}) AS {number_name}"
    same = " AND ".join(
        f"f.{name} IS NOT DISTINCT FROM k.{name}" for name in (*(quoted(column.name) for column in common), number_name)
    )
    return (
        f"FROM ({taken}) WHERE NOT coalesce({is_known}, false) UNION ALL BY NAME"  # noqa: S608 - quoted
        f" SELECT f.* EXCLUDE ({number_name}) FROM (SELECT *, {numbered} FROM ({taken}) WHERE {is_known}) AS f"
        f" ANTI JOIN (SELECT {names}, {numbered} FROM {place.sql} WHERE {is_known}) AS k ON {same}"
    )


def found(columns: Sequence[Typed], name: str) -> Typed:
    """
    Give the column with a name, in whatever case.

    :raises WarehouseError: there is none.
    """
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    raise WarehouseError(f"There is no column {name[:100]!r} to tell by what is new")
