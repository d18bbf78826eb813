"""
Conditions for the new rows of a database table, for incremental loads.

A row that the condition excludes is never loaded. Therefore a column is compared in the database only if the database
compares exactly as DuckDB does; otherwise all rows are read.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from datapipe_local.connectors.sources import sql_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.types import TypeEngine

    from datapipe_local.warehouse.loading.incremental import Newest

    Condition = sa.ColumnElement[bool]
    Rule = Callable[[sa.Connection, sa.Column[Any], Any], Condition | None]


def newer(connection: sa.Connection, table: sa.Table, newest: Newest) -> Condition | None:
    """
    Return the condition for rows whose pointer value is null, or not less than the greatest known one.

    :return: None if the database compares differently from DuckDB.
    """
    found = [column for column in table.columns if column.name.lower() == newest.pointer.lower()]
    # If the type differs, the warehouse table was loaded from other values.
    if len(found) != 1 or sql_types.declared(found[0].type) != newest.type:
        return None
    rule = _RULES[connection.dialect.name].get(newest.type.partition("(")[0])
    return rule(connection, found[0], newest.value) if rule else None


def _of_class(name: str, value_type: Callable[[], TypeEngine[Any]]) -> Rule:
    """In SQLite, any value can be in any column: values of another storage class are always read."""

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
    # Compare seconds without a zone: the same time can be written in several ways.
    moment = sa.func.datetime(sa.func.substr(sa.type_coerce(column, sa.Text()), 1, 19))
    least = sa.func.datetime(sa.literal(value.isoformat()[:19], sa.Text()))
    return sa.or_(sa.func.typeof(column) != "text", moment.is_(None), moment >= least)


def _exactly(value_type: Callable[[], TypeEngine[Any]]) -> Rule:
    def rule(_: sa.Connection, column: sa.Column[Any], value: Any) -> Condition:
        # Use the type of the value: the type of the column may be too short for it.
        return sa.or_(column.is_(None), column >= sa.literal(value, value_type()))

    return rule


def _double(connection: sa.Connection, column: sa.Column[Any], value: float) -> Condition | None:
    # DuckDB and the database represent single-precision numbers differently.
    return _exactly(sa.Double)(connection, column, value) if isinstance(column.type, sa.Double) else None


def _text(connection: sa.Connection, column: sa.Column[Any], value: str) -> Condition | None:
    # Other text types have comparison rules of their own, such as ignoring trailing blanks.
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
