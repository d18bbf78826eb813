"""Serializers from records to response bodies. Optional fields without a value are omitted."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def present(body: Json) -> Json:
    """Return the body without fields that are None."""
    return {name: value for name, value in body.items() if value is not None}
