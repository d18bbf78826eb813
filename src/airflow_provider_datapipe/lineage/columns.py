"""
Which columns of a query are made from which columns of tables.

A parser reads the SQL: the extra ``sql``. What it can't tell is left out; nothing is guessed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from airflow_provider_datapipe.changes.transform_folder import with_names

#: For each column of a query, where it comes from: place and column.
Columns: TypeAlias = dict[str, list[tuple[str, str]]]

_STAR = "*"
#: SQL beyond this many characters, or of more columns, would take the parser longer than it is worth.
_LONGEST = 50_000
_MOST_COLUMNS = 300
#: What stands for the schema of a reference while SQL is parsed, before a number.
_SCHEMA = "datapipe_reference_"


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
        with _quiet():
            found: Any = lineage(None, query, {}, dialect="duckdb")
    except (SqlglotError, RecursionError, ValueError, KeyError, AttributeError, IndexError):
        # SQL of another dialect, or what the parser does not know.
        return {}
    known = {name: _origins(node, tables) for name, node in found.items() if name != _STAR}
    star = _behind_the_star(query, tables)
    told: Columns = {}
    for column in columns:
        origins = known.get(column, known.get(column.lower()))
        if origins is None and star is not None:
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

        if not isinstance(table, exp.Table):
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


def _origins(node: Any, tables: _Tables) -> list[tuple[str, str]]:
    """Give the columns of tables that a column is made from, each once."""
    found = []
    for each in node.walk():
        if each.downstream:
            continue
        place, column = tables.place(each.expression), each.name.rpartition(".")[2].strip('"')
        if place is not None and column != _STAR:
            found.append((place, column))
    return sorted(set(found))


def _behind_the_star(query: Any, tables: _Tables) -> str | None:
    """Give the place of the table behind the only star of a query, if its columns go through as they are."""
    from sqlglot import exp

    stars = [each for each in query.selects if each.is_star] if isinstance(query, exp.Select) else []
    if len(stars) != 1:
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
