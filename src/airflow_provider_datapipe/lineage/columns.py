"""
Column lineage of SQL queries.

This module requires the extra ``sql``, which installs an SQL parser. Unknown origins are omitted, never guessed.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from airflow_provider_datapipe.api.models.formats.sql_references import replace_tags

#: Origins of each column of a query: table and column.
Columns: TypeAlias = dict[str, list[tuple[str, str]]]

_STAR = "*"
#: Limits for the length of the SQL and the number of columns. Parsing longer queries takes too much time.
_LONGEST = 50_000
_MOST_COLUMNS = 300
#: Time limit for column lineage, in seconds. Some queries, such as those with hundreds of unions, take much longer.
_TIME_LIMIT = 1.0
#: Prefix of the schema name that replaces a reference while SQL is parsed.
_SCHEMA = "datapipe_reference_"
#: Suffix that a service adds to duplicate column names, and the suffixes of the first duplicate.
_NUMBER = re.compile(r"[_:]\d+$")
_FIRST_NUMBERS = ("_1", ":1")


def columns_of(sql: str, places: Mapping[str, str], columns: Sequence[str]) -> Columns:
    """
    Return the origins of the columns of a query.

    :param sql: one SELECT statement, with the service's references in double braces.
    :param places: tables by reference tag.
    :param columns: column names of the query, as the service reports them.
    :returns: the columns with known origins, in the given order; empty without the parser.
    """
    if len(sql) > _LONGEST or not 0 < len(columns) <= _MOST_COLUMNS:
        return {}
    try:
        from sqlglot import parse_one
        from sqlglot.errors import SqlglotError
        from sqlglot.lineage import lineage
    except ImportError:
        return {}
    tables = _Tables(places)
    try:
        query = parse_one(replace_tags(sql, tables.names.get), read="duckdb")
        if _cannot_be_traced(query):
            return {}
        with _quiet():
            # Do not trim the SELECT of each node to its column: every node would be a copy of the statement.
            found: Any = lineage(None, query, {}, dialect="duckdb", trim_selects=False, on_node=_limit())
        known = {name: _origins(node, tables) for name, node in found.items() if name != _STAR}
    except (SqlglotError, RecursionError, TimeoutError, ValueError, TypeError, LookupError, AttributeError):
        # Other SQL dialect, unsupported syntax, or time limit exceeded.
        return {}
    hidden = _hidden_by_a_star(query, columns)
    # A column with a hidden name comes from the star, and the service changes the name of the expression.
    known = {name: [] if name.lower() in hidden else origins for name, origins in known.items()}
    star = _table_of_star(query, tables)
    found_columns: Columns = {}
    for column in columns:
        origins = known.get(column, known.get(column.lower()))
        if origins is None and star is not None and _NUMBER.sub("", column).lower() not in known:
            # A column that is not named explicitly comes from the star.
            origins = [(star, column)]
        if origins:
            found_columns[column] = origins
    return found_columns


class _Tables:
    """
    Table names for the parser. They keep the table's own name, because columns may be qualified with it.

    :param places: tables by reference tag.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places: dict[str, str] = {}
        self._direct = {place.casefold(): place for place in places.values()}
        self.names: dict[str, str] = {}
        for number, (tag, place) in enumerate(places.items()):
            schema, name = f"{_SCHEMA}{number}", place.rpartition(".")[2].replace('"', '""')
            self._places[schema] = place
            self.names[tag] = f'{schema}."{name}"'

    def place(self, table: Any) -> str | None:
        """Return the service's table for a table of the parser; None for other sources, such as a CTE."""
        from sqlglot import exp

        # Column aliases of a table alias differ from the table's column names.
        if not isinstance(table, exp.Table) or table.alias_column_names:
            return None
        return self._places.get(table.db) or self._direct.get(f"{table.db}.{table.name}".casefold())


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable the parser's log, which has a warning for each unknown column."""
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _limit() -> Callable[[Any], None]:
    """Return a callback for the parser's steps that raises TimeoutError after the time limit."""
    deadline = time.monotonic() + _TIME_LIMIT

    def check(_: Any) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError("the time limit for column lineage was reached")

    return check


def _cannot_be_traced(query: Any) -> bool:
    """Return True for PIVOT and set operations BY NAME, which the parser does not trace."""
    from sqlglot import exp

    return query.find(exp.Pivot) is not None or any(
        each.args.get("by_name") for each in query.find_all(exp.SetOperation)
    )


def _origins(node: Any, tables: _Tables) -> list[tuple[str, str]]:
    """Return the distinct table columns that a column is derived from."""
    from sqlglot import exp

    found = []
    for each in node.walk():
        if each.downstream or each.name.startswith(_STAR):
            continue
        place = tables.place(each.expression)
        if place is not None:
            found.append((place, exp.to_column(each.name).name))
    return sorted(set(found))


def _hidden_by_a_star(query: Any, columns: Sequence[str]) -> set[str]:
    """
    Return the names of expressions, in lower case, for which a star before them may have a column of the same name.

    :param query: the query.
    :param columns: column names of the query, as the service reports them.
    """
    selects: list[Any] = getattr(query, "selects", [])
    after = next((number for number, each in enumerate(selects) if each.is_star), len(selects))
    names = {each.alias_or_name.lower() for each in selects[after:]}
    others = {column.lower() for column in columns} - names
    return {name for name in names if any(f"{name}{number}" in others for number in _FIRST_NUMBERS)}


def _table_of_star(query: Any, tables: _Tables) -> str | None:
    """Return the table of a query's only star, if the star passes its columns through unchanged."""
    from sqlglot import exp

    stars = [each for each in query.selects if each.is_star] if isinstance(query, exp.Select) else []
    if len(stars) != 1:
        return None
    if not all(isinstance(each, exp.Column | exp.Star | exp.Alias) for each in query.selects):
        # The service generates names for unnamed expressions, which would be mistaken for columns of the table.
        return None
    (star,) = stars
    inner = star.this if isinstance(star, exp.Column) else star
    if not isinstance(inner, exp.Star) or any(inner.args.get(word) for word in ("replace", "rename")):
        return None
    sources = [
        each.this for each in (query.args.get("from_") or query.args.get("from"), *query.args.get("joins", ())) if each
    ]
    if isinstance(star, exp.Column):
        sources = [each for each in sources if each.alias_or_name.casefold() == star.table.casefold()]
    return tables.place(sources[0]) if len(sources) == 1 else None
