"""What templates render to is text; here it becomes what was meant."""

from __future__ import annotations

import ast
import json
from typing import Any


def read(value: Any) -> Any:
    """Read JSON, or what Python prints; text that is neither, and what is no text, stay as they are."""
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
    Give a text as it was meant: a DAG that renders native objects makes a number of one with digits alone.

    :param field: what it is, for the message.
    :param value: what was rendered; None is nothing.
    :raises ValueError: it has become something that no longer tells what it was.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(
        f"{field} must be a text, not {type(value).__name__}; in a DAG that renders native objects, put quotes within "
        "the quotes"
    )
