"""Shared base classes and field types of the models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from math import isfinite
from typing import Annotated, Any, Final, Generic, Self, TypeVar

import pendulum
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)
from typing_extensions import override

T = TypeVar("T")


#: Timestamp formats that pendulum does not parse: lowercase letters, hour 24, a space before the offset.
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,30}))?)? ?([Zz]|UTC|[+-]\d\d(?::?[0-5]\d)?)?",
    re.ASCII,
)
#: Larger numbers are milliseconds since the epoch instead of seconds.
_MOST_SECONDS = 1e11
_HOURS = 24
_EARLIEST = pendulum.datetime(1, 1, 1)
_LATEST = pendulum.datetime(9999, 12, 31, 23, 59, 59, 999999)


def parse_timestamp(value: object) -> object:
    """
    Parse a timestamp and convert it to UTC.

    A timestamp without an offset is UTC, see :ref:`Timestamps <interface-timestamps>`. Besides ISO 8601, this accepts
    lowercase ``t`` and ``z``, hour 24, and seconds or milliseconds since the epoch. Times that are out of range in UTC
    become the earliest or the latest time.

    :param value: received text or number, or a parsed time.
    :raises ValueError: if the value is not a timestamp.
    """
    if isinstance(value, str):
        value = _parse_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = _parse_number(value)
    return _in_utc(value) if isinstance(value, pendulum.DateTime) else value


def parse_optional_timestamp(value: object) -> pendulum.DateTime | None:
    """
    Parse an optional timestamp. Return None for the zero time and for unreadable values.

    :param value: received text or number, or a parsed time.
    """
    try:
        value = parse_timestamp(value)
    except ValueError:
        return None
    return known_time(value) if isinstance(value, pendulum.DateTime) else None


def known_time(value: pendulum.DateTime | None) -> pendulum.DateTime | None:
    """Return the time, or None if it is a placeholder: the zero time or the platform's latest time."""
    return None if value is None or value.year in (_EARLIEST.year, _LATEST.year) else value


def _parse_text(text: str) -> pendulum.DateTime:
    try:
        time = pendulum.parse(text, exact=True)
    except (pendulum.parsing.exceptions.ParserError, OverflowError) as error:
        match = _TIMESTAMP.fullmatch(text.strip())
        if match is None:
            raise ValueError("not an ISO 8601 timestamp") from error
        return _parse_fields(match)
    if not isinstance(time, pendulum.DateTime):
        raise ValueError("a date and a time of day are needed")  # noqa: TRY004 - pydantic does not convert a TypeError
    return time


def _parse_fields(match: re.Match[str]) -> pendulum.DateTime:
    *numbers, fraction, offset = match.groups(default="")
    year, month, day, hour, minute, second = (int(number or 0) for number in numbers)
    microsecond = int(fraction[:6].ljust(6, "0"))
    is_midnight = hour == _HOURS and minute == second == microsecond == 0
    try:
        time = pendulum.datetime(year, month, day, 0 if is_midnight else hour, minute, second, microsecond)
    except ValueError as error:
        raise ValueError("not an ISO 8601 timestamp") from error
    later = _HOURS * 60 if is_midnight else 0
    if offset.startswith(("+", "-")):
        digits = offset[1:].replace(":", "").ljust(4, "0")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        later += -minutes if offset[0] == "+" else minutes
    try:
        return time.add(minutes=later)
    except OverflowError:
        return _LATEST if later > 0 else _EARLIEST


def _parse_number(number: float) -> pendulum.DateTime:
    try:
        return pendulum.from_timestamp(number / 1000 if abs(number) > _MOST_SECONDS else number)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError("not a time since the epoch") from error


def _in_utc(time: pendulum.DateTime) -> pendulum.DateTime:
    if time.tzinfo is pendulum.UTC:
        return time
    try:
        return time.in_timezone("UTC")
    except OverflowError:
        return _LATEST if time.year == _LATEST.year else _EARLIEST


def format_timestamp(value: pendulum.DateTime) -> str:
    """Return the time in the format of the service: UTC, milliseconds, ``Z``."""
    utc = value.in_timezone("UTC")
    # pendulum's format would import a locale, which blocks the event loop.
    return f"{utc.naive().isoformat(timespec='milliseconds')}Z"


