"""Finding by name what the interface knows by id: exact, or an error that says what is near."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from airflow_provider_datapipe.api.endpoints import connections, elt_streams, elt_syncs, orchestrations, transforms
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import EltSync
from airflow_provider_datapipe.api.models.orchestrations import Orchestration
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.runs.steps import Steps, ask_all

T = TypeVar("T")

#: How many near matches an error lists.
_LISTED = 5


class NameLookupError(DatapipeError):
    """A name does not lead to one resource."""


class UnknownNameError(NameLookupError):
    """No resource has the name."""


class AmbiguousNameError(NameLookupError):
    """Several resources have the name."""


def near_matches(wanted: str, known: Iterable[str]) -> list[str]:
    """Give the names that are most like the wanted one, in any case."""
    by_folded = {name.casefold(): name for name in known}
    matches = difflib.get_close_matches(wanted.casefold(), by_folded, n=_LISTED, cutoff=0.5)
    return [by_folded[match] for match in matches]


def _one(what: str, wanted: str, found: Sequence[T], known: Sequence[T], describe: Callable[[T], str]) -> T:
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(sorted(describe(item) for item in found)[:_LISTED])
        raise AmbiguousNameError(
            f"{wanted!r} is the name of more than one {what}: {listed}. Say which, or give the id."
        )
    names = sorted({describe(item) for item in known})
    if near := near_matches(wanted, names):
        hint = f"Near to it: {', '.join(near)}."
    else:
        hint = f"There is {', '.join(names[:_LISTED])}." if names else "There are none at all."
    raise UnknownNameError(f"There is no {what} named {wanted!r}. {hint}")


def find_connection(label: str) -> Steps[Connection]:
    """
    Find a connection to an external system.

    :param label: its label, exactly.
    :raises NameLookupError: none has the label, or several have.
    """
    known = yield from ask_all(connections.list_())
    found = [connection for connection in known if connection.label == label]
    if len(found) > 1:
        return _one("connection", label, found, known, lambda item: item.id)
    labelled = [connection for connection in known if connection.label]
    return _one("connection", label, found, labelled, lambda item: str(item.label))


def find_elt_sync(destination_schema_name: str, connection_id: str | None = None) -> Steps[EltSync]:
    """
    Find an ELT sync: it has no name, but a schema in the warehouse.

    :param destination_schema_name: its schema, exactly.
    :param connection_id: id of the source connection that it reads; None for any.
    :raises NameLookupError: none fills the schema, or several do.
    """
    known = yield from ask_all(elt_syncs.list_(connection_id=connection_id))
    found = [sync for sync in known if sync.destination_schema_name == destination_schema_name]
    if len(found) > 1:
        return _one("ELT sync", destination_schema_name, found, known, lambda item: item.id)
    named = [sync for sync in known if sync.destination_schema_name]
    return _one("ELT sync", destination_schema_name, found, named, lambda item: str(item.destination_schema_name))


def find_stream(sync_id: str, name: str) -> Steps[EltStream]:
    """
    Find a stream of a sync.

    :param sync_id: id of the sync.
    :param name: name of the stream, exactly.
    :raises NameLookupError: no stream of the sync has the name.
    """
    streams = yield from ask_all(elt_streams.list_(elt_sync_id=sync_id))
    found = [stream for stream in streams if stream.name == name]
    return _one(f"stream of ELT sync {sync_id}", name, found, streams, lambda stream: stream.name)


def find_orchestration(name: str) -> Steps[Orchestration]:
    """
    Find an orchestration.

    :param name: its name, exactly.
    :raises NameLookupError: none has the name, or several have.
    """
    known = yield from ask_all(orchestrations.list_())
    found = [orchestration for orchestration in known if orchestration.name == name]
    if len(found) > 1:
        return _one("orchestration", name, found, known, lambda item: item.id)
    return _one("orchestration", name, found, known, lambda item: item.name)


def find_transform(name: str, folder_path: str | None = None) -> Steps[Transform]:
    """
    Find a transform.

    :param name: its name, exactly.
    :param folder_path: its folder, exactly; None for any.
    :raises NameLookupError: none has the name, or several have.
    """
    named = yield from ask_all(transforms.list_(name=name, folder_path=folder_path))
    found = [
        transform for transform in named if transform.name == name and folder_path in (None, transform.folder_path)
    ]
    # Only for the error: what else there is.
    known = named if found else (yield from ask_all(transforms.list_()))
    wanted = name if folder_path is None else f"{folder_path}/{name}"
    return _one("transform", wanted, found, known, lambda item: f"{item.folder_path}/{item.name}".lstrip("/"))
