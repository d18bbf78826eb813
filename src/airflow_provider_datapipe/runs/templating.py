"""Conversion of rendered templates, which are text, to typed values."""

from __future__ import annotations

import ast
import json
from typing import Any


def read(value: Any) -> Any:
    """Parse text that is JSON or a Python literal. Return all other values unchanged."""
    if not isinstance(value, str):
        return value
    for reading in (json.loads, ast.literal_eval):
        try:
            return reading(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return value


def text(field: str, value: Any) -> str | None:
    """
    Return a rendered text. A DAG that renders native objects turns text of digits into a number; it becomes text again.

    :param field: name of the field, for the message.
    :param value: the rendered value; None if there is none.
    :raises ValueError: if the value has another type, from which the text cannot be restored.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(
        f"{field} must be a text, not {type(value).__name__}; in a DAG that renders native objects, put quotes within "
        "the quotes"
    )
