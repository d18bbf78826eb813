"""
Which rows of a database can be new, in its own words.

What it leaves out is left out for good. So a column is compared there only where the database compares as DuckDB does,
value for value; else all rows are read.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from datapipe_local.sources import sql_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.types import TypeEngine

    from datapipe_local.loading.increment import Newest

    Condition = sa.ColumnElement[bool]
    Rule = Callable[[sa.Connection, sa.Column[Any], Any], Condition | None]


def newer(connection: sa.Connection, table: sa.Table, newest: Newest) -> Condition | None:
    """
    Give the condition that rows meet whose pointer is not less than the greatest that is known, or is none.

    :return: None if the database cannot tell as DuckDB does.
    """
    found = [column for column in table.columns if column.name.lower() == newest.pointer.lower()]
    # A table that holds another type was made of other values than these.
    if len(found) != 1 or sql_types.declared(found[0].type) != newest.type:
        return None
    rule = _RULES[connection.dialect.name].get(newest.type.partition("(")[0])
    return rule(connection, found[0], newest.value) if rule else None


def _of_class(name: str, value_type: Callable[[], TypeEngine[Any]]) -> Rule:
    """In SQLite any value can stand in any column: those of another class are read, whatever they are."""

    def rule(_: sa.Connection, column: sa.Column[Any], value: Any) -> Condition:
        bare = sa.type_coerce(column, value_type())
        return sa.or_(sa.func.typeof(column) != name, bare >= sa.literal(value, value_type()))

    return rule


def _sqlite_text(connection: sa.Connection, column: sa.Column[Any], value: str) -> Condition | None:
    if connection.exec_driver_sql("PRAGMA encoding").scalar() != "UTF-8":
        return None
    bare = sa.type_coerce(column, sa.Text())
    return sa.or_(sa.func.typeof(column) != "text", bare.collate("BINARY") >= sa.literal(value, sa.Text()))


def _sqlite_moment(_: sa.Connection, column: sa.Column[Any], value: dt.date) -> Condition:
    # To the second, and without a zone: as text, the same moment can be written in several ways.
    moment = sa.func.datetime(sa.func.substr(sa.type_coerce(column, sa.Text()), 1, 19))
    least = sa.func.datetime(sa.literal(value.isoformat()[:19], sa.Text()))
    return sa.or_(sa.func.typeof(column) != "text", moment.is_(None), moment >= least)


def _exactly(value_type: Callable[[], TypeEngine[Any]]) -> Rule:
    def rule(_: sa.Connection, column: sa.Column[Any], value: Any) -> Condition:
        # The type of the value, and not of the column, which may be too short for it.
        return sa.or_(column.is_(None), column >= sa.literal(value, value_type()))

    return rule


def _double(connection: sa.Connection, column: sa.Column[Any], value: float) -> Condition | None:
    # A short floating point number is another one in DuckDB than in the database.
    return _exactly(sa.Double)(connection, column, value) if isinstance(column.type, sa.Double) else None


def _text(connection: sa.Connection, column: sa.Column[Any], value: str) -> Condition | None:
    # Others than these are compared in ways of their own, such as without blanks at the end.
    if type(column.type) not in (sa.TEXT, sa.VARCHAR):
        return None
    if connection.exec_driver_sql("SHOW server_encoding").scalar() != "UTF8":
        return None
    return sa.or_(column.is_(None), column.collate("C") >= sa.literal(value, sa.Text()))


_RULES: dict[str, dict[str, Rule]] = {
    "sqlite": {
        "BIGINT": _of_class("integer", sa.BigInteger),
        "DOUBLE": _of_class("real", sa.Double),
        "VARCHAR": _sqlite_text,
        "DATE": _sqlite_moment,
        "TIMESTAMP": _sqlite_moment,
    },
    "postgresql": {
        "BIGINT": _exactly(sa.BigInteger),
        "DECIMAL": _exactly(sa.Numeric),
        "DOUBLE": _double,
        "VARCHAR": _text,
        "DATE": _exactly(sa.Date),
        "TIMESTAMP": _exactly(sa.DateTime),
        "TIMESTAMP WITH TIME ZONE": _exactly(lambda: sa.DateTime(timezone=True)),
    },
}
