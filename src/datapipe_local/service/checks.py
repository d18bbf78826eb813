"""Checks that several resources share."""

from __future__ import annotations

import re

from datapipe_local.errors import BadRequestError

_ID = re.compile(r"[A-Za-z0-9._~-]{1,100}")
_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,62}")
_SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog"})


def check_id(field: str, value: str) -> str:
    """
    See to it that an id can stand in a path.

    :raises BadRequestError: it cannot.
    """
    if not _ID.fullmatch(value) or value in {".", ".."}:
        raise BadRequestError(f"{field}: {value[:100]!r} is no id: use letters, digits and ._~- (100 at the most).")
    return value


def check_name(field: str, value: str) -> str:
    """
    See to it that a name can stand in a reference and in SQL.

    :raises BadRequestError: it cannot.
    """
    if not _NAME.fullmatch(value) or value.lower() in _SYSTEM_SCHEMAS:
        raise BadRequestError(
            f"{field}: {value[:100]!r} is no name: use letters, digits and single underscores, first a letter."
        )
    return value


def check_cron(field: str, expression: str) -> str:
    """
    See to it that a cron expression is one.

    :raises BadRequestError: it is not.
    """
    from croniter import croniter

    # Five fields: a sixth would be seconds, which the service's schedules do not know.
    if len(expression.split()) != 5 or not croniter.is_valid(expression):  # noqa: PLR2004 - cron's own number
        raise BadRequestError(
            f"{field}: {expression[:100]!r} is no cron expression: give five fields, such as '0 3 * * *'.",
            error_code="invalid_cron_expression",
        )
    return expression
