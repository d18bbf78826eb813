"""Calls of any endpoint of the interface by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from airflow_provider_datapipe.api.endpoints import FUNCTIONS
from airflow_provider_datapipe.api.errors import InvalidInputError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.resources.base import shown
from airflow_provider_datapipe.resources.template_values import flag, mapping, number
from airflow_provider_datapipe.runs.names import near_matches
from airflow_provider_datapipe.runs.targets import required


async def call(endpoint: str | None, arguments: Any, *, all_pages: Any, limit: Any) -> Any:
    """
    Call an endpoint and return its response as JSON, or the items of a list endpoint's pages.

    :param endpoint: name of the endpoint, such as ``elt_syncs.list``.
    :param arguments: arguments of the endpoint's function, by name.
    :param all_pages: if True, all pages of a list are read.
    :param limit: the most items of a list to read; None for no limit.
    :raises InvalidInputError: if there is no such endpoint, or it does not accept the arguments. Nothing was sent.
    """
    name = required("endpoint", endpoint)
    every, most = flag("all_pages", all_pages), None if limit is None else number("limit", limit, least=1)
    request = _request(name, mapping("arguments", {} if arguments is None else arguments))
    if not every and most is None:
        return shown(await send(request))
    if not issubclass(request.endpoint.answer, Page):
        raise InvalidInputError(f"{name} does not return a list: remove all_pages and limit. Nothing was sent.")
    return shown(await list_all(request, limit=most))


def _request(name: str, arguments: dict[str, Any]) -> Request[Any]:
    function = FUNCTIONS.get(name)
    if function is None:
        near = near_matches(name, FUNCTIONS)
        hint = f"Did you mean {' or '.join(near)}?" if near else "The documentation lists all of them."
        raise InvalidInputError(f"There is no endpoint named {name!r}. {hint} Nothing was sent.")
    _check_arguments(name, function, arguments)
    return function(**arguments)


def _check_arguments(name: str, function: Callable[..., Request[Any]], arguments: dict[str, Any]) -> None:
    known = inspect.signature(function).parameters
    needed = [each.name for each in known.values() if each.default is each.empty]
    unknown = [each for each in arguments if each not in known]
    missing = [each for each in needed if each not in arguments]
    if not unknown and not missing:
        return
    wrong = [f"does not accept {', '.join(map(repr, unknown))}"] if unknown else []
    wrong += [f"requires {', '.join(missing)}"] if missing else []
    takes = ", ".join(f"{each} (required)" if each in needed else each for each in known) or "none"
    raise InvalidInputError(f"{name} {' and '.join(wrong)}. Arguments: {takes}. Nothing was sent.")
