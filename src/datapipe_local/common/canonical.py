"""Canonical JSON: sorted keys and no insignificant white space. All functions expect strict JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from airflow_provider_datapipe.api.models.formats.strict_json import STRING

_SPACE = re.compile(r"[ \t\n\r]")


def is_canonical(text: str) -> bool:
    """
    Return True if JSON has the canonical form that signatures need.

    Keys are sorted by their characters, and there is no insignificant white space. The interface names only these two
    rules: the sender may spell numbers and characters in any way.

    :param text: strict JSON.
    """
    if _SPACE.search(STRING.sub('""', text)):
        return False
    in_order = True

    def check(pairs: list[tuple[str, Any]]) -> None:
        nonlocal in_order
        keys = [key for key, _ in pairs]
        in_order = in_order and keys == sorted(keys)

    json.loads(text, object_pairs_hook=check)
    return in_order


def elements(text: str) -> list[str]:
    """
    Return the elements of an array with their original spelling, each without line breaks.

    :param text: An array, as strict JSON.
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


def members(text: str) -> dict[str, str]:
    """
    Return the members of an object by key, each with its original spelling: the key, the colon and the value.

    :param text: An object, as JSON.
    """
    found, decoder = {}, json.JSONDecoder()
    position = _after_space(text, text.index("{") + 1)
    while text[position] != "}":
        key, end = decoder.raw_decode(text, position)
        colon = _after_space(text, end)
        _, end = decoder.raw_decode(text, _after_space(text, colon + 1))
        found[key] = text[position:end]
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)
    return found


def one_line(text: str) -> str:
    """Return JSON without line breaks. Outside strings they have no meaning, and inside they are not allowed."""
    return text.strip(" \t\n\r").replace("\n", " ").replace("\r", " ")


def _after_space(text: str, position: int) -> int:
    while text[position] in " \t\n\r":
        position += 1
    return position
