"""
Detection of tables that SQL names directly although references to them exist. Such reads are not dependencies.

The position of a name in SQL determines whether it is a table, so this needs a parser: the extra ``sql``.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_datapipe.api.models.formats.sql_references import replace_tags

#: Placeholder for references while SQL is parsed.
_PLACEHOLDER = "datapipe_reference"
#: Number of parts of a table name: schema and name.
_PARTS = 2


def named_directly(sql: str, places: Mapping[str, str]) -> list[str]:
    """
    Return the references that a query should contain instead of table names.

    :param sql: the query.
    :param places: references by table name in the warehouse, such as ``marts.orders``.
    :return: the references, sorted; empty if the parser is not installed, or cannot parse this SQL.
    """
    try:
        from sqlglot import exp, parse
        from sqlglot.errors import SqlglotError
    except ImportError:
        return []
    by_place = {place.casefold(): tag for place, tag in places.items()}
    try:
        statements = parse(replace_tags(sql, lambda _: _PLACEHOLDER), read="duckdb")
    except (SqlglotError, RecursionError):
        # The service reports the errors in the SQL.
        return []
    found = set()
    for statement in statements:
        for table in statement.find_all(exp.Table) if statement is not None else ():
            parts = [part.name for part in table.parts][-_PARTS:]
            tag = by_place.get(".".join(parts).casefold())
            if tag is not None and len(parts) == _PARTS:
                found.add(tag)
    return sorted(found)
