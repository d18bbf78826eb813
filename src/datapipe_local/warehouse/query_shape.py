"""Tables, columns and rows that a query can refer to, from its syntax tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.warehouse.query_rules import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEFAULT_SCHEMA = "main"
#: Parts of a SELECT that do not change its rows, apart from modifiers. Unknown parts of a new DuckDB version count as
#: changes.
_PLAIN_PARTS = ("type", "select_list", "from_table", "modifiers", "aggregate_handling")
#: Limit type for a number of rows in DuckDB 2; DuckDB 1 has another modifier for percentages.
_LIMIT_TYPES = (None, "ROW_COUNT")
#: More digits are not a number of rows.
_MOST_DIGITS = 18


class Window(NamedTuple):
    """Rows of a table that a query shows: those after an offset, optionally limited in number."""

    offset: int
    limit: int | None


def tables(tree: Any) -> list[tuple[str, str]]:
    """Return the schemas and names of the tables that a query names, including those defined by ``WITH``."""
    return [
        (node.get("schema_name") or _DEFAULT_SCHEMA, node.get("table_name") or "")
        for node in nodes(tree)
        if node.get("type") == "BASE_TABLE"
    ]


def columns(trees: Iterable[Any]) -> frozenset[str] | None:
    """
    Return the lowercase names that can be column names; None if the queries can refer to every column.

    :param trees: The syntax trees of a query and of the views that it names.
    """
    named: set[str] = set()
    last: set[str] = set()
    relations: set[str] = set()
    for tree in trees:
        for node in nodes(tree):
            kind = node.get("type")
            if kind in ("STAR", "PIVOT", "SHOW_REF") or node.get("ref_type") == "NATURAL":
                return None
            if node.get("column_name_alias") and kind == "BASE_TABLE":
                # The aliases rename columns by position.
                return None
            relations.update(str(node[key]).lower() for key in ("alias", "table_name") if node.get(key))
            named.update(name.lower() for name in node.get("using_columns") or ())
            if kind == "COLUMN_REF":
                parts = [name.lower() for name in node.get("column_names") or ()]
                named.update(parts)
                last.update(parts[-1:])
    # A table name means the row, unless a column has this name.
    return None if last & relations else frozenset(named)


def window(tree: Any) -> Window | None:
    """
    Return the rows that a query shows, if it shows unchanged rows of one table; otherwise None.

    :param tree: The syntax tree of the query.
    """
    statements = tree.get("statements") or [{}]
    node = statements[0].get("node") or {}
    source = node.get("from_table") or {}
    is_plain = (
        node.get("type") == "SELECT_NODE"
        and source.get("type") == "BASE_TABLE"
        and not source.get("sample")
        and not source.get("at_clause")
        and not any(_is_given(value) for part, value in node.items() if part not in _PLAIN_PARTS)
        and node.get("aggregate_handling") in (None, "STANDARD_HANDLING")
        and all(_is_plain(shown) for shown in node.get("select_list") or [{}])
    )
    return _limited(node.get("modifiers") or []) if is_plain else None


def _limited(modifiers: Any) -> Window | None:
    """Return the rows that ``LIMIT`` and ``OFFSET`` select; None for other modifiers or non-constant numbers."""
    if not modifiers:
        return Window(0, None)
    first = modifiers[0]
    offset, limit = _constant(first.get("offset")), _constant(first.get("limit"))
    is_limit = first.get("type") == "LIMIT_MODIFIER" and first.get("limit_type") in _LIMIT_TYPES
    if len(modifiers) > 1 or not is_limit or offset is None or limit is None:
        return None
    return Window(offset, limit if first.get("limit") else None)


def _is_given(clause: Any) -> bool:
    # The map of an empty WITH has a key.
    return any(map(_is_given, clause.values())) if isinstance(clause, dict) else bool(clause)


def _is_plain(shown: Any) -> bool:
    if shown.get("type") == "COLUMN_REF":
        return True
    return shown.get("type") == "STAR" and not any(
        _is_given(shown.get(part)) for part in ("columns", "expr", "replace_list", "rename_list")
    )


def _constant(expression: Any) -> int | None:
    """Return the value of a number; 0 without an expression, None for anything else."""
    if not expression:
        return 0
    # The keys of DuckDB 2 and of DuckDB 1.
    value = (expression.get("literal") or {}).get("text") or (expression.get("value") or {}).get("value")
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None
