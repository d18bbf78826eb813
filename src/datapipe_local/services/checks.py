"""Validation of values that several resources share."""

from __future__ import annotations

import math
import re
from typing import Any, TypeVar

from datapipe_local.common.errors import BadRequestError
from datapipe_local.common.names import FILE_ENDINGS

T = TypeVar("T")

_ID = re.compile(r"[A-Za-z0-9._~-]{1,100}")
#: Form of names.
NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,62}")
_DEEPEST = 50
_SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog"})
# Names of the DuckDB databases that are attached here.
_DATABASES = frozenset({"system", "temp", "warehouse"})


def check_id(field: str, value: str) -> str:
    """
    Validate that an ID can be used in a URL path.

    :raises BadRequestError: if the ID is invalid.
    """
    if not _ID.fullmatch(value) or value in {".", ".."}:
        raise BadRequestError(
            f"{field}: {value[:100]!r} is not a valid ID: use letters, digits and ._~-, at most 100 characters."
        )
    return value


def check_name(field: str, value: str) -> str:
    """
    Validate that a name can be used in references and in SQL.

    :raises BadRequestError: if the name is invalid.
    """
    if not NAME.fullmatch(value) or value.lower() in _SYSTEM_SCHEMAS:
        raise BadRequestError(
            f"{field}: {value[:100]!r} is not a valid name: use letters, digits and underscores, starting with a"
            " letter or one underscore."
        )
    if value.lower() in FILE_ENDINGS:
        raise BadRequestError(
            f"{field}: {value!r} is a file extension, so DuckDB would read a file: choose another name."
        )
    return value


def check_schema_name(field: str, value: str) -> str:
    """
    Validate a schema name.

    :raises BadRequestError: if the name is invalid, or DuckDB would read it as a database name.
    """
    if check_name(field, value).lower() in _DATABASES:
        raise BadRequestError(f"{field}: {value!r} is the name of a DuckDB database: choose another name.")
    return value


def check_json(field: str, value: T) -> T:
    """
    Validate that a free-form JSON value can be stored and returned.

    :raises BadRequestError: if the value is nested too deeply, or contains NUL, a lone surrogate or a NaN or infinity.
    """
    ahead: list[tuple[Any, int]] = [(value, 0)]
    while ahead:
        node, depth = ahead.pop()
        if depth > _DEEPEST:
            raise BadRequestError(f"{field}: it is nested more than {_DEEPEST} levels deep: make it flatter.")
        if isinstance(node, dict):
            ahead += [(entry, depth + 1) for pair in node.items() for entry in pair]
        elif isinstance(node, list):
            ahead += [(entry, depth + 1) for entry in node]
        elif isinstance(node, str):
            check_text(field, node)
        elif isinstance(node, float) and not math.isfinite(node):
            raise BadRequestError(f"{field}: it contains a number that is not valid in JSON, or too large.")
    return value


def check_text(field: str, text: str) -> str:
    """
    Validate that a text can be stored and returned.

    :raises BadRequestError: if the text contains a lone surrogate or NUL.
    """
    if "\0" in text or has_lone_surrogate(text):
        raise BadRequestError(f"{field}: it contains NUL or half a character (a lone surrogate): remove it.")
    return text


def has_lone_surrogate(text: str) -> bool:
    """Return True if a text contains half a character, which UTF-8 cannot encode."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def check_cron(field: str, expression: str) -> str:
    """
    Validate a cron expression.

    :raises BadRequestError: if the expression is invalid.
    """
    from croniter import croniter

    # Five fields: croniter also accepts a sixth one for seconds, which the service does not support.
    if len(expression.split()) != 5 or not croniter.is_valid(expression):  # noqa: PLR2004 - number of fields in cron
        raise BadRequestError(
            f"{field}: {expression[:100]!r} is not a cron expression: give five fields, such as '0 3 * * *'.",
            error_code="invalid_cron_expression",
        )
    return expression