#: Timestamp of the interface: a :class:`pendulum.DateTime` in UTC.
Timestamp = Annotated[
    InstanceOf[pendulum.DateTime],
    BeforeValidator(parse_timestamp),
    PlainSerializer(format_timestamp, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]

#: Optional timestamp of a response. An unreadable value becomes None, so that the other fields stay usable.
OptionalTimestamp = Annotated[
    InstanceOf[pendulum.DateTime] | None,
    BeforeValidator(parse_optional_timestamp),
    PlainSerializer(lambda value: None if value is None else format_timestamp(value), return_type=str | None),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
]

# Limit for counts, so that sums stay finite.
_LARGEST_COUNT = 2**63


def _is_count(value: float) -> bool:
    # False for NaN.
    return -_LARGEST_COUNT <= value <= _LARGEST_COUNT


def check_number(value: float) -> float:
    """
    Return a number unchanged.

    :raises ValueError: if it is NaN, infinite or out of the 64-bit range: JSON parsers accept `NaN` and `1e999`.
    """
    if not _is_count(value):
        raise ValueError("must be a finite number of at most 64 bits")
    return value


def number_or_none(value: float | None) -> float | None:
    """Return a number, or None if it is NaN, infinite or out of the 64-bit range."""
    return value if value is not None and _is_count(value) else None


def only_finite(value: Any) -> Any:
    """Return JSON with None instead of NaN and infinite numbers, which strict JSON does not support."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: only_finite(each) for key, each in value.items()}
    return [only_finite(each) for each in value] if isinstance(value, list) else value


#: Required ``number`` of the interface. Counts usually are integers, but the interface does not guarantee it.
Number = Annotated[int | float, AfterValidator(check_number)]

#: Optional ``number``; NaN and infinite numbers become None.
OptionalNumber = Annotated[int | float | None, AfterValidator(number_or_none)]

#: JSON without a declared schema.
FreeJson = Annotated[Any, AfterValidator(only_finite)]

#: JSON object without declared fields.
FreeObject = Annotated[dict[str, Any], AfterValidator(only_finite)]

# Same minimum length as in Airflow's secrets masker.
_SHORTEST_SECRET = 5

#: For unions of an enum and ``str``: known values become enum members, unknown values stay text.
OPEN_ENUM = Field(union_mode="left_to_right")


class Unset(Enum):
    """Type of :data:`UNSET`."""

    UNSET = "UNSET"

    @override
    def __repr__(self) -> str:
        return self.value


#: Marks a field that is not sent, so that the service's default applies. None is sent as null.
UNSET: Final = Unset.UNSET


class Answer(BaseModel):
    """Base class of responses. Undeclared fields are kept in ``model_extra``."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, defer_build=True)


class Body(BaseModel):
    """Base class of request bodies. Unknown fields are rejected before the request is sent."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _take_answers(cls, value: Any) -> Any:
        # A response can be sent back, such as the operation of a reverse ETL sync.
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(value, Answer) else value

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """
        Return a body with the given fields.

        :param fields: the fields; those that are :data:`UNSET` are omitted.
        :raises pydantic.ValidationError: if a field is invalid.
        """
        return cls.model_validate({name: value for name, value in fields.items() if value is not UNSET})

    def as_json(self) -> dict[str, Any]:
        """Return the body as JSON with only the fields that were set, so that the service's defaults apply."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secret texts in the body, longest first. Very short texts are omitted, because they match ordinary words."""
        fields = type(self).model_fields
        found = {text for name, field in fields.items() if not field.repr for text in _texts(getattr(self, name))}
        return tuple(sorted((text for text in found if len(text) >= _SHORTEST_SECRET), key=len, reverse=True))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


class Page(Answer, Generic[T]):
    """
    One page of a list.

    The interface uses two spellings for the envelope (``hasMore`` and ``has_more``, ``nextCursor`` and
    ``next_cursor``). Both are accepted.
    """

    #: Server time of the response (header ``Date``), in seconds since the epoch; None if absent.
    _answered_at: float | None = PrivateAttr(default=None)

    data: tuple[T, ...]
    has_more: bool = Field(validation_alias=AliasChoices("has_more", "hasMore"))
    next_cursor: str | None = Field(default=None, validation_alias=AliasChoices("next_cursor", "nextCursor"))

    @property
    def answered_at(self) -> float | None:
        """Server time of the response in seconds since the epoch; None if the service sent none."""
        return self._answered_at

    def with_time(self, answered_at: float | None) -> Self:
        """Set the server time of the response and return the page."""
        self._answered_at = answered_at
        return self


class ListOrPage(Page[T], Generic[T]):
    """List that is either a bare JSON array or a page; the interface does not specify which."""

    @model_validator(mode="before")
    @classmethod
    def _wrap(cls, value: Any) -> Any:
        return {"data": value, "has_more": False} if isinstance(value, list) else value


class ErrorAnswer(Answer):
    """``ErrorDto``: body of most error responses."""

    error_code: str
    message: str


class RunConflict(ErrorAnswer):
    """
    ``EltStreamRequestRunConflictResponseDto``, ``ReverseEtlSyncRequestRunConflictResponseDto``.

    Body of a 409 response to ``request_run``: another run is active or scheduled.
    """

    active_run_id: str | None = None


class RunRequested(Answer):
    """
    ``EltStreamRequestRunResponseDto``, ``ReverseEtlSyncRequestRunResponseDto``.

    Response to ``request_run`` of a stream or reverse ETL sync.

    ``status_url`` refers to the run list, relative to the base URL, limited to the first run after the latest existing
    one. The list stays empty until the run is scheduled.

    :param status_url: address of the run list, relative to the base URL.
    """

    status_url: str
