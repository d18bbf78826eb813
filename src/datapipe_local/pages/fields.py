"""What a form asks for, read off a JSON Schema. The name of a field is the place of its value, with dots in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from datapipe_local.store.records import Json


class Kind(Enum):
    """How a value is asked for."""

    TEXT = "text"
    HIDDEN = "hidden text"
    NUMBER = "number"
    YES_OR_NO = "yes or no"
    CHOICE = "choice"
    GROUP = "group"
    ONE_OF = "one of"
    ROWS = "rows"
    #: What no field fits is written as JSON.
    WRITTEN = "written"


@dataclass(frozen=True)
class Field:
    """
    A field of a form, or a group of fields.

    :param kind: How it is asked for.
    :param name: Its place among the settings; within one of several kinds, the kind is a part of it.
    :param title: Its name for people.
    :param hint: What helps to fill it in.
    :param required: It can't be left out.
    :param default: What it is if it is left out.
    :param choices: The values to choose from, for :attr:`Kind.CHOICE`.
    :param fields: Those of a group; those of a row; the kinds to choose from, as groups.
    :param tag: The property that names the kind, for :attr:`Kind.ONE_OF`.
    :param in_row: It stands in a row, which may be left empty as a whole.
    """

    kind: Kind
    name: str
    title: str
    hint: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[Any, ...] = ()
    fields: tuple[Field, ...] = ()
    tag: str = ""
    in_row: bool = False


def fields_of(schema: Json, prefix: str = "") -> tuple[Field, ...]:
    """Give the fields of an object, in the order of its properties."""
    required = schema.get("required", ())
    return tuple(
        _field(entry, f"{prefix}{name}", required=name in required) for name, entry in schema["properties"].items()
    )


def _field(given: Json, name: str, *, required: bool) -> Field:
    schema = _without_null(given)
    kind, more = _kind_of(schema, name)
    title, hint = schema.get("title", name.rpartition(".")[2]), schema.get("description", "")
    return Field(kind, name, title, hint, required, schema.get("default"), **more)


def _kind_of(schema: Json, name: str) -> tuple[Kind, dict[str, Any]]:
    """Tell how a value is asked for, and with which choices or fields."""
    if "enum" in schema:
        return Kind.CHOICE, {"choices": tuple(schema["enum"])}
    tag = _tag(schema.get("oneOf", []))
    if tag is not None:
        return Kind.ONE_OF, {"fields": tuple(_one_kind(one, tag, name) for one in schema["oneOf"]), "tag": tag}
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        return Kind.GROUP, {"fields": fields_of(schema, f"{name}.")}
    if kind == "array" and "properties" in schema.get("items", {}):
        row = tuple(replace(one, in_row=True) for one in fields_of(schema["items"]))
        # A row of rows would be more than a form is good for.
        return (Kind.ROWS, {"fields": row}) if all(one.kind in _SIMPLE for one in row) else (Kind.WRITTEN, {})
    if kind == "string" and schema.get("writeOnly"):
        return Kind.HIDDEN, {}
    return _PLAIN.get(kind, Kind.WRITTEN), {}


_PLAIN: dict[Any, Kind] = {
    "string": Kind.TEXT,
    "boolean": Kind.YES_OR_NO,
    "integer": Kind.NUMBER,
    "number": Kind.NUMBER,
}
_SIMPLE = frozenset({Kind.TEXT, Kind.HIDDEN, Kind.NUMBER, Kind.YES_OR_NO, Kind.CHOICE})


def _without_null(schema: Json) -> Json:
    kinds = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{name: value for name, value in schema.items() if name != "anyOf"}}


def _tag(kinds: list[Json]) -> str | None:
    """Give the property by which kinds of objects are told apart."""
    tags = [{name for name, entry in one.get("properties", {}).items() if "const" in entry} for one in kinds]
    return min(set.intersection(*tags), default=None) if tags else None


def _one_kind(schema: Json, tag: str, name: str) -> Field:
    value = schema["properties"][tag]["const"]
    rest = {**schema, "properties": {key: entry for key, entry in schema["properties"].items() if key != tag}}
    own = f"{name}.{value}"
    fields = fields_of(rest, f"{own}.")
    return Field(
        Kind.GROUP, own, schema.get("title", value), schema.get("description", ""), default=value, fields=fields
    )


def written(value: Any) -> str:
    """Write a value as it stands in a field."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
