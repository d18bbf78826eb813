"""Form fields derived from a JSON Schema. A field name is the path of its value, separated by dots."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from datapipe_local.storage.records import Json


class Kind(Enum):
    """Input type of a field."""

    TEXT = "text"
    HIDDEN = "hidden text"
    NUMBER = "number"
    YES_OR_NO = "yes or no"
    CHOICE = "choice"
    GROUP = "group"
    ONE_OF = "one of"
    ROWS = "rows"
    #: JSON text, for values that no other kind supports.
    WRITTEN = "written"


@dataclass(frozen=True)
class Field:
    """
    Field of a form, or group of fields.

    :param kind: Input type.
    :param name: Path in the settings. Inside an alternative, the path also contains the alternative's tag value.
    :param title: Label.
    :param hint: Help text.
    :param required: True if a value is required.
    :param default: Default value.
    :param choices: Values of :attr:`Kind.CHOICE`.
    :param fields: Fields of a group or a row, or alternatives of :attr:`Kind.ONE_OF` as groups.
    :param tag: Property that identifies the alternative, for :attr:`Kind.ONE_OF`.
    :param in_row: True if the field belongs to a row, which can be empty as a whole.
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
    """Return the fields of an object schema, in the order of its properties."""
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
    """Return the input type of a value, with its choices or fields."""
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
        # Nested rows are not supported as fields.
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
    """Return the property that identifies the alternatives, or None."""
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
    """Return the text that a field shows for a value."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
