"""JSON from outside, read strictly, and what of it is canonical: keys in order, no white space without a meaning."""

from __future__ import annotations

import json
import math
import re
from typing import Any

#: How deep lists and objects may be within one another. What reads them later has limits of its own.
DEEPEST = 100

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_SPACE = re.compile(r"[ \t\n\r]")
_BRACKET = re.compile(r"[\[\]{}]")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def parse(body: bytes) -> tuple[Any, str]:
    """
    Read JSON that means the same to everybody.

    :param body: As received: UTF-8, without a byte order mark.
    :return: The value, and its text.
    :raises ValueError: it is none: also ``NaN`` and ``Infinity``, a number beyond all that floating point has, a key
        that stands twice in an object, half a character, and what is nested more than :data:`DEEPEST` deep. The
        message quotes nothing of it.
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
    Tell whether JSON is in the one form that can be signed.

    Keys are in the order of their characters, and no white space stands between what has a meaning. How numbers
    and characters are spelt is the sender's affair: the interface names these two rules.

    :param text: JSON that :func:`parse` took.
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
    Give the elements of an array as they are spelt, each in a line of its own.

    :param text: An array that :func:`parse` took.
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
    """Give JSON without line breaks: within a text there are none, and elsewhere they mean nothing."""
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
    # A number with so many digits that Python would not read it is too large.
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
