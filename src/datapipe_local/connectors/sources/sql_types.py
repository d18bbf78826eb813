"""Mapping of SQL column types to DuckDB types."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy.types import TypeEngine

_MOST_DIGITS = 38
# Up to here, a floating-point number represents every integer.
_EXACT = 1 << 53
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")


def _decimal(kind: sa.Numeric[Any]) -> str:
    scale = kind.scale or 0
    if kind.precision is None or kind.precision > _MOST_DIGITS or not 0 <= scale <= kind.precision:
        # The column can hold any number, and text can represent them.
        return "VARCHAR"
    return f"DECIMAL({kind.precision},{scale})"


#: Subclasses come before their base classes.
_TYPES: list[tuple[type[TypeEngine[Any]], Callable[[Any], str]]] = [
    (sa.Boolean, lambda _: "BOOLEAN"),
    (sa.Integer, lambda _: "BIGINT"),
    (sa.Float, lambda _: "DOUBLE"),
    (sa.Numeric, _decimal),
    (sa.DateTime, lambda kind: "TIMESTAMP WITH TIME ZONE" if kind.timezone else "TIMESTAMP"),
    (sa.Date, lambda _: "DATE"),
    (sa.Time, lambda kind: "TIME WITH TIME ZONE" if kind.timezone else "TIME"),
    (sa.Uuid, lambda _: "UUID"),
    (sa.LargeBinary, lambda _: "BLOB"),
    (sa.JSON, lambda _: "JSON"),
    (sa.ARRAY, lambda _: "JSON"),
]


def declared(kind: TypeEngine[Any]) -> str:
    """Return DuckDB's type of a column."""
    for known, give in _TYPES:
        if isinstance(kind, known):
            return give(kind)
    return "VARCHAR"


def possible(kind: str) -> list[str]:
    """
    Return the possible types of a column whose values may differ from its declared type, as in SQLite.

    :return: The declared type first; the last type can hold all values.
    """
    family = kind.partition("(")[0]
    return [kind, *_INSTEAD.get(family, []), *([] if kind == "VARCHAR" else ["VARCHAR"])]


def still_possible(kinds: list[str], values: Iterable[Any]) -> list[str]:
    """Return the types that can hold all given values exactly."""
    known = list(values)
    return [kind for kind in kinds if kind == kinds[-1] or all(map(_holds(kind), known))]


_INSTEAD = {"BIGINT": ["DOUBLE"], "DECIMAL": ["DOUBLE"], "BOOLEAN": ["BIGINT", "DOUBLE"], "DATE": ["TIMESTAMP"]}


def _holds(kind: str) -> Callable[[Any], bool]:
    found = _DECIMAL.match(kind)
    if found:
        digits, scale = map(int, found.groups())
        return lambda value: _is_decimal(value, digits, scale)
    return _HOLDS.get(kind, lambda _: False)


def _is_decimal(value: Any, digits: int, scale: int) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    if type(value) not in (int, float):
        return False
    exact = Decimal(repr(value))
    return exact.is_finite() and abs(exact) < Decimal(10) ** (digits - scale) and -_exponent(exact) <= scale


def _exponent(value: Decimal) -> int:
    return int(value.normalize().as_tuple().exponent)


def _is_float(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= _EXACT)


def _is_json(value: Any) -> bool:
    try:
        return isinstance(value, str) and json.loads(value) is not ...
    except ValueError:
        return False


def _matches(pattern: str) -> Callable[[Any], bool]:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


_HOLDS: dict[str, Callable[[Any], bool]] = {
    "BOOLEAN": lambda value: type(value) is int and value in (0, 1),
    "BIGINT": lambda value: type(value) is int,
    "DOUBLE": _is_float,
    "TIMESTAMP": _matches(f"{_DATE}([ T]{_TIME})?"),
    "DATE": _matches(_DATE),
    "TIME": _matches(_TIME),
    "BLOB": lambda value: isinstance(value, bytes),
    "JSON": _is_json,
}
