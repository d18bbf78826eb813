"""Dataclasses as JSON that another version can read: in a rolling upgrade, worker and triggerer can differ."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def to_json(instance: DataclassInstance) -> dict[str, Any]:
    """
    Return the fields of a dataclass that differ from their defaults: an earlier version may not know the others.

    :param instance: a dataclass whose values fit into JSON.
    """
    values = {field: getattr(instance, field.name) for field in fields(instance)}
    return {field.name: value for field, value in values.items() if value != _default(field)}


def from_json(cls: type[T], data: dict[str, Any]) -> T:
    """
    Return the dataclass that :func:`to_json` of any version returned. Ignore fields that only a later version has.

    :param cls: the dataclass.
    :param data: its fields.
    """
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    return cls(**{name: value for name, value in data.items() if name in known})


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
