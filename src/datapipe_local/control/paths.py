"""Path patterns, and the recognition of requests of the interface."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from starlette.routing import Match, Route

from datapipe_local.common.errors import BadRequestError
from datapipe_local.storage.ids import RunId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import Scope

_PARAMETER = re.compile(r"\{[^/{}]*\}")
_REST = "**"
#: Query parameters of lists that name the owner, the nearest first.
_OWNERS = ("elt_stream_id", "reverse_etl_sync_id", "orchestration_id", "elt_sync_id")


def matches(pattern: str, path: str) -> bool:
    """
    Return True if a path matches a pattern.

    :param pattern: A path in which ``*`` and ``{id}`` match anything but a slash, and ``**`` matches anything.
    :param path: The path.
    """
    return bool(_compiled(pattern).fullmatch(path))


def could_match(pattern: str, template: str) -> bool:
    """Return True if a pattern can match a path of a route."""
    wanted, segments = _segments(pattern), template.split("/")
    if _REST in wanted:
        return all(map(_meets, wanted[: wanted.index(_REST)], segments))
    return len(wanted) == len(segments) and all(map(_meets, wanted, segments))


class Target(NamedTuple):
    """Subject of a request: a resource, or an orchestration run, whose resource only the store knows."""

    resource_id: str | None
    run_id: str | None = None


class Interface:
    """
    Routes of the interface.

    :param routes: All routes of the interface.
    :param webhooks: The routes of webhook ingestion. Faults apply to them, but the journal does not record them.
    """

    def __init__(self, routes: Iterable[BaseRoute], webhooks: Iterable[BaseRoute] = ()) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]
        self._webhooks = [route for route in webhooks if isinstance(route, Route)]

    def target(self, scope: Scope, query: Mapping[str, str]) -> Target | None:
        """Return the subject of a request; ``None`` if its path does not belong to the interface."""
        for route in self._routes:
            match, found = route.matches(scope)
            if match != Match.NONE:
                return _target(route.path, list(found["path_params"].values()), query)
        return None

    def webhook_connection(self, scope: Scope) -> str | None:
        """Return the connection ID of a webhook request; ``None`` for other requests."""
        for route in self._webhooks:
            match, found = route.matches(scope)
            if match != Match.NONE:
                return str(found["path_params"]["connection_id"])
        return None

    def check_journal(self, pattern: str) -> None:
        """
        Raise if no request in the journal can match a pattern.

        :raises BadRequestError: the pattern matches no path, or only webhooks.
        """
        is_unknown = not any(could_match(pattern, route.path) for route in self._routes)
        if is_unknown and any(could_match(pattern, route.path) for route in self._webhooks):
            raise BadRequestError(
                f"path: {pattern[:200]!r} matches only webhooks, which are not in the journal: read `acted` of the"
                " faults, or the rows of the table."
            )
        self.check("*", pattern)

    def check(self, method: str, pattern: str) -> None:
        """
        Raise if no request can match a pattern.

        :raises BadRequestError: the pattern matches no path, or its paths do not take the method.
        """
        near = [route for route in (*self._routes, *self._webhooks) if could_match(pattern, route.path)]
        if not near:
            raise BadRequestError(f"path: {pattern[:200]!r} matches no path of the interface.")
        methods = set().union(*(route.methods or () for route in near))
        if method != "*" and method not in methods:
            raise BadRequestError(f"method: {pattern[:200]!r} takes {', '.join(sorted(methods))}, not {method}.")


def _target(template: str, parameters: Sequence[str], query: Mapping[str, str]) -> Target:
    if not parameters:
        return Target(next((query[name] for name in _OWNERS if name in query), None))
    if template.startswith("/orchestration_runs/"):
        return Target(None, parameters[0])
    if template.startswith(("/elt_stream_runs/", "/reverse_etl_sync_runs/")):
        try:
            return Target(RunId.parse(parameters[0]).subject_id)
        except BadRequestError:
            return Target(None)
    return Target(parameters[0])


def _segments(pattern: str) -> list[str]:
    return _PARAMETER.sub("*", pattern).split("/")


def _meets(wanted: str, segment: str) -> bool:
    # A parameter of a route is never empty, as it would be in a path with a trailing slash.
    return bool(wanted) if _PARAMETER.fullmatch(segment) else matches(wanted, segment)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*)", _PARAMETER.sub("*", pattern))
    wild = {"*": "[^/]*", _REST: ".*"}
    return re.compile("".join(wild.get(part) or re.escape(part) for part in parts), re.DOTALL)
