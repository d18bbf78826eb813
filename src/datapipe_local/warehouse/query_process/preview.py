"""First rows of a query over a snapshot. Runs in a query process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from datapipe_local.warehouse.json_values import json_value
from datapipe_local.warehouse.query_process.database import open_database
from datapipe_local.warehouse.warehouse import NESTED, as_json_can, literal, number, quoted, with_nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

_ROWS_AT_A_TIME = 10


def sample(
    *, memory: int, snapshot: dict[str, Any], query: str, most_rows: int, most_characters: int, with_total: bool
) -> dict[str, Any]:
    """
    Return the first rows of a query.

    :param memory: The memory limit of this process, in bytes.
    :param snapshot: The fields of :class:`datapipe_local.warehouse.query_process.snapshot.Snapshot`.
    :param query: The query.
    :param most_rows: Return at most this number of rows.
    :param most_characters: Return only as many rows as have this number of characters in JSON.
    :param with_total: Count all rows.
    """
    with open_database(snapshot["file"], memory, snapshot["temporary"]) as connection:
        connection.execute("SET enable_external_access = false")
        connection.execute(f"SET TimeZone = {literal(snapshot['time_zone'])}")
        for view in snapshot["views"]:
            connection.execute(view)
        connection.execute("SET lock_configuration = true")
        connection.execute("BEGIN TRANSACTION READ ONLY")
        rows, is_complete = _rows(connection, query, most_rows, most_characters)
        total = None
        if with_total:
            total = len(rows) if is_complete else snapshot["total"]
        if with_total and total is None:
            # The line break ends a comment at the end of the query.
            total = number(connection.execute(f"SELECT count(*) FROM ({query}\n)"))  # noqa: S608 - a checked query
        return {"rows": rows[:most_rows], "total": total, "is_complete": is_complete}


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, most_rows: int, most_characters: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return the first rows, and True if there are no others."""
    rows: list[dict[str, Any]] = []
    characters = 0
    for row in _values(connection, query, most_rows + 1):
        if len(rows) == most_rows:
            return rows, False
        characters += len(json.dumps(row))
        if characters > most_characters:
            return rows, False
        rows.append(row)
    return rows, True


def _values(connection: duckdb.DuckDBPyConnection, query: str, most: int) -> Iterator[dict[str, Any]]:
    described = connection.execute(f"DESCRIBE {query}").fetchall()
    columns = _distinct([name for name, *_ in described])
    kinds = [kind for _, kind, *_ in described]
    # Names by position: a query can use a name twice.
    names = [f"c{position}" for position in range(len(kinds))]
    shown = [as_json_can(name, kind) for name, kind in zip(names, kinds, strict=True)]
    nested = [position for position, kind in enumerate(kinds) if NESTED.match(kind)]
    connection.execute(
        f"SELECT {', '.join(shown)} FROM ({query}\n) AS sample ({', '.join(map(quoted, names))}) LIMIT {most}"  # noqa: S608 - generated names
    )
    while batch := connection.fetchmany(_ROWS_AT_A_TIME):
        for row in batch:
            values = with_nested(row, nested) if nested else row
            yield {name: json_value(value) for name, value in zip(columns, values, strict=True)}


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names with numbers appended to repeated ones, so that each can be a field of an object."""
    taken = set(names)
    distinct: list[str] = []
    seen: set[str] = set()
    for name in names:
        fresh, suffix = name, 0
        while fresh in seen or (suffix and fresh in taken):
            suffix += 1
            fresh = f"{name}_{suffix}"
        seen.add(fresh)
        distinct.append(fresh)
    return distinct
