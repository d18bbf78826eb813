"""Conversion between submitted form values and settings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from datapipe_local.pages.fields import Kind, written
from datapipe_local.storage.records import Json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datapipe_local.pages.fields import Field

_MISSING = object()
_PASSWORD_IN_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*:[^/?#]*@")
# Line break in the value of a textarea.
_BREAKS = "\r\n"


class Read(NamedTuple):
    """
    Parsed form.

    :param settings: Settings, not validated yet.
    :param given: Submitted values by field name, without empty rows.
    :param problems: Parse errors by field name.
    """

    settings: Json
    given: dict[str, str]
    problems: dict[str, str]


def read(fields: Sequence[Field], typed: Mapping[str, str]) -> Read:
    """
    Parse a form.

    :param fields: Fields of the form.
    :param typed: Submitted values by field name.
    """
    found = Read({}, _without_empty_rows(fields, typed), {})
    found.settings.update(_object(fields, found))
    return found


def shown(fields: Sequence[Field], settings: Json) -> dict[str, str]:
    """
    Return the field values for existing settings, without secrets.

    :param fields: Fields of the form.
    :param settings: Settings.
    """
    given: dict[str, str] = {}
    for field in fields:
        value = settings.get(_key(field), field.default)
        if field.kind == Kind.HIDDEN or value is None or _holds_password(value):
            continue
        if field.kind == Kind.GROUP:
            given |= shown(field.fields, value)
        elif field.kind == Kind.ONE_OF:
            given[f"{field.name}.{field.tag}"] = str(value[field.tag])
            given |= shown(next(kind.fields for kind in field.fields if kind.default == value[field.tag]), value)
        elif field.kind == Kind.ROWS:
            for number, row in enumerate(value):
                given |= {f"{field.name}.{number}.{name}": text for name, text in shown(field.fields, row).items()}
        elif field.kind == Kind.YES_OR_NO:
            given |= {field.name: "yes"} if value else {}
        else:
            given[field.name] = written(value)
    return given


def _holds_password(value: Any) -> bool:
    return isinstance(value, str) and bool(_PASSWORD_IN_URL.match(value))


def rows_of(field: Field, given: Mapping[str, str]) -> list[int]:
    """Return the row numbers that a form contains."""
    place = re.compile(rf"{re.escape(field.name)}\.([0-9]{{1,4}})\.")
    return sorted({int(found[1]) for name in given if (found := place.match(name))})


def _key(field: Field) -> str:
    return field.name.rpartition(".")[2]


def _object(fields: Sequence[Field], found: Read, prefix: str = "") -> Json:
    values = ((_key(field), _value(field, found, f"{prefix}{field.name}")) for field in fields)
    return {name: value for name, value in values if value is not _MISSING}


def _value(field: Field, found: Read, name: str) -> Any:
    if field.kind == Kind.GROUP:
        return _object(field.fields, found) or (_MISSING if not field.required else {})
    if field.kind == Kind.ONE_OF:
        chosen = found.given.get(f"{name}.{field.tag}", "")
        kind = next((one for one in field.fields if str(one.default) == chosen), None)
        if kind is None:
            return {field.tag: chosen} if chosen else _MISSING
        return {field.tag: kind.default, **_object(kind.fields, found)}
    if field.kind == Kind.ROWS:
        rows = rows_of(field, found.given)
        return [_object(field.fields, found, f"{name}.{number}.") for number in rows] or _MISSING
    return name in found.given if field.kind == Kind.YES_OR_NO else _typed(field, found, name)


def _typed(field: Field, found: Read, name: str) -> Any:
    text = found.given.get(name, "")
    if not text:
        return _MISSING
    if any(character < " " for character in (text.replace(_BREAKS, "") if field.kind == Kind.WRITTEN else text)):
        found.problems[name] = "Use printable characters only."
        return text
    if field.kind == Kind.CHOICE:
        return next((one for one in field.choices if written(one) == text), text)
    return _read_json(field, found, name, text) if field.kind in (Kind.NUMBER, Kind.WRITTEN) else text


def _read_json(field: Field, found: Read, name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        found.problems[name] = "Give a number." if field.kind == Kind.NUMBER else "This is not valid JSON."
        return _MISSING


def _without_empty_rows(fields: Sequence[Field], typed: Mapping[str, str]) -> dict[str, str]:
    """Remove rows without typed input and renumber the others. A selected choice does not count as input."""
    given = dict(typed)
    for field in fields:
        if field.kind == Kind.ROWS:
            names = {
                number: [f"{field.name}.{number}.{one.name}" for one in field.fields]
                for number in rows_of(field, typed)
            }
            kept = [
                number
                for number, places in names.items()
                if any(given.get(place) for place, one in zip(places, field.fields, strict=True) if _is_typed(one))
            ]
            moved = {
                f"{field.name}.{new}.{one.name}": given[place]
                for new, old in enumerate(kept)
                for place, one in zip(names[old], field.fields, strict=True)
                if place in given
            }
            given = {name: text for name, text in given.items() if not name.startswith(f"{field.name}.")} | moved
        elif field.kind == Kind.GROUP:
            given = _without_empty_rows(field.fields, given)
    return given


def _is_typed(field: Field) -> bool:
    return field.kind in (Kind.TEXT, Kind.HIDDEN, Kind.NUMBER)
