"""What the answers of all resources share."""

from __future__ import annotations

from typing import Annotated, Any, Generic, NotRequired, TypeVar

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

T = TypeVar("T")

#: Makes a ``TypedDict`` one that has no other fields than it names.
dto = with_config(ConfigDict(extra="forbid"))

#: A time: ISO 8601, UTC, milliseconds, ``Z``.
Moment = Annotated[
    str,
    Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$", json_schema_extra={"format": "date-time"}),
]
Count = Annotated[int, Field(ge=0)]
#: An object whose fields are others' business.
AnyObject = dict[str, Any]


@dto
class PageDto(TypedDict, Generic[T]):
    """A page of a list, with both spellings of the envelope."""

    data: list[T]
    has_more: bool
    hasMore: bool
    next_cursor: NotRequired[str]
    nextCursor: NotRequired[str]


@dto
class ListDto(TypedDict, Generic[T]):
    """A list that has no pages."""

    data: list[T]


@dto
class ErrorDto(TypedDict):
    """Why a request was refused."""

    error_code: str
    message: str


@dto
class RunConflictDto(TypedDict):
    """A run is active or scheduled already; the id is there once the run is."""

    error_code: str
    message: str
    active_run_id: NotRequired[str]


@dto
class RequestRunDto(TypedDict):
    """Where a run that was asked for will appear."""

    status_url: str
