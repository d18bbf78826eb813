"""Dataclasses as JSON that another version can read: in a rolling upgrade, worker and triggerer can differ."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, Self


class JsonData:
    """Base of dataclasses whose values fit into JSON."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults: an earlier version may not know the others."""
        values = {field: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # a dataclass
        return {field.name: value for field, value in values.items() if value != _default(field)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the instance that :meth:`as_dict` of any version returned. Ignore fields of later versions."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # a dataclass
        return cls(**{name: value for name, value in data.items() if name in known})


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
