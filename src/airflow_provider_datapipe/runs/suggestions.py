"""Suggestions for an ID that the service does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote

from airflow_provider_datapipe.api.endpoints import (
    connections,
    elt_streams,
    elt_syncs,
    orchestrations,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import list_all
from airflow_provider_datapipe.runs.names import near_matches

#: Most resources that are compared, and most that a message lists.
_COMPARED = 1000
_LISTED = 5


class _Resources(NamedTuple):
    """
    Resources of one kind.

    :param listing: function that returns the request for their list.
    :param name: function that returns the name of one of them; None for no name.
    """

    listing: Callable[[], Request[Any]]
    name: Callable[[Any], str | None]


_RESOURCES: dict[str, _Resources] = {
    "connections": _Resources(connections.list_, lambda each: each.label),
    "elt_streams": _Resources(elt_streams.list_, lambda each: each.name),
    "elt_syncs": _Resources(elt_syncs.list_, lambda each: each.destination_schema_name),
    "orchestrations": _Resources(orchestrations.list_, lambda each: each.name),
    "reverse_etl_syncs": _Resources(reverse_etl_syncs.list_, lambda each: None),
    "transforms": _Resources(transforms.list_, lambda each: f"{each.folder_path}/{each.name}".lstrip("/")),
}
#: Kind of resource that a query parameter or a field of a body names.
_FIELDS = {
    "connection_id": "connections",
    "destination_connection_id": "connections",
    "elt_stream_id": "elt_streams",
    "elt_sync_id": "elt_syncs",
    "orchestration_id": "orchestrations",
    "orchestration_workflow_id": "orchestrations",
    "reverse_etl_sync_id": "reverse_etl_syncs",
    "transform_id": "transforms",
}


async def suggest_ids(error: NotFoundError) -> None:
    """
    Add the IDs to an error that the user may have meant.

    :param error: the error. A message with suggestions stays as it is.
    """
    request, error.request = error.request, None
    for kind, wanted in _ids_of(request) if request is not None else ():
        # An error of the search must not replace the original error.
        with suppress(DatapipeError):
            listing = replace(_RESOURCES[kind].listing(), once=True)
            known = await list_all(listing, limit=_COMPARED)
            names = {each.id: _RESOURCES[kind].name(each) for each in known}
            if wanted not in names and (line := _suggestion(wanted, names)):
                error.add_detail(line)
                return


def _ids_of(request: Request[Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the ID of each resource that a request names."""
    template, path = request.endpoint.path.split("/"), request.path.split("/")
    for position, part in enumerate(template[1:], start=1):
        if part == "{id}" and template[position - 1] in _RESOURCES:
            yield template[position - 1], unquote(path[position])
    body = {} if request.body is None else request.body.as_json()
    for field, value in (*request.query, *body.items()):
        if field in _FIELDS and isinstance(value, str):
            yield _FIELDS[field], value


def _suggestion(wanted: str, names: Mapping[str, str | None]) -> str | None:
    """
    Return the line with the IDs that are similar, or else with all IDs if there are few.

    :param wanted: the unknown ID.
    :param names: names of the known resources by their IDs.
    """
    spellings: dict[str, str] = {}
    for resource_id, name in names.items():
        for spelling in filter(None, (resource_id, name, name and name.rpartition("/")[2])):
            spellings.setdefault(spelling, resource_id)
    similar = list(dict.fromkeys(spellings[match] for match in near_matches(wanted, spellings)))
    if similar:
        return f"Did you mean {' or '.join(_named(each, names[each]) for each in similar)}?"
    if 0 < len(names) <= _LISTED:
        return f"The service has {', '.join(_named(each, name) for each, name in names.items())}."
    return None


def _named(resource_id: str, name: str | None) -> str:
    return f"{resource_id} (named {name})" if name and name != resource_id else resource_id
