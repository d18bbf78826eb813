"""
Which columns of a query are made from which columns of tables.

A parser reads the SQL: the extra ``sql``. What it can't tell is left out; nothing is guessed.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from airflow_provider_datapipe.changes.transform_folder import with_names

#: For each column of a query, where it comes from: place and column.
Columns: TypeAlias = dict[str, list[tuple[str, str]]]

_STAR = "*"
#: SQL beyond this many characters, or of more columns, would take the parser longer than it is worth.
_LONGEST = 50_000
_MOST_COLUMNS = 300
#: Seconds in which columns may be followed: a few shapes of SQL take much longer, such as hundreds of unions.
_PATIENCE = 1.0
#: What stands for the schema of a reference while SQL is parsed, before a number.
_SCHEMA = "datapipe_reference_"
#: What a service puts behind a name that is there already.
_NUMBER = re.compile(r"[_:]\d+$")


def columns_of(sql: str, places: Mapping[str, str], columns: Sequence[str]) -> Columns:
    """
    Tell what the columns of a query are made from.

    :param sql: one SELECT, with the service's references in double braces.
    :param places: where the references lead to, by their tags.
    :param columns: the columns that it has, as the service says.
    :returns: the columns that something is known of, in that order; none without the parser.
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
        query = parse_one(with_names(sql, tables.names), read="duckdb")
        if _is_by_other_names(query):
            return {}
        with _quiet():
            # A node with the whole SELECT is enough; trimmed to a column, each would be a copy of it.
            found: Any = lineage(None, query, {}, dialect="duckdb", trim_selects=False, on_node=_limit())
        known = {name: _origins(node, tables) for name, node in found.items() if name != _STAR}
    except (SqlglotError, RecursionError, TimeoutError, ValueError, TypeError, LookupError, AttributeError):
        # SQL of another dialect, or what the parser does not know, or takes long for.
        return {}
    star = _behind_the_star(query, tables)
    told: Columns = {}
    for column in columns:
        origins = known.get(column, known.get(column.lower()))
        if origins is None and star is not None and _NUMBER.sub("", column).lower() not in known:
            # What is not named comes through the star.
            origins = [(star, column)]
        if origins:
            told[column] = origins
    return told


class _Tables:
    """
    What tables are called while SQL is parsed: the name itself stays, as columns may be named with it.

    :param places: where references lead to, by their tags.
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
        """Give the place of a table of the parser; None for what is none, such as a query with a name."""
        from sqlglot import exp

        # The names that an alias gives columns are not those of the table.
        if not isinstance(table, exp.Table) or table.alias_column_names:
            return None
        return self._places.get(table.db) or self._direct.get(f"{table.db}.{table.name}".casefold())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the parser from warning of every column that it can't find."""
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _limit() -> Callable[[Any], None]:
    """Give what ends the parser's work when it takes too long: it is told of each step."""
    ends = time.monotonic() + _PATIENCE

    def check(_: Any) -> None:
        if time.monotonic() > ends:
            raise TimeoutError("columns are not followed further")

    return check


def _is_by_other_names(query: Any) -> bool:
    """Tell whether columns go by names, or meet in an order, that the parser does not follow."""
    from sqlglot import exp

    return query.find(exp.Pivot) is not None or any(
        each.args.get("by_name") for each in query.find_all(exp.SetOperation)
    )


def _origins(node: Any, tables: _Tables) -> list[tuple[str, str]]:
    """Give the columns of tables that a column is made from, each once."""
    from sqlglot import exp

    found = []
    for each in node.walk():
        if each.downstream or each.name.startswith(_STAR):
            continue
        place = tables.place(each.expression)
        if place is not None:
            found.append((place, exp.to_column(each.name).name))
    return sorted(set(found))


def _behind_the_star(query: Any, tables: _Tables) -> str | None:
    """Give the place of the table behind the only star of a query, if its columns go through as they are."""
    from sqlglot import exp

    stars = [each for each in query.selects if each.is_star] if isinstance(query, exp.Select) else []
    if len(stars) != 1:
        return None
    if not all(isinstance(each, exp.Column | exp.Star | exp.Alias) for each in query.selects):
        # The service makes up a name for it, which would pass for one of the table's.
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
