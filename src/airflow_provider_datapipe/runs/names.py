"""Search for resources by their exact names. Errors suggest similar names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from airflow_provider_datapipe.api.endpoints import connections, elt_streams, elt_syncs, orchestrations, transforms
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import EltSync
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.flows import list_all, send

T = TypeVar("T")


class _Resource(Protocol):
    @property
    def id(self) -> str:
        """ID of the resource."""


R = TypeVar("R", bound=_Resource)

#: The most similar names in an error.
_LISTED = 5


class NameLookupError(DatapipeError):
    """The name does not identify exactly one resource."""


class UnknownNameError(NameLookupError):
    """No resource has the name."""


class AmbiguousNameError(NameLookupError):
    """Several resources have the name."""


def near_matches(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the names that are most similar to the wanted one, ignoring case."""
    by_folded = {name.casefold(): name for name in known}
    matches = difflib.get_close_matches(wanted.casefold(), by_folded, n=_LISTED, cutoff=0.5)
    return [by_folded[match] for match in matches]


def _one(what: str, wanted: str, found: Sequence[T], described: Sequence[str], known: Iterable[str]) -> T:
    """
    Return the only resource with a name.

    :param what: noun for messages.
    :param wanted: the name.
    :param found: the resources that have the name.
    :param described: a distinct text for each of them, for the error if there are several.
    :param known: names of all resources, for the error if there is none.
    """
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(sorted(described)[:_LISTED])
        raise AmbiguousNameError(f"{wanted!r} is the name of more than one {what}: {listed}. Use the ID.")
    names = sorted(set(known))
    if near := near_matches(wanted, names):
        hint = f"Did you mean {' or '.join(near)}?"
    else:
        hint = f"There is {', '.join(names[:_LISTED])}." if names else "There are none."
    raise UnknownNameError(f"There is no {what} named {wanted!r}. {hint}")


def _named(what: str, wanted: str, known: Sequence[R], name_of: Callable[[R], str | None]) -> R:
    """Return the only resource with a name, which :func:`name_of` returns."""
    found = [each for each in known if name_of(each) == wanted]
    return _one(what, wanted, found, [each.id for each in found], filter(None, map(name_of, known)))


async def find_connection(label: str) -> Connection:
    """
    Find a connection to an external system.

    :param label: exact label of the connection.
    :raises NameLookupError: if no connection or several connections have the label.
    """
    known = await list_all(connections.list_())
    return _named("connection", label, known, lambda each: each.label)


async def find_elt_sync(destination_schema_name: str, connection_id: str | None = None) -> EltSync:
    """
    Find an ELT sync by its schema in the warehouse, because it has no name.

    :param destination_schema_name: exact name of the schema.
    :param connection_id: ID of its source connection; None for any.
    :raises NameLookupError: if no sync or several syncs load into the schema.
    """
    known = await list_all(elt_syncs.list_(connection_id=connection_id))
    return _named("ELT sync", destination_schema_name, known, lambda each: each.destination_schema_name)


async def streams_of(sync_id: str) -> list[EltStream]:
    """
    Return the streams of a sync.

    :param sync_id: ID of the sync.
    :raises NotFoundError: if the sync does not exist.
    """
    streams = await list_all(elt_streams.list_(elt_sync_id=sync_id))
    if not streams:
        # The list of an unknown sync is also empty: raise if the sync does not exist.
        await send(elt_syncs.get(sync_id))
    return streams


async def find_stream(sync_id: str, name: str) -> EltStream:
    """
    Find a stream of a sync.

    :param sync_id: ID of the sync.
    :param name: exact name of the stream.
    :raises NotFoundError: if the sync does not exist.
    :raises NameLookupError: if no stream or several streams of the sync have the name.
    """
    return _named(f"stream of ELT sync {sync_id}", name, await streams_of(sync_id), lambda each: each.name)


async def find_orchestration(name: str) -> Orchestration:
    """
    Find an orchestration.

    :param name: exact name of the orchestration.
    :raises NameLookupError: if no orchestration or several orchestrations have the name.
    """
    return _named("orchestration", name, await list_all(orchestrations.list_()), lambda each: each.name)


async def find_transform(name: str, folder_path: str | None = None) -> Transform:
    """
    Find a transform.

    :param name: exact name of the transform.
    :param folder_path: exact path of its folder; None for any.
    :raises NameLookupError: if no transform or several transforms have the name.
    """
    named = await list_all(transforms.list_(name=name, folder_path=folder_path))
    found = [each for each in named if each.name == name and folder_path in (None, each.folder_path)]
    # Other transforms are needed only for the error message.
    known = named if found else await list_all(transforms.list_())
    wanted = name if folder_path is None else f"{folder_path}/{name}"
    return _one("transform", wanted, found, _paths(found), _paths(known))


def _paths(listed: Iterable[Transform]) -> list[str]:
    return [f"{each.folder_path}/{each.name}".lstrip("/") for each in listed]
