"""Substreams: lists of records within rows, each shown as a view beside the table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from datapipe_local.warehouse.loading.types import Typed, described
from datapipe_local.warehouse.warehouse import Place, drop, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

_BETWEEN = "__"
_PARENT = "_parent_"
_RECORDS = re.compile(r"STRUCT\(.*\)\[\]$")


def prefix_of(table: str) -> str:
    """Return the beginning of the names of a table's substreams. No other view may have such a name."""
    return table + _BETWEEN


def names(columns: Iterable[Typed]) -> list[str]:
    """Return the columns that are lists of records."""
    return [name for name, kind in columns if _RECORDS.match(kind)]


def show(cursor: duckdb.DuckDBPyConnection, place: Place, key: Sequence[str]) -> None:
    """
    Create a view for each list of records of a table, and remove all other such views.

    :param cursor: A cursor in a transaction, after the load.
    :param place: The table.
    :param key: The key columns of the table, which the views repeat.
    """
    columns = described(cursor, place.sql)
    hide(cursor, place)
    keys = [column.name for column in columns if column.name.lower() in {name.lower() for name in key}]
    parent = "".join(f"{quoted(name)} AS {quoted(_PARENT + name)}, " for name in keys)
    shown = "".join(f"{quoted(_PARENT + name)}, " for name in keys)
    for name in names(columns):
        view = Place(place.schema, prefix_of(place.name) + name)
        cursor.execute(
            f"CREATE OR REPLACE VIEW {view.sql} AS SELECT {shown}__record__.*"  # noqa: S608 - quoted names
            f" FROM (SELECT {parent}unnest({quoted(name)}) AS __record__ FROM {place.sql})"
        )


def hide(cursor: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Remove the substream views of a table."""
    for view in views(cursor, place):
        drop(cursor, view)


def views(cursor: duckdb.DuckDBPyConnection, place: Place) -> list[Place]:
    """Return the substream views of a table."""
    found = cursor.execute(
        "SELECT v.schema_name, view_name FROM duckdb_views() AS v WHERE v.database_name = current_database()"
        " AND lower(v.schema_name) = lower($1) AND starts_with(lower(view_name), lower($2) || $3)"
        # The view orders__old__items is of the table orders__old, not of orders.
        " AND NOT EXISTS (SELECT 1 FROM duckdb_tables() AS t WHERE t.database_name = current_database()"
        " AND lower(t.schema_name) = lower($1) AND starts_with(lower(table_name), lower($2) || $3)"
        " AND starts_with(lower(view_name), lower(table_name) || $3)) ORDER BY view_name",
        [*place, _BETWEEN],
    ).fetchall()
    return [Place(*row) for row in found]
