"""SQL of the data checks that run before a transform is published."""

from __future__ import annotations

import re

from airflow_provider_datapipe.pipelines.transforms.front_matter import Check
from airflow_provider_datapipe.resources.transform_folder import THIS, DataCheck

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FROM = f"FROM {{{{{THIS}}}}} AS checked"
#: Maximum length of a name that is taken from SQL.
_LONGEST_NAME = 80


def data_checks(check: Check) -> list[DataCheck]:
    """Return the queries of a check. Each returns one row of values that must be true."""
    if check.sql is not None:
        name = " ".join(check.sql.split())
        return [DataCheck(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…", check.sql)]
    if check.not_null is not None:
        return [
            DataCheck(f"not_null: {column}", f"SELECT count(*) = 0 AS ok {_FROM} WHERE {_quoted(column)} IS NULL")
            for column in check.not_null
        ]
    if check.unique is not None:
        columns = ", ".join(map(_quoted, check.unique))
        # As in databases, nulls are not equal.
        known = " AND ".join(f"{_quoted(column)} IS NOT NULL" for column in check.unique)
        twice = f"SELECT {columns} {_FROM} WHERE {known} GROUP BY {columns} HAVING count(*) > 1"
        name = ", ".join(check.unique)
        # Names are quoted, and their author also writes the SQL.
        return [DataCheck(f"unique: {name}", f"SELECT count(*) = 0 AS ok FROM ({twice}) AS twice")]  # noqa: S608 - see above
    if check.accepted_values is not None:
        column, values = check.accepted_values.column, check.accepted_values.values
        listed = ", ".join(map(_literal, values))
        sql = f"SELECT count(*) = 0 AS ok {_FROM} WHERE {_quoted(column)} NOT IN ({listed})"
        return [DataCheck(f"accepted_values: {column}", sql)]
    raise AssertionError("a check has one of these")


def _quoted(name: str) -> str:
    # Databases quote names in different ways, so quote only if necessary.
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _literal(value: str | float) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
