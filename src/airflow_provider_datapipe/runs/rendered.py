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
