"""
Canonical JSON serialization for signed webhook payloads.

The interface defines two rules: sorted keys and no insignificant white space. The sender chooses the notation of
numbers and characters. This module writes them as follows:

- Keys are sorted by code point, as datapipe-local sorts them. (RFC 8785 sorts by UTF-16 code unit. The order differs
  only for objects that have keys with characters above U+FFFF and keys with characters from U+E000 to U+FFFF.)
- Text is UTF-8. Only characters that JSON requires to be escaped are escaped.
- Integers keep all digits, also above 2**53. Floats use the shortest exact notation, and a float with a whole value
  keeps its ``.0``, so that the column type stays floating point. A ``Decimal`` keeps its digits.
- A ``datetime`` becomes ISO 8601 text, converted to UTC with a ``Z`` suffix if it has a time zone. ``date``, ``time``
  and ``UUID`` become text.

Ambiguous values are rejected: NaN, infinities, numbers outside the range of a float, non-text or duplicate keys, lone
surrogates, nesting deeper than :data:`DEEPEST`, and all other types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any
from uuid import UUID

from airflow_provider_datapipe.api.errors import InvalidInputError, one_line
from airflow_provider_datapipe.api.models.formats import strict_json
from airflow_provider_datapipe.api.models.formats.strict_json import DEEPEST

#: Integers below this value are always in the range of a float.
_SURELY_FINITE = 1 << 1023
_LONGEST_KEY = 80


class NotCanonicalError(InvalidInputError):
    """
    Error for a value without a canonical form. The message names the position, but does not quote the value.

    :param problem: the reason.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self._problem = problem
        self._path: list[str] = []

    def within(self, step: str | int) -> None:
        """Prepend an object key or a list index to the position in the message."""
        self._path.append(f"[{step}]" if isinstance(step, int) else f".{one_line(step, longest=_LONGEST_KEY)}")

    def __str__(self) -> str:
        if not self._path:
            return self._problem
        return f"{''.join(reversed(self._path)).removeprefix('.')}: {self._problem}"


def canonical(value: Any, *, deepest: int = DEEPEST) -> bytes:
    """
    Serialize a value as canonical JSON.

    :param value: a JSON value, or another type that the module docstring lists.
    :param deepest: maximum nesting depth of lists and objects, default :data:`DEEPEST`.
    :raises NotCanonicalError: if the value has no canonical form.
    """
    return _write(value, deepest).encode()


def parse(text: str | bytes) -> Any:
    """
    Parse JSON strictly. Numbers with a fraction or an exponent become ``Decimal``, which keeps all digits.

    :param text: JSON; bytes are decoded as UTF-8.
    :raises NotCanonicalError: if the text is not JSON or is ambiguous. The message does not quote values.
    """
    try:
        # The serializer reports unpaired surrogates with their position.
        return strict_json.parse(text, number=_decimal, surrogates=True)
    except strict_json.JsonSyntaxError as error:
        raise NotCanonicalError(f"not valid JSON: {error}") from None
    except strict_json.DuplicateKeyError as error:
        key = one_line(error.key, longest=_LONGEST_KEY)
        raise NotCanonicalError(f"duplicate key {key} in an object") from None
    except strict_json.StrictJsonError as error:
        raise NotCanonicalError(str(error)) from None


def _write(value: Any, levels: int) -> str:
    # Exact types first, for speed: a file can have millions of values.
    if writer := _WRITERS.get(type(value)):
        return writer(value)
    if isinstance(value, dict):
        return _object(value, levels)
    if isinstance(value, list | tuple):
        return _array(value, levels)
    for kind, writer in _WRITERS.items():
        if isinstance(value, kind):
            return writer(value)
    raise NotCanonicalError(
        f"a value of the type {type(value).__name__} cannot be serialized: convert it to text or a number"
    )


def _object(value: dict[Any, Any], levels: int) -> str:
    if levels <= 0:
        raise NotCanonicalError(f"nested more than {DEEPEST} levels deep")
    for key in value:
        if not isinstance(key, str):
            raise NotCanonicalError(f"a key of the type {type(key).__name__} is not text")
    members = []
    for key in sorted(value):
        try:
            members.append(f"{_text(key)}:{_write(value[key], levels - 1)}")
        except NotCanonicalError as error:
            error.within(key)
            raise
    return f"{{{','.join(members)}}}"


def _array(value: list[Any] | tuple[Any, ...], levels: int) -> str:
    if levels <= 0:
        raise NotCanonicalError(f"nested more than {DEEPEST} levels deep")
    elements = []
    for index, element in enumerate(value):
        try:
            elements.append(_write(element, levels - 1))
        except NotCanonicalError as error:
            error.within(index)
            raise
    return f"[{','.join(elements)}]"


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotCanonicalError("a text contains an unpaired surrogate") from None
    return encode_basestring(value)


def _whole(value: int) -> str:
    if not -_SURELY_FINITE < value < _SURELY_FINITE:
        _within_floating_point(value)
    return int.__repr__(value)


def _floating(value: float) -> str:
    if not math.isfinite(value):
        raise NotCanonicalError("NaN and infinities are not valid in JSON")
    return float.__repr__(value)


def _exact(value: Decimal) -> str:
    if not value.is_finite():
        raise NotCanonicalError("NaN and infinities are not valid in JSON")
    _within_floating_point(value)
    return str(value)


def _moment(value: datetime) -> str:
    # pandas' NaT is a datetime, but not equal to itself.
    if value != value:  # noqa: PLR0124 - see above
        raise NotCanonicalError("NaT is not a valid time: use null")
    if value.utcoffset() is None:
        return encode_basestring(value.isoformat())
    try:
        return encode_basestring(f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z")
    except OverflowError:
        raise NotCanonicalError("a time is out of range in UTC") from None


def _within_floating_point(value: int | Decimal) -> None:
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    if not finite:
        raise NotCanonicalError("a number is too large for a double")


#: Writer for each type. A subclass uses the first entry that it is an instance of.
_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _text,
    bool: lambda value: "true" if value else "false",
    int: _whole,
    float: _floating,
    type(None): lambda _: "null",
    Decimal: _exact,
    datetime: _moment,
    date: lambda value: encode_basestring(value.isoformat()),
    time: lambda value: encode_basestring(value.isoformat()),
    UUID: lambda value: encode_basestring(str(value)),
}


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise NotCanonicalError("the exponent of a number is out of range") from None
