"""Request descriptions, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from airflow_provider_datapipe.api.models.common import Body

T = TypeVar("T")

#: Response type of endpoints without response content (204).
NO_CONTENT = type(None)


class Repeat(Enum):
    """Effect of sending a request twice, when the outcome of the first attempt is unknown."""

    #: Read-only.
    READ = auto()
    #: A second execution has no further effect.
    IDEMPOTENT = auto()
    #: A second execution may start a second run.
    STARTS_A_RUN = auto()
    #: A second execution creates a second resource.
    CREATES = auto()

    @property
    def is_safe(self) -> bool:
        """True if the request can be repeated without side effects, regardless of the outcome of the first attempt."""
        return self in (Repeat.READ, Repeat.IDEMPOTENT)


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[T]):
    """
    One endpoint of the interface.

    :param name: module and function, such as ``elt_streams.request_run``.
    :param method: HTTP method.
    :param path: path template relative to the base URL, such as ``/elt_streams/{id}``.
    :param answer: response type: a model, or ``NO_CONTENT``.
    :param repeat: effect of sending the request twice.
    :param takes_limit: True if the endpoint accepts the query parameter ``limit``, as most lists do.
    """

    name: str
    method: str
    path: str
    answer: type[T]
    repeat: Repeat
    takes_limit: bool = True


def quoted(name: str, value: object) -> str:
    """
    Quote an ID as one path segment.

    :param name: field of the path template, for the message.
    :param value: the ID.
    :raises ValueError: if the ID is not text, is empty, or is a dot segment, which would address another resource.
    """
    if not isinstance(value, str):
        raise ValueError(f"{name}: a value of type {type(value).__name__} is not an id")  # noqa: TRY004 - see docstring
    if value in ("", ".", ".."):
        raise ValueError(f"{name}: {value!r} is not an id")
    return quote(value, safe="")


def _text(value: Any) -> str:
    """Return the text of a query parameter value; booleans are written as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """
    One request, comparable by value.

    :param endpoint: the endpoint.
    :param path: quoted path relative to the base URL.
    :param query: query parameters, in order.
    :param body: JSON body, None for no body.
    :param origin: the only origin that may receive the request; None for the origin of the client.
    :param once: True to disable the client's retries, for callers that retry themselves, such as polls.
    :param permit_by: time until which the request may wait for the rate limit, in seconds since the epoch; None for no
        limit.
    """

    endpoint: Endpoint[T]
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Body | None = None
    origin: str | None = None
    once: bool = False
    permit_by: float | None = field(default=None, compare=False)

    @classmethod
    def to(
        cls,
        endpoint: Endpoint[T],
        *,
        path: Mapping[str, object] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Body | None = None,
    ) -> Request[T]:
        """
        Return a request of an endpoint.

        :param endpoint: the endpoint.
        :param path: values of the fields in the path template.
        :param query: query parameters; those with the value None are omitted.
        :param body: JSON body.
        :raises ValueError: if a path value is not a valid ID.
        """
        filled = endpoint.path.format(**{name: quoted(name, value) for name, value in (path or {}).items()})
        present = tuple((name, _text(value)) for name, value in (query or {}).items() if value is not None)
        return cls(endpoint, filled, present, body)

    @property
    def label(self) -> str:
        """Method and path, for messages."""
        return f"{self.endpoint.method} {self.path}"

    def repeatable(self) -> Request[T]:
        """Return the same request marked as idempotent, because its arguments make it so."""
        return replace(self, endpoint=replace(self.endpoint, repeat=Repeat.IDEMPOTENT))

    def read_as(self, answer: type[Any]) -> Request[Any]:
        """Return the same request with another response type, such as one that parses only the needed fields."""
        return replace(self, endpoint=replace(self.endpoint, answer=answer))

    def with_query(self, **changed: str | int) -> Request[T]:
        """Return the same request with the given query parameters set."""
        kept = dict(self.query) | {name: str(value) for name, value in changed.items()}
        return replace(self, query=tuple(kept.items()))
