"""What is asked of the service, without asking it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from airflow_provider_datapipe.api.models.common import Body

T = TypeVar("T")

#: The answer of endpoints that answer 204.
NO_CONTENT = type(None)


class Repeat(Enum):
    """How safe a request is to send again when nobody knows whether it was carried out."""

    #: Changes nothing.
    READ = auto()
    #: Carried out twice, it leaves what it leaves when carried out once.
    IDEMPOTENT = auto()
    #: Carried out twice, it may start two runs.
    STARTS_A_RUN = auto()
    #: Carried out twice, it creates two things.
    CREATES = auto()

    @property
    def is_safe(self) -> bool:
        """Whether sending again does no harm, whatever became of the first time."""
        return self in (Repeat.READ, Repeat.IDEMPOTENT)


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[T]):
    """
    One endpoint of the interface.

    :param name: module and function, such as ``elt_streams.request_run``.
    :param method: HTTP method.
    :param path: path template below the base address, such as ``/elt_streams/{id}``.
    :param answer: how to read the answer: a model, or ``NO_CONTENT``.
    :param repeat: how safe it is to send again.
    :param takes_limit: whether the query parameter ``limit`` is known to it, as to most lists.
    """

    name: str
    method: str
    path: str
    answer: type[T]
    repeat: Repeat
    takes_limit: bool = True


def quoted(name: str, value: object) -> str:
    """
    Quote an id for use as one segment of a path.

    :param name: the field of the path template, for the message.
    :param value: the id.
    :raises ValueError: the id is no text, empty, or a dot segment, which would name another resource.
    """
    if not isinstance(value, str):
        raise ValueError(f"{name}: a value of type {type(value).__name__} is not an id")  # noqa: TRY004 - a rule, as all
    if value in ("", ".", ".."):
        raise ValueError(f"{name}: {value!r} is not an id")
    return quote(value, safe="")


def _text(value: Any) -> str:
    """Write the value of a query parameter as JSON would."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """
    One request; equal requests ask the same.

    :param endpoint: what is called.
    :param path: path below the base address, quoted.
    :param query: query parameters, in order.
    :param body: JSON body.
    :param origin: the only origin that it may be sent to, None for that of the client.
    :param once: whether the client leaves it to the caller to send it again, as a wait does that looks again anyway.
    """

    endpoint: Endpoint[T]
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Body | None = None
    origin: str | None = None
    once: bool = False

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
        Fill an endpoint's template.

        :param path: values of the template's fields.
        :param query: query parameters; those that are None are left out.
        :param body: JSON body.
        :raises ValueError: a value of the path is not an id.
        """
        filled = endpoint.path.format(**{name: quoted(name, value) for name, value in (path or {}).items()})
        present = tuple((name, _text(value)) for name, value in (query or {}).items() if value is not None)
        return cls(endpoint, filled, present, body)

    @property
    def label(self) -> str:
        """Method and path, for messages."""
        return f"{self.endpoint.method} {self.path}"

    def read_as(self, answer: type[Any]) -> Request[Any]:
        """Give the same request with another reading of its answer, such as one that leaves out what is not needed."""
        return replace(self, endpoint=replace(self.endpoint, answer=answer))

    def with_query(self, **changed: str | int) -> Request[T]:
        """Give the same request with some query parameters set."""
        kept = dict(self.query) | {name: str(value) for name, value in changed.items()}
        return replace(self, query=tuple(kept.items()))
