"""Incremental loads: new rows are merged by key, or appended without a key."""

from __future__ import annotations

import datetime as dt
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.warehouse.loading.load_options import Note
from datapipe_local.warehouse.loading.types import Typed, described, evolve, has, kind_of
from datapipe_local.warehouse.warehouse import WarehouseError, number, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from datapipe_local.warehouse.loading.load_options import LoadOptions
    from datapipe_local.warehouse.warehouse import Place

# Temporary tables are private to the cursor.
_FRESH, _NEW = "temp.main.__fresh__", "temp.main.__new__"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Infinities and NaN are greater than all numbers: a read from the greatest number includes them.
_FINITE = "max({0}) FILTER (isfinite({0}))"
_MOMENT = f"epoch_us({_FINITE})"
#: Queries of a pointer's maximum, for the types whose value is the same in Python. Other types are always read
#: completely.
_MAXIMUM = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "VARCHAR"), "max({0})"),
    "DOUBLE": _FINITE,
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"), _MOMENT),
}


class Newest(NamedTuple):
    """
    Greatest pointer value of a table.

    :param pointer: The pointer column.
    :param type: Its type.
    :param value: A number, text or time.
    """

    pointer: str
    type: str
    value: Any


class OutdatedError(Exception):
    """Error that makes a full load necessary: new rows cannot be added to the table. The message has the reason."""


def newest_of_each(query: str, columns: Sequence[Typed], options: LoadOptions) -> str:
    """Return a query with one row for each key, the one with the greatest pointer value."""
    if not options.key or options.pointer is None:
        return query
    keys = ", ".join(quoted(found(columns, name).name) for name in options.key)
    pointer = found(columns, options.pointer)
    # The other columns make the choice among equal pointer values deterministic.
    others = "".join(f", {quoted(column.name)}" for column in columns if column != pointer)
    order = f"{quoted(pointer.name)} DESC NULLS LAST{others}"
    return f"FROM ({query}) QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) = 1"


def newest(cursor: duckdb.DuckDBPyConnection, place: Place, options: LoadOptions) -> Newest | None:
    """
    Return the greatest pointer value of a table, if rows can be added to the table and the value is exact in Python.

    :param place: The table; it need not exist.
    """
    note = Note.read(cursor, place)
    if note is None or options.pointer is None or note.signature != options.signature:
        return None
    pointer = found(described(cursor, place.sql), options.pointer)
    maximum = _MAXIMUM.get(pointer.type.partition("(")[0])
    if maximum is None:
        return None
    row = cursor.execute(f"SELECT {maximum.format(quoted(pointer.name))} FROM {place.sql}").fetchone()  # noqa: S608 - quoted names
    value = row[0] if row else None
    if value is not None and _MOMENT in maximum:
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


def check(cursor: duckdb.DuckDBPyConnection, place: Place, query: str, options: LoadOptions) -> None:
    """
    Raise if the new rows of a source cannot be determined.

    :param query: All rows of the source.
    :raises OutdatedError: a full load is needed first.
    :raises WarehouseError: the source lacks the pointer or a key column.
    """
    note = Note.read(cursor, place)
    columns = described(cursor, f"({query})")
    for name in (*options.key, *([options.pointer] if options.pointer else [])):
        found(columns, name)
    if note is None or note.signature != options.signature:
        raise OutdatedError("its load options have changed")
    assert options.pointer is not None  # noqa: S101 - else everything is loaded
    before, now = (found(each, options.pointer).type for each in (described(cursor, place.sql), columns))
    is_there = f"{quoted(options.pointer)} IS NOT NULL"
    # A column without values has no definite type.
    if kind_of(before) != kind_of(now) and all(has(cursor, each, is_there) for each in (place.sql, f"({query})")):
        raise OutdatedError(f"the pointer {options.pointer!r} was {before}, and is {now}")


