"""
Tables that SQL names itself, although references stand for them: nothing waits for what is read so.

Which names are tables depends on where they stand, so a parser reads the SQL: the extra ``sql``.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_datapipe.changes.transform_folder import without_references

#: What stands for a reference while SQL is parsed.
_PLACEHOLDER = "datapipe_reference"
#: A schema and a name.
_PARTS = 2


def named_directly(sql: str, places: Mapping[str, str]) -> list[str]:
    """
    Tell which references a query should have instead of names of tables.

    :param sql: the query.
    :param places: references by where they lead to in the warehouse, such as ``marts.orders``.
    :return: the references, sorted; none if the parser is not installed, or does not know this SQL.
    """
    try:
        from sqlglot import exp, parse
        from sqlglot.errors import SqlglotError
    except ImportError:
        return []
    by_place = {place.casefold(): tag for place, tag in places.items()}
    try:
        statements = parse(without_references(sql, _PLACEHOLDER), read="duckdb")
    except (SqlglotError, RecursionError):
        # The service says what is wrong with it.
        return []
    found = set()
    for statement in statements:
        for table in statement.find_all(exp.Table) if statement is not None else ():
            parts = [part.name for part in table.parts][-_PARTS:]
            tag = by_place.get(".".join(parts).casefold())
            if tag is not None and len(parts) == _PARTS:
                found.add(tag)
    return sorted(found)
