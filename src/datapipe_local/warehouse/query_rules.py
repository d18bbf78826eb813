"""
Rules for users' queries: they may only read the warehouse.

DuckDB's SELECT can do more. It reads files through functions and through table names that look like files, and within
WITH it writes tables and files. Therefore the service checks the syntax tree from DuckDB's own parser before it runs a
query.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from datapipe_local.warehouse.query_functions import ALLOWED_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: Query nodes that only read.
_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
#: Sources allowed after FROM, besides functions and tables.
_SOURCES = frozenset({"JOIN", "SUBQUERY", "EMPTY", "EXPRESSION_LIST", "PIVOT", "COLUMN_DATA"})
#: Functions allowed after FROM: they read only their arguments.
_FUNCTIONS = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "test_all_types"}
)
_CALLABLE = ALLOWED_FUNCTIONS | _FUNCTIONS
#: Largest number of parts of a column name: DuckDB's time grows with their square.
_MOST_WORDS = 50
_NOT_IN_A_TABLE = frozenset(".:/\\*?[]")
#: Largest sum of the depths of all brackets. DuckDB's parser takes less than a second for it.
_MOST_NESTING = 200_000


class NamedTable(NamedTuple):
    """Table that a query names with its schema."""

    schema: str
    name: str


class Reading(NamedTuple):
    """
    Result of the check of a query.

    :param obstacle: The reason to refuse the query; None if it is allowed.
    :param tables: The tables that it names with their schemas. If such a table does not exist, DuckDB looks for a file,
        such as ``people.csv``.
    """

    obstacle: str | None
    tables: frozenset[NamedTable] = frozenset()


def is_too_nested(query: str) -> bool:
    """
    Return True if a query is nested too deeply to be parsed.

    DuckDB's parser takes time and memory for every bracket in proportion to its depth: a few thousand open brackets
    take gigabytes. Meanwhile it blocks all threads of this process, and cannot be interrupted.

    :param query: Any text. The parser reports invalid SQL.
    """
    written, depth, nesting = query.encode(), 0, 0
    # Strings and comments are one token each. Token positions are byte offsets.
    for start, _ in duckdb.tokenize(query):
        mark = written[start : start + 1]
        if mark in (b"(", b"[", b"{"):
            depth += 1
            nesting += depth
        elif mark in (b")", b"]", b"}"):
            # A surplus closing bracket closes nothing.
            depth = max(0, depth - 1)
    return nesting > _MOST_NESTING


@cache
def system_views() -> frozenset[str]:
    """Return the names of DuckDB's own views that a query can name without a schema, such as ``sqlite_master``."""
    # They are the same in each database.
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT lower(view_name) FROM duckdb_views() WHERE internal AND schema_name <> 'information_schema'"
        ).fetchall()
    return frozenset(name for (name,) in found)


def syntax_tree(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    """Return the syntax tree of a query from DuckDB's parser. Its ``error`` is true if the query cannot be parsed."""
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
    return json.loads(row[0]) if row else {}


def reading(tree: Any, system_views: Collection[str]) -> Reading:
    """
    Return the tables that a query reads, or the reason to refuse it.

    :param tree: The result of :func:`syntax_tree`.
    :param system_views: The names that :func:`system_views` returns.
    """
    tables = set()
    for node in nodes(tree):
        obstacle = _obstacle_of_call(node) or _obstacle_of_kind(node, system_views)
        if obstacle is not None:
            return Reading(obstacle)
        schema = _text(node.get("schema_name"))
        if node.get("type") == "BASE_TABLE" and schema:
            tables.add(NamedTable(schema, _text(node.get("table_name"))))
    return Reading(None, frozenset(tables))


def _obstacle_of_call(node: dict[str, Any]) -> str | None:
    """Return the reason to refuse a function call; None if the function is allowed, or the node is not a call."""
    name = _text(node.get("function_name"))
    if name and name.lower() not in _CALLABLE:
        return f"The SQL cannot call the function {name[:100]}: it is unknown, or not allowed in queries"
    if node.get("type") == "TABLE_FUNCTION":
        name = _text((node.get("function") or {}).get("function_name"))
        if name.lower() not in _FUNCTIONS:
            return f"The SQL must only read the warehouse: {name[:100]} is not allowed after FROM here"
    return None


def _obstacle_of_kind(node: dict[str, Any], system_views: Collection[str]) -> str | None:
    """Return the reason to refuse a part of a query; None if it is allowed."""
    kind = _text(node.get("type"))
    obstacle = None
    if kind.endswith("_NODE"):
        if kind not in _NODES:
            obstacle = f"The SQL must only read, and not {kind.partition('_')[0]}"
    elif kind == "COLUMN_REF":
        if len(node.get("column_names") or ()) > _MOST_WORDS:
            obstacle = f"The SQL must name no column by more than {_MOST_WORDS} words"
    elif kind == "BASE_TABLE":
        schema, name = _text(node.get("schema_name")), _text(node.get("table_name"))
        if name.lower() in system_views and schema.lower() in ("", "main"):
            obstacle = f"The SQL must only read the warehouse: {name[:100]} is a view of DuckDB itself"
        elif node.get("catalog_name") or _NOT_IN_A_TABLE.intersection(schema + name):
            obstacle = f"The SQL must only read the warehouse, which has no table {name[:100]!r}"
    elif kind == "SHOW_REF" or (kind and kind != "TABLE_FUNCTION" and "sample" in node and kind not in _SOURCES):
        obstacle = "The SQL must be a single SELECT of tables"
    return obstacle


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a syntax tree."""
    ahead = [tree]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            yield value
            ahead += value.values()
        elif isinstance(value, list):
            ahead += value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
