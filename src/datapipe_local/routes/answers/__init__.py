"""Records as the interface sends them. Optional fields that have no value are left out."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def present(body: Json) -> Json:
    """Leave out what has no value."""
    return {name: value for name, value in body.items() if value is not None}
