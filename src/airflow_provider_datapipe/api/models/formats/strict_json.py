"""Strict JSON parser, which refuses JSON that readers could understand in different ways."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

#: Maximum nesting depth of arrays and objects. Later readers of the JSON have limits of their own.
DEEPEST = 100

#: A string in JSON.
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET = re.compile(r"[\[\]{}]")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class StrictJsonError(ValueError):
    """The JSON is refused. The message quotes nothing of it."""


class JsonSyntaxError(StrictJsonError):
    """The text is not JSON."""


class DuplicateKeyError(StrictJsonError):
    """
    A key occurs twice in an object.

    :param key: the key.
    """

    def __init__(self, key: str) -> None:
        super().__init__("duplicate key in an object")
        self.key = key


def parse(text: str | bytes, *, number: Callable[[str], Any] = float, surrogates: bool = False) -> Any:
    """
    Parse JSON strictly.

    Refused are ``NaN`` and ``Infinity``, numbers beyond the range of a double, duplicate keys, unpaired surrogates, a
    byte order mark, and nesting deeper than :data:`DEEPEST`.

    :param text: JSON; bytes must be UTF-8.
    :param number: function that converts a number with a fraction or an exponent, default ``float``.
    :param surrogates: if True, unpaired surrogates are accepted, for callers that check each text themselves.
    :raises StrictJsonError: if the JSON is refused.
    """
    try:
        given = text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError:
        raise StrictJsonError("it is not UTF-8") from None
    if given.startswith("\ufeff"):
        raise StrictJsonError("it begins with a byte order mark")
    if _depth(given) > DEEPEST:
        raise StrictJsonError(f"nested more than {DEEPEST} levels deep")
    try:
        value = json.loads(
            given,
            object_pairs_hook=_members,
            parse_constant=_constant,
            parse_float=lambda digits: number(_finite(digits)),
            # Checked first, because int() raises an error for too many digits.
            parse_int=lambda digits: int(_finite(digits)),
        )
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(f"{error.msg.lower()} at character {error.pos}") from None
    if not surrogates and _HALF.search(given) and not _is_text(value):
        raise StrictJsonError("a text contains an unpaired surrogate")
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKeyError(key)
            seen.add(key)
    return made


def _constant(_: str) -> None:
    raise StrictJsonError("NaN and infinities are not valid in JSON")


def _finite(digits: str) -> str:
    if math.isinf(float(digits)):
        raise StrictJsonError("a number is too large for a double")
    return digits


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= DEEPEST:
        return 0
    deepest = depth = 0
    for bracket in _BRACKET.findall(STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True
