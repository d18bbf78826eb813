"""Declaration and registry of endpoint functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError

from airflow_provider_datapipe.api.errors import InvalidInputError, one_line
from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.query import Query
from airflow_provider_datapipe.api.request import Endpoint, Repeat, Request

P = ParamSpec("P")
T = TypeVar("T")

#: All endpoints by name. Complete after the import of :mod:`airflow_provider_datapipe.api.endpoints`.
DECLARED: dict[str, Endpoint[Any]] = {}

#: Endpoint functions by endpoint name.
FUNCTIONS: dict[str, Callable[..., Request[Any]]] = {}

_PLAIN_WORDS = {"missing": "is required", "extra_forbidden": "is not a field of the interface"}


@dataclass(frozen=True, slots=True)
class Parts:
    """
    Parts of a request, as an endpoint function builds them from its arguments.

    :param path: values of the fields in the path template.
    :param query: fields of :class:`~airflow_provider_datapipe.api.models.query.Query`; None omits an optional field.
    :param body: JSON body.
    """

    path: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Body | None = None


def endpoint(
    method: str, path: str, *, answer: type[T], repeat: Repeat
) -> Callable[[Callable[P, Parts]], Callable[P, Request[T]]]:
    """
    Turn a function that returns :class:`Parts` into an endpoint function, and register it.

    The endpoint function raises :class:`~airflow_provider_datapipe.api.errors.InvalidInputError` for arguments that
    violate a rule.

    :param method: HTTP method.
    :param path: path template relative to the base URL.
    :param answer: response type.
    :param repeat: effect of sending the request twice.
    """

    def declare(function: Callable[P, Parts]) -> Callable[P, Request[T]]:
        # The underscore of ``list_`` avoids the name of the builtin; the endpoint's name is ``elt_syncs.list``.
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__.rstrip('_')}"
        parameters = inspect.signature(function).parameters
        required = {parameter.name for parameter in parameters.values() if parameter.default is parameter.empty}
        declared = Endpoint(name, method, path, answer, repeat, takes_limit="limit" in parameters)

        @functools.wraps(function)
        def build(*args: P.args, **kwargs: P.kwargs) -> Request[T]:
            try:
                parts = function(*args, **kwargs)
                # Keep None for required values, so that validation rejects it.
                given = {key: value for key, value in parts.query.items() if value is not None or key in required}
                query = Query.model_validate(given).as_json() if given else {}
                return Request.to(declared, path=parts.path, query=query, body=parts.body)
            except ValidationError as error:
                raise InvalidInputError(f"{name}: {_broken_rules(error)}. Nothing was sent.") from None
            except ValueError as error:
                raise InvalidInputError(f"{name}: {one_line(str(error))}. Nothing was sent.") from None

        DECLARED[name] = declared
        FUNCTIONS[name] = build
        return build

    return declare


def _broken_rules(error: ValidationError) -> str:
    """Return the violated rules by field, without the values, which may be secret."""
    problems = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"])
        rule = _PLAIN_WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        problems.append(f"{where}: {rule}" if where else rule)
    return one_line("; ".join(problems), longest=300)