def add(
    cursor: duckdb.DuckDBPyConnection, place: Place, query: str, options: LoadOptions, *, cautious: bool = False
) -> int:
    """
    Add new rows to a table.

    A row is new if its pointer value is greater than those of all rows of the table, or if it is equal to the greatest
    one, or null, and the table does not have the row. With a key, only the newest row of each key counts, and a row
    with a null pointer does not replace a row with a pointer.

    :param cursor: A cursor in a transaction.
    :param place: The table, for which :func:`check` has passed.
    :param query: All rows of the source.
    :param options: The load options.
    :param cautious: See :func:`datapipe_local.warehouse.loading.types.evolve`.
    :return: The number of added or changed rows.
    """
    assert options.pointer is not None  # noqa: S101 - as above
    pointer = quoted(options.pointer)
    last = f"(SELECT max({pointer}) FROM {place.sql})"  # noqa: S608 - quoted, as below
    is_known = f"{pointer} = {last} OR {pointer} IS NULL"
    kinds = {kind_of(found(described(cursor, each), options.pointer).type) for each in (place.sql, f"({query})")}
    # If the types differ, one of the columns has no values.
    is_later = f"{pointer} >= {last}" if len(kinds) == 1 else "false"
    fresh = f"FROM ({query}) WHERE {is_later} OR {pointer} IS NULL OR {last} IS NULL"
    # Choose among all fresh rows of a key, like a full load: otherwise, runs over the same rows would alternate.
    fresh = newest_of_each(fresh, described(cursor, f"({query})"), options)
    cursor.execute(f"CREATE OR REPLACE TEMP TABLE __fresh__ AS {fresh}")
    common, values = evolve(cursor, place, _FRESH, cautious=cautious)
    taken = f"SELECT {', '.join(values)} FROM {_FRESH}"  # noqa: S608 - quoted names
    names = [column.name for relation in (place.sql, _FRESH) for column in described(cursor, relation)]
    cursor.execute(f"CREATE OR REPLACE TEMP TABLE __new__ AS {_without_known(place, taken, names, common, is_known)}")
    if options.key:
        same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM n.{name}" for name in map(quoted, options.key))
        # A row without a pointer may be older than each row with one.
        cursor.execute(
            f"DELETE FROM {_NEW} AS n USING {place.sql} AS t"  # noqa: S608 - quoted names
            f" WHERE n.{pointer} IS NULL AND t.{pointer} IS NOT NULL AND {same}"
        )
        cursor.execute(f"DELETE FROM {place.sql} AS t USING {_NEW} AS n WHERE {same}")  # noqa: S608 - quoted names
    added = number(cursor.execute(f"INSERT INTO {place.sql} BY NAME FROM {_NEW}"))
    cursor.execute(f"DROP TABLE {_FRESH}")
    cursor.execute(f"DROP TABLE {_NEW}")
    return added


def _without_known(place: Place, taken: str, columns: Sequence[str], common: Sequence[Typed], is_known: str) -> str:
    """Return the rows without those that the table has, each as often as the table has it."""
    names = ", ".join(quoted(column.name) for column in common)
    taken_names = {name.lower() for name in columns}
    # The shortest name that no other column has.
    number_name = quoted(next(name for length in count(1) if (name := "_" * length) not in taken_names))
    numbered = f"row_number() OVER (PARTITION BY {names}) AS {number_name}"
    same = " AND ".join(
        f"f.{name} IS NOT DISTINCT FROM k.{name}" for name in (*(quoted(column.name) for column in common), number_name)
    )
    return (
        f"FROM ({taken}) WHERE NOT coalesce({is_known}, false) UNION ALL BY NAME"  # noqa: S608 - quoted names
        f" SELECT f.* EXCLUDE ({number_name}) FROM (SELECT *, {numbered} FROM ({taken}) WHERE {is_known}) AS f"
        f" ANTI JOIN (SELECT {names}, {numbered} FROM {place.sql} WHERE {is_known}) AS k ON {same}"
    )


def found(columns: Sequence[Typed], name: str) -> Typed:
    """
    Return the column with a name, regardless of case.

    :raises WarehouseError: there is none.
    """
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    raise WarehouseError(f"There is no column {name[:100]!r}, which is the incremental pointer or part of the key")
