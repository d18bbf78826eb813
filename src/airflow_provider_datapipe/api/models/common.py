"""What the models of all resources share."""

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


#: A timestamp with lowercase letters, hour 24, or a space before its offset, which pendulum does not read.
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,30}))?)? ?([Zz]|UTC|[+-]\d\d(?::?[0-5]\d)?)?",
    re.ASCII,
)
#: Numbers above this one are milliseconds since the epoch, and not seconds.
_MOST_SECONDS = 1e11
_HOURS = 24
_EARLIEST = pendulum.datetime(1, 1, 1)
_LATEST = pendulum.datetime(9999, 12, 31, 23, 59, 59, 999999)


def parse_timestamp(value: object) -> object:
    """
    Read a timestamp as a time in UTC.

    A timestamp without an offset is UTC (interface.md, "Resources and their fields"). Besides ISO 8601, this reads
    lowercase ``t`` and ``z``, hour 24, and seconds or milliseconds since the epoch. Times that are out of range in UTC
    become the earliest or the latest time.

    :param value: the text or number that was received, or a time already.
    :raises ValueError: the value is no timestamp.
    """
    if isinstance(value, str):
        value = _parse_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = _parse_number(value)
    return _in_utc(value) if isinstance(value, pendulum.DateTime) else value


def parse_optional_timestamp(value: object) -> pendulum.DateTime | None:
    """
    Read the timestamp of an optional field. The zero time and unreadable values count as absent.

    :param value: the text or number that was received, or a time already.
    """
    try:
        value = parse_timestamp(value)
    except ValueError:
        return None
    return known_time(value) if isinstance(value, pendulum.DateTime) else None


def known_time(value: pendulum.DateTime | None) -> pendulum.DateTime | None:
    """Return the time, or None if the service wrote the zero time or the latest time of its platform instead."""
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
        # pydantic turns a ValueError, and no TypeError, into its own error.
        raise ValueError("a date and a time of day are needed")  # noqa: TRY004
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
    """Write a time as the service does: UTC, milliseconds, ``Z``."""
    utc = value.in_timezone("UTC")
    # Not by pendulum's format, which imports a locale: not in an event loop.
    return f"{utc.naive().isoformat(timespec='milliseconds')}Z"


#: A timestamp of the interface: a :class:`pendulum.DateTime` in UTC.
Timestamp = Annotated[
    InstanceOf[pendulum.DateTime],
    BeforeValidator(parse_timestamp),
    PlainSerializer(format_timestamp, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]

#: A timestamp in an answer that may be absent. An unreadable one counts as absent, so the other fields stay usable.
OptionalTimestamp = Annotated[
    InstanceOf[pendulum.DateTime] | None,
    BeforeValidator(parse_optional_timestamp),
    PlainSerializer(lambda value: None if value is None else format_timestamp(value), return_type=str | None),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
]

# Sums of such counts stay finite.
_LARGEST_COUNT = 2**63


def _is_count(value: float) -> bool:
    # NaN compares false.
    return -_LARGEST_COUNT <= value <= _LARGEST_COUNT


def check_number(value: float) -> float:
    """
    Return a number unchanged.

    :raises ValueError: it is NaN, infinite or beyond 64 bits: JSON readers accept `NaN` and `1e999`.
    """
    if not _is_count(value):
        raise ValueError("must be a finite number of at most 64 bits")
    return value


def number_or_none(value: float | None) -> float | None:
    """Return a number; None if it is NaN, infinite or beyond 64 bits."""
    return value if value is not None and _is_count(value) else None


def only_finite(value: Any) -> Any:
    """Return JSON in which None replaces NaN and infinite numbers, which strict JSON does not have."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: only_finite(each) for key, each in value.items()}
    return [only_finite(each) for each in value] if isinstance(value, list) else value


#: A required ``number`` of the interface. Counts arrive as integers, but nothing promises it.
Number = Annotated[int | float, AfterValidator(check_number)]

#: A ``number`` that can be absent; one that is not finite counts as absent.
OptionalNumber = Annotated[int | float | None, AfterValidator(number_or_none)]

#: Any JSON, where the interface declares no schema.
FreeJson = Annotated[Any, AfterValidator(only_finite)]

#: A JSON object whose fields the interface does not declare.
FreeObject = Annotated[dict[str, Any], AfterValidator(only_finite)]

# As Airflow, which masks nothing shorter.
_SHORTEST_SECRET = 5

#: Marks a union of an enum and ``str``: known values become members, others survive as text.
OPEN_ENUM = Field(union_mode="left_to_right")


class Unset(Enum):
    """The type of :data:`UNSET`."""

    UNSET = "UNSET"

    @override
    def __repr__(self) -> str:
        return self.value


#: What is not sent at all, so that the service's default holds; None is sent as null.
UNSET: Final = Unset.UNSET


class Answer(BaseModel):
    """What the service sends. Fields that are not declared here are kept in ``model_extra``."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, defer_build=True)


class Body(BaseModel):
    """What the service takes. Misspelt fields are refused before anything is sent."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _take_answers(cls, value: Any) -> Any:
        # What was read of a service can be sent back to it, such as the operation of a reverse ETL sync.
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(value, Answer) else value

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """
        Make a body of what was given.

        :param fields: the fields; those that are :data:`UNSET` are left out.
        :raises pydantic.ValidationError: one of them breaks its rule.
        """
        return cls.model_validate({name: value for name, value in fields.items() if value is not UNSET})

    def as_json(self) -> dict[str, Any]:
        """Give the body as sent: only the fields that were set, so that the service's defaults hold."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts in it that must not be shown, the longest first; what is very short is a word that others use, too."""
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

    The interface spells the envelope in two ways (``hasMore`` and ``has_more``, ``nextCursor`` and
    ``next_cursor``); both are read.
    """

    #: Time of the answer by the service's clock (header ``Date``), in seconds since the epoch; None if it has none.
    _answered_at: float | None = PrivateAttr(default=None)

    data: tuple[T, ...]
    has_more: bool = Field(validation_alias=AliasChoices("has_more", "hasMore"))
    next_cursor: str | None = Field(default=None, validation_alias=AliasChoices("next_cursor", "nextCursor"))

    @property
    def answered_at(self) -> float | None:
        """Time of the answer by the service's clock, in seconds since the epoch; None if the service gave none."""
        return self._answered_at

    def with_time(self, answered_at: float | None) -> Self:
        """Return the page with the time of the answer."""
        self._answered_at = answered_at
        return self


class ListOrPage(Page[T], Generic[T]):
    """A list that comes bare, or as a page; the interface says only that it is a list."""

    @model_validator(mode="before")
    @classmethod
    def _wrap(cls, value: Any) -> Any:
        return {"data": value, "has_more": False} if isinstance(value, list) else value


class ErrorAnswer(Answer):
    """``ErrorDto``: the body of most refusals."""

    error_code: str
    message: str


class RunConflict(ErrorAnswer):
    """
    ``EltStreamRequestRunConflictResponseDto``, ``ReverseEtlSyncRequestRunConflictResponseDto``.

    The body of a 409 to ``request_run``: another run is active or scheduled.
    """

    active_run_id: str | None = None


class RunRequested(Answer):
    """
    ``EltStreamRequestRunResponseDto``, ``ReverseEtlSyncRequestRunResponseDto``.

    The answer to ``request_run`` of a stream or reverse ETL sync.
    ``status_url`` is the run list, relative to the base address, bounded to the first run after the last
    one that existed when the run was asked for. Its page stays empty until the run is scheduled.
    """

    status_url: str
