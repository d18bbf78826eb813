"""
Canonical JSON: the one form of a payload that can be signed.

The interface names two rules: keys in sorted order, and no white space without a meaning. How a number or a character
is spelt is the sender's affair, and nothing is changed by it here:

- Keys are sorted by their code points, as the local service looks at them. (RFC 8785 sorts by UTF-16 units: another
  order only where one object has keys with characters beyond U+FFFF beside some from U+E000 on.)
- Text is written as it is, in UTF-8; only what JSON asks for is escaped.
- Integers have all of their digits, also beyond 2**53; floating point numbers the fewest that mean the same number,
  and a whole one keeps its ``.0``, so that its column stays one of floating point. A ``Decimal`` keeps its own digits.
- A ``datetime`` becomes ISO 8601, in UTC with a ``Z`` where it has a zone; ``date``, ``time`` and ``UUID`` become text.

What doesn't mean the same to everybody is refused: NaN, infinities, numbers beyond all of floating point, keys that are
no text or stand twice, half a character, what is nested deeper than :data:`DEEPEST`, and every other type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any
from uuid import UUID

from airflow_provider_datapipe.api.errors import InvalidInputError, one_line

#: How deep lists and objects may be within one another: as deep as the local service reads.
DEEPEST = 100
#: Every integer up to here is a number of floating point, too.
_SURELY_FINITE = 1 << 1023
_LONGEST_KEY = 80


class NotCanonicalError(InvalidInputError):
    """
    A value has no canonical form. The message says where in it, and quotes none of its values.

    :param problem: what is wrong.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self._problem = problem
        self._path: list[str] = []

    def within(self, step: str | int) -> None:
        """Say in which member of an object, or element of a list, it is."""
        self._path.append(f"[{step}]" if isinstance(step, int) else f".{one_line(step, longest=_LONGEST_KEY)}")

    def __str__(self) -> str:
        if not self._path:
            return self._problem
        return f"{''.join(reversed(self._path)).removeprefix('.')}: {self._problem}"


def canonical(value: Any, *, deepest: int = DEEPEST) -> bytes:
    """
    Write a value as canonical JSON.

    :param value: what the module's introduction says.
    :param deepest: how deep lists and objects may be within one another.
    :raises NotCanonicalError: it has no such form.
    """
    return _write(value, deepest).encode()


def parse(text: str | bytes) -> Any:
    """
    Read JSON strictly. Numbers with a fraction or an exponent become ``Decimal``, so that no digit is lost.

    :param text: JSON; bytes are UTF-8.
    :raises NotCanonicalError: it is none, or does not mean the same to everybody. Nothing of it is quoted.
    """
    try:
        given = text if isinstance(text, str) else text.decode()
        return json.loads(
            given, object_pairs_hook=_members, parse_constant=_constant, parse_float=_decimal, parse_int=_integer
        )
    except UnicodeDecodeError:
        raise NotCanonicalError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotCanonicalError(f"it is no JSON: {error.msg.lower()} at character {error.pos}") from None
    except RecursionError:
        raise NotCanonicalError(f"it is nested more than {DEEPEST} deep") from None


def _write(value: Any, levels: int) -> str:
    # The usual ones first: a file has millions of them.
    if writer := _WRITERS.get(type(value)):
        return writer(value)
    if isinstance(value, dict):
        return _object(value, levels)
    if isinstance(value, list | tuple):
        return _array(value, levels)
    for kind, writer in _WRITERS.items():
        if isinstance(value, kind):
            return writer(value)
    raise NotCanonicalError(f"a value of the type {type(value).__name__} can't be written: make it text or a number")


def _object(value: dict[Any, Any], levels: int) -> str:
    if levels <= 0:
        raise NotCanonicalError(f"it is nested more than {DEEPEST} deep")
    for key in value:
        if not isinstance(key, str):
            raise NotCanonicalError(f"a key of the type {type(key).__name__} is no text")
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
        raise NotCanonicalError(f"it is nested more than {DEEPEST} deep")
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
            raise NotCanonicalError("a text holds half a character (a lone surrogate)") from None
    return encode_basestring(value)


def _whole(value: int) -> str:
    if not -_SURELY_FINITE < value < _SURELY_FINITE:
        _within_floating_point(value)
    return int.__repr__(value)


def _floating(value: float) -> str:
    if not math.isfinite(value):
        raise NotCanonicalError("NaN and infinities are no numbers of JSON")
    return float.__repr__(value)


def _exact(value: Decimal) -> str:
    if not value.is_finite():
        raise NotCanonicalError("NaN and infinities are no numbers of JSON")
    _within_floating_point(value)
    return str(value)


def _moment(value: datetime) -> str:
    # pandas' NaT is a datetime that is no moment.
    if value != value:  # noqa: PLR0124 - see above
        raise NotCanonicalError("NaT is no moment: give null")
    if value.utcoffset() is None:
        return encode_basestring(value.isoformat())
    try:
        return encode_basestring(f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z")
    except OverflowError:
        raise NotCanonicalError("a moment is beyond the years that there are in UTC") from None


def _within_floating_point(value: int | Decimal) -> None:
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    if not finite:
        raise NotCanonicalError("a number is too large: beyond all that floating point has")


#: How a value of each type is written. One of a type below these is written as the first that it belongs to.
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


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NotCanonicalError(f"the key {_first_twice(key for key, _ in pairs)} stands twice in an object")
    return made


def _first_twice(keys: Iterable[str]) -> str:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return one_line(key, longest=_LONGEST_KEY)
        seen.add(key)
    raise AssertionError("no key stands twice")


def _constant(_: str) -> None:
    raise NotCanonicalError("NaN and infinities are no numbers of JSON")


def _decimal(text: str) -> Decimal:
    if math.isinf(float(text)):
        raise NotCanonicalError("a number is too large: beyond all that floating point has")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise NotCanonicalError("a number has an exponent that no computer reads") from None


def _integer(text: str) -> int:
    # Before Python refuses to read it for its many digits.
    if math.isinf(float(text)):
        raise NotCanonicalError("a number is too large: beyond all that floating point has")
    return int(text)
