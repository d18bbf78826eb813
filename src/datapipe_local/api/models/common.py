"""Response schemas that all resources share, and the serializer from records to response bodies."""

from __future__ import annotations

from typing import Annotated, Any, Generic, NotRequired, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

T = TypeVar("T")
Json: TypeAlias = dict[str, Any]

#: Decorator that forbids undeclared fields in a ``TypedDict``.
dto = with_config(ConfigDict(extra="forbid"))

#: Timestamp: ISO 8601, UTC, milliseconds, ``Z``.
Moment = Annotated[
    str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$", json_schema_extra={"format": "date-time"})
]
Count = Annotated[int, Field(ge=0)]
#: Object with fields that this document does not define.
AnyObject = dict[str, Any]


@dto
class PageDto(TypedDict, Generic[T]):
    """Page of a list, with both spellings of the envelope."""

    data: list[T]
    has_more: bool
    hasMore: bool
    next_cursor: NotRequired[str]
    nextCursor: NotRequired[str]


@dto
class ListDto(TypedDict, Generic[T]):
    """List without pages."""

    data: list[T]


@dto
class ErrorDto(TypedDict):
    """Error of a refused request."""

    error_code: str
    message: str


@dto
class RunConflictDto(TypedDict):
    """Conflict with an active or scheduled run. ``active_run_id`` is missing until the run starts."""

    error_code: str
    message: str
    active_run_id: NotRequired[str]


@dto
class RequestRunDto(TypedDict):
    """Status URL of a requested run."""

    status_url: str


def present(body: Json) -> Json:
    """Return the body without fields that are None."""
    return {name: value for name, value in body.items() if value is not None}


def serialized(schema: type, record: object, **computed: Any) -> Json:
    """
    Return the response body of a record: the fields of a schema, without those that are None.

    :param schema: Schema of the response, a ``TypedDict``.
    :param record: Object with an attribute for each field that is not computed.
    :param computed: Values of fields that the record does not have, or that differ from it.
    """
    names = schema.__annotations__
    return present({name: computed[name] if name in computed else getattr(record, name) for name in names})
