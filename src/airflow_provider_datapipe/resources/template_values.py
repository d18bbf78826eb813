"""Parsers of rendered template strings. They return typed values, or raise errors that name the field."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.runs.targets import parse_rendered, rendered_text


def flag(field: str, value: Any) -> bool:
    """
    Parse a boolean: True, False, or the text of either.

    :raises ValueError: if the value is something else.
    """
    read = parse_rendered(value.strip().lower() if isinstance(value, str) else value)
    if isinstance(read, bool):
        return read
    raise ValueError(f"{field} must be True or False, not {value!r}")


def number(field: str, value: Any, *, least: int) -> int:
    """
    Parse an integer, or the text of an integer.

    :raises ValueError: if the value is something else, or too small.
    """
    read = parse_rendered(value)
    if isinstance(read, bool) or not isinstance(read, int) or read < least:
        raise ValueError(f"{field} must be a whole number of {least} or more, not {value!r}")
    return read


def mapping(field: str, value: Any) -> dict[str, Any]:
    """
    Parse a mapping, or the text of a mapping (JSON or Python's ``repr``).

    :raises ValueError: if the value is something else. The message omits the value, because it may contain secrets.
    """
    read = parse_rendered(value)
    if isinstance(read, dict) and all(isinstance(key, str) for key in read):
        return read
    raise ValueError(f"{field} must be a mapping, or the JSON of one, not {type(read).__name__}")


def texts(field: str, value: Any) -> list[str]:
    """
    Parse a list of strings, or the text of such a list (JSON or Python's ``repr``).

    :raises ValueError: if the value is something else.
    """
    read = parse_rendered(value)
    if isinstance(read, list | tuple) and all(isinstance(each, str) for each in read):
        return list(read)
    raise ValueError(f"{field} must be a list of texts, not {value!r}")


def mappings(field: str, value: Any) -> list[dict[str, Any]]:
    """
    Parse a list of mappings, or the text of such a list (JSON or Python's ``repr``).

    :raises ValueError: if the value is something else. The message omits the value, because it may contain secrets.
    """
    read = parse_rendered(value)
    if not isinstance(read, list | tuple):
        raise ValueError(f"{field} must be a list of mappings, or the JSON of one, not {type(read).__name__}")  # noqa: TRY004 - ValueError, as for every invalid value
    return [mapping(f"{field}[{place}]", each) for place, each in enumerate(read)]


def choice(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    """
    Return the value if it is one of the allowed strings.

    :raises ValueError: if it is not.
    """
    if value in allowed:
        return str(value)
    *most, last = (repr(each) for each in allowed)
    raise ValueError(f"{field} must be {', '.join(most)} or {last}, not {value!r}")


def named(field: str, value: Any) -> list[dict[str, Any]]:
    """
    Parse a list whose items have a name: mappings, or names alone. The text of such a list is accepted as well.

    :raises ValueError: if the value is something else, or a name is missing.
    """
    read = parse_rendered(value)
    if isinstance(value, str | int) and not isinstance(read, list | tuple | dict | None):
        # A single name, which may look like another type, for example a number.
        read = [read if isinstance(read, str) else value]
    if not isinstance(read, list | tuple):
        raise ValueError(f"{field} must be a list of names or mappings, not {type(read).__name__}")  # noqa: TRY004 - ValueError, as for every invalid value
    things = [_named(f"{field}[{place}]", each) for place, each in enumerate(read)]
    for place, each in enumerate(things):
        if not isinstance(each.get("name"), str) or each["name"] in ("", "None"):
            raise ValueError(f"{field}[{place}] has no name")
    return things


def _named(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str | int):
        return {"name": rendered_text(field, value)}
    read = mapping(field, value)
    return read | {"name": rendered_text(f"{field}.name", read.get("name"))}
