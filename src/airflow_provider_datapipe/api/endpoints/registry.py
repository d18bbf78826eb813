"""How an endpoint is declared: once, as a function that does no I/O."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.request import Endpoint, Repeat, Request

P = ParamSpec("P")
T = TypeVar("T")

#: Every declared endpoint, by its name. Complete once :mod:`airflow_provider_datapipe.api.endpoints` is imported.
DECLARED: dict[str, Endpoint[Any]] = {}


@dataclass(frozen=True, slots=True)
class Parts:
    """
    What the arguments of an endpoint function become.

    :param path: values of the path template's fields.
    :param query: query parameters; None leaves one out.
    :param body: JSON body.
    """

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Body | None = None


def endpoint(
    method: str, path: str, *, answer: type[T], repeat: Repeat
) -> Callable[[Callable[P, Parts]], Callable[P, Request[T]]]:
    """
    Turn a function that sorts its arguments into :class:`Parts` into an endpoint function, and register it.

    :param method: HTTP method.
    :param path: path template below the base address.
    :param answer: how to read the answer.
    :param repeat: how safe it is to send again.
    """

    def declare(function: Callable[P, Parts]) -> Callable[P, Request[T]]:
        # ``list_`` avoids the builtin's name; users say ``elt_syncs.list``.
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__.rstrip('_')}"
        declared = Endpoint(name, method, path, answer, repeat)
        DECLARED[name] = declared

        @functools.wraps(function)
        def build(*args: P.args, **kwargs: P.kwargs) -> Request[T]:
            parts = function(*args, **kwargs)
            return Request.to(declared, path=parts.path, query=parts.query, body=parts.body)

        return build

    return declare
