"""Conversion of warehouse values to JSON."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from functools import singledispatch
from typing import Any


@singledispatch
def json_value(value: Any) -> Any:
    """
    Return a value of the warehouse as a JSON value.

    Times become ISO 8601 text, bytes base64, and decimals numbers. NaN and infinities become null. Values without a
    JSON type, such as UUIDs and intervals, become text.
    """
    return value if value is None or isinstance(value, bool | int | str) else str(value)


@json_value.register
def _(value: float) -> float | None:
    return value if math.isfinite(value) else None


@json_value.register
def _(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


@json_value.register
def _(value: dt.date | dt.time) -> str:
    return value.isoformat()


@json_value.register
def _(value: bytes) -> str:
    return base64.b64encode(value).decode()


@json_value.register(dict)
def _(value: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): json_value(entry) for key, entry in value.items()}


@json_value.register(list)
@json_value.register(tuple)
def _(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [json_value(entry) for entry in value]
