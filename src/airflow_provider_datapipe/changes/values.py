"""What templates render to is text; here it becomes what was meant, or an error that names the field."""

from __future__ import annotations

from typing import Any

from airflow_provider_datapipe.runs.rendered import read as _read
from airflow_provider_datapipe.runs.rendered import text as _text


def flag(field: str, value: Any) -> bool:
    """
    Read a truth value: True, False, or the text of either.

    :raises ValueError: it is something else.
    """
    read = _read(value.strip().lower() if isinstance(value, str) else value)
    if isinstance(read, bool):
        return read
    raise ValueError(f"{field} must be True or False, not {value!r}")


def number(field: str, value: Any, *, least: int) -> int:
    """
    Read a whole number, or the text of one.

    :raises ValueError: it is something else, or too small.
    """
    read = _read(value)
    if isinstance(read, bool) or not isinstance(read, int) or read < least:
        raise ValueError(f"{field} must be a whole number of {least} or more, not {value!r}")
    return read


def mapping(field: str, value: Any) -> dict[str, Any]:
    """
    Read a mapping, or the text of one (JSON, or as Python prints it).

    :raises ValueError: it is something else. The value is not shown: it may hold secrets.
    """
    read = _read(value)
    if isinstance(read, dict) and all(isinstance(key, str) for key in read):
        return read
    raise ValueError(f"{field} must be a mapping, or the JSON of one, not {type(read).__name__}")


def texts(field: str, value: Any) -> list[str]:
    """
    Read a list of texts, or the text of one (JSON, or as Python prints it).

    :raises ValueError: it is something else.
    """
    read = _read(value)
    if isinstance(read, list | tuple) and all(isinstance(each, str) for each in read):
        return list(read)
    raise ValueError(f"{field} must be a list of texts, not {value!r}")


def mappings(field: str, value: Any) -> list[dict[str, Any]]:
    """
    Read a list of mappings, or the text of one (JSON, or as Python prints it).

    :raises ValueError: it is something else. The value is not shown: it may hold secrets.
    """
    read = _read(value)
    if not isinstance(read, list | tuple):
        raise ValueError(f"{field} must be a list of mappings, or the JSON of one, not {type(read).__name__}")  # noqa: TRY004 - a rule, as all
    return [mapping(f"{field}[{place}]", each) for place, each in enumerate(read)]


def choice(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    """
    Read one of several words.

    :raises ValueError: it is none of them.
    """
    if value in allowed:
        return str(value)
    *most, last = (repr(each) for each in allowed)
    raise ValueError(f"{field} must be {', '.join(most)} or {last}, not {value!r}")


def named(field: str, value: Any) -> list[dict[str, Any]]:
    """
    Read a list of things that each have a name, as a mapping or as the name alone, or the text of such a list.

    :raises ValueError: it is something else, or a name is missing.
    """
    read = _read(value)
    if isinstance(value, str | int) and not isinstance(read, list | tuple | dict | None):
        # One name, which may look like something else.
        read = [read if isinstance(read, str) else value]
    if not isinstance(read, list | tuple):
        raise ValueError(f"{field} must be a list of names or mappings, not {type(read).__name__}")  # noqa: TRY004 - a rule, as all
    things = [_named(f"{field}[{place}]", each) for place, each in enumerate(read)]
    for place, each in enumerate(things):
        if not isinstance(each.get("name"), str) or each["name"] in ("", "None"):
            raise ValueError(f"{field}[{place}] has no name")
    return things


def _named(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str | int):
        return {"name": _text(field, value)}
    read = mapping(field, value)
    return read | {"name": _text(f"{field}.name", read.get("name"))}
