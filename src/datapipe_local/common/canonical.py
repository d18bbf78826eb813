"""Strict JSON parser, and the test for canonical JSON: sorted keys and no insignificant white space."""

from __future__ import annotations

import json
import math
import re
from typing import Any

#: Largest nesting depth of arrays and objects. Later readers of the JSON have limits of their own.
DEEPEST = 100

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_SPACE = re.compile(r"[ \t\n\r]")
_BRACKET = re.compile(r"[\[\]{}]")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def parse(body: bytes) -> tuple[Any, str]:
    """
    Parse JSON strictly, so that every reader understands it in the same way.

    Refused are ``NaN`` and ``Infinity``, numbers beyond the range of a double, duplicate keys, unpaired surrogates, and
    nesting deeper than :data:`DEEPEST`.

    :param body: The bytes as received: UTF-8, without a byte order mark.
    :return: The value, and its text.
    :raises ValueError: the JSON is refused. The message quotes nothing of the body.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark")
    if _depth(text) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_number, parse_int=_number
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg.lower()} at character {error.pos}") from None
    if _HALF.search(text) and not _is_text(value):
        raise ValueError("a text in it holds half a character")
    return value, text


def is_canonical(text: str) -> bool:
    """
    Return True if JSON has the canonical form that signatures need.

    Keys are sorted by their characters, and there is no insignificant white space. The interface names only these two
    rules: the sender may spell numbers and characters in any way.

    :param text: JSON that :func:`parse` accepted.
    """
    if _SPACE.search(_STRING.sub('""', text)):
        return False
    in_order = True

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal in_order
        keys = [key for key, _ in pairs]
        in_order = in_order and keys == sorted(keys)

    json.loads(text, object_pairs_hook=look)
    return in_order


def elements(text: str) -> list[str]:
    """
    Return the elements of an array with their original spelling, each without line breaks.

    :param text: An array that :func:`parse` accepted.
    """
    found, decoder = [], json.JSONDecoder()
    position = _after_space(text, text.index("[") + 1)
    while text[position] != "]":
        _, end = decoder.raw_decode(text, position)
        found.append(one_line(text[position:end]))
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)
    return found


def one_line(text: str) -> str:
    """Return JSON without line breaks. Outside strings they have no meaning, and inside they are not allowed."""
    return text.strip(" \t\n\r").replace("\n", " ").replace("\r", " ")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return made


def _constant(_: str) -> None:
    raise ValueError("NaN and Infinity are no numbers of JSON")


def _number(text: str) -> int | float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number in it is too large")
    # int() refuses numbers with too many digits; those are infinite as floats.
    return number if "." in text or "e" in text or "E" in text else int(text)


def _depth(text: str) -> int:
    deepest = depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _is_text(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _after_space(text: str, position: int) -> int:
    while text[position] in " \t\n\r":
        position += 1
    return position
