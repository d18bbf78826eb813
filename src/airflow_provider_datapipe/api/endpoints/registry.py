"""Declaration and registry of endpoint functions."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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

#: Places of the arguments by endpoint name.
ARGUMENTS: dict[str, Arguments] = {}

_PATH_FIELD = re.compile(r"{(\w+)}")

_PLAIN_WORDS = {"missing": "is required", "extra_forbidden": "is not a field of the interface"}


@dataclass(frozen=True, slots=True)
class Arguments:
    """
    Places of an endpoint function's arguments in a request.

    :param path: field of the path template by argument.
    :param query: arguments that are fields of :class:`~airflow_provider_datapipe.api.models.query.Query`.
    :param body: model of the JSON body, whose fields are arguments; None without a body.
    :param body_is_optional: True if the body is omitted when it would be empty.
    """

    path: Mapping[str, str]
    query: frozenset[str]
    body: type[Body] | None
    body_is_optional: bool

    @classmethod
    def of(cls, names: Iterable[str], path: str, body: type[Body] | None, *, body_is_optional: bool) -> Arguments:
        """
        Return the places of arguments: first the fields of the path, then fields of the body or the query.

        :param names: names of the arguments.
        :param path: path template.
        :param body: model of the JSON body.
        :param body_is_optional: True if the body is omitted when it would be empty.
        """
        in_path = dict(zip(names, _PATH_FIELD.findall(path), strict=False))
        in_body = body.model_fields if body else {}
        in_query = frozenset(name for name in names if name not in in_path and name not in in_body)
        return cls(in_path, in_query, body, body_is_optional)

    def path_of(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the values of the path template."""
        return {field: values[name] for name, field in self.path.items()}

    def query_of(self, values: Mapping[str, object], required: frozenset[str]) -> dict[str, Any]:
        """
        Return the query parameters. Optional ones that are None are omitted.

        :param values: values of all arguments.
        :param required: arguments without a default. They are kept if they are None, so that validation rejects it.
        """
        given = {name: values[name] for name in self.query if values[name] is not None or name in required}
        return Query.model_validate(given).as_json() if given else {}

    def body_of(self, values: Mapping[str, object]) -> Body | None:
        """Return the body, or None without one."""
        if self.body is None:
            return None
        body = self.body.of(**{name: values[name] for name in self.body.model_fields})
        return None if self.body_is_optional and not body.model_fields_set else body


def endpoint(
    method: str,
    path: str,
    *,
    answer: type[T],
    repeat: Repeat,
    body: type[Body] | None = None,
    body_is_optional: bool = False,
) -> Callable[[Callable[P, None]], Callable[P, Request[T]]]:
    """
    Turn a declaration into an endpoint function, and register it.

    The declaration is a function without code: its signature has the arguments, its docstring their meaning. The first
    arguments are the fields of the path; the others are fields of the body or query parameters, by name. The endpoint
    function raises :class:`~airflow_provider_datapipe.api.errors.InvalidInputError` for arguments that violate a rule.

    :param method: HTTP method.
    :param path: path template relative to the base URL.
    :param answer: response type.
    :param repeat: effect of sending the request twice.
    :param body: model of the JSON body, None for requests without a body.
    :param body_is_optional: True to omit the body when it would be empty.
    """

    def declare(function: Callable[P, None]) -> Callable[P, Request[T]]:
        # The underscore of ``list_`` avoids the name of the builtin; the endpoint's name is ``elt_syncs.list``.
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__.rstrip('_')}"
        parameters = inspect.signature(function).parameters
        defaults = {each.name: each.default for each in parameters.values() if each.default is not each.empty}
        required = frozenset(parameters.keys() - defaults.keys())
        places = Arguments.of(parameters, path, body, body_is_optional=body_is_optional)
        declared = Endpoint(name, method, path, answer, repeat, takes_limit="limit" in parameters)

        @functools.wraps(function)
        def build(*args: P.args, **kwargs: P.kwargs) -> Request[T]:
            # Python checks the names and the number of arguments.
            function(*args, **kwargs)
            values = defaults | dict(zip(parameters, args, strict=False)) | kwargs
            try:
                return Request.to(
                    declared,
                    path=places.path_of(values),
                    query=places.query_of(values, required),
                    body=places.body_of(values),
                )
            except ValidationError as error:
                raise InvalidInputError(f"{name}: {_broken_rules(error)}. Nothing was sent.") from None
            except ValueError as error:
                raise InvalidInputError(f"{name}: {one_line(str(error))}. Nothing was sent.") from None

        DECLARED[name] = declared
        FUNCTIONS[name] = build
        ARGUMENTS[name] = places
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
