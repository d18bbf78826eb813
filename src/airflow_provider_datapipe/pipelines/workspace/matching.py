"""Matching of the entries of a workspace file with the resources of the service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_datapipe.api.models.formats.yaml_reader import Location
from airflow_provider_datapipe.pipelines.workspace.document import Problem
from airflow_provider_datapipe.pipelines.workspace.models import (
    ELT_SYNCS,
    ORCHESTRATIONS,
    REVERSE_ETL_SYNCS,
    EltSyncEntry,
    OrchestrationEntry,
    ReverseEtlSyncEntry,
    StreamEntry,
    Workspace,
)
from airflow_provider_datapipe.resources.elt_streams import stream_named
from airflow_provider_datapipe.runs.names import near_matches

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.api.models.transforms import Transform
    from airflow_provider_datapipe.pipelines.workspace.current_resources import CurrentResources

K = TypeVar("K", bound=Hashable)

_LISTED = 5
#: Prefix of raw views: services accept it in source IDs, but omit it in responses.
_RAW = "raw."


@dataclass(frozen=True, slots=True)
class OrchestrationReference:
    """
    The orchestration that an entry refers to.

    :param id: its ID; None if it has to be created first, or the entry refers to none.
    :param entry: position in the file of the orchestration to create; None if it exists.
    """

    id: str | None = None
    entry: int | None = None


class Names:
    """
    IDs of resources by their natural keys.

    :param resources: resources of the service.
    """

    def __init__(self, resources: CurrentResources) -> None:
        self.connections = _ids_by_key((each.label, each.id) for each in resources.connections.values() if each.label)
        self.orchestrations = _ids_by_key((each.name, each.id) for each in resources.orchestrations.values())
        self.transforms = _ids_by_key((path_of(each), each.id) for each in resources.transforms.values())
        self.syncs = _ids_by_key((key_of_sync(each), each.id) for each in resources.syncs.values())
        self.reverse_syncs = _ids_by_key(
            (key, each.id) for each in resources.reverse_syncs.values() for key in keys_of_reverse_sync(each)
        )


def _ids_by_key(pairs: Iterable[tuple[K, str]]) -> Mapping[K, list[str]]:
    found: dict[K, list[str]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def path_of(transform: Transform) -> str:
    """Return the folder and name of a transform, as in files."""
    return "/".join([*(part for part in transform.folder_path.split("/") if part), transform.name])


def key_of_sync(sync: EltSync) -> tuple[str, str | None]:
    """Return the natural key of an ELT sync."""
    return sync.source_connection_id, sync.destination_schema_name


def keys_of_reverse_sync(sync: ReverseEtlSync) -> set[tuple[str, str, str]]:
    """Return the natural keys of a reverse ETL sync. There are two if its transform has two IDs."""
    sources = {sync.source_id, sync.transform_id or sync.source_id}
    return {(source, sync.destination_connection_id, sync.object_type_id) for source in sources}


class Matching:
    """
    Resources that match the entries of a file.

    :param workspace: the file.
    :param resources: resources of the service.
    :ivar orchestrations: ID of the orchestration of each entry; None if it does not exist yet.
    :ivar syncs: the same for ELT syncs.
    :ivar reverse_syncs: the same for reverse ETL syncs.
    :ivar problems: entries that cannot be matched.
    """

    def __init__(self, workspace: Workspace, resources: CurrentResources) -> None:
        self._resources = resources
        self.names = Names(resources)
        self.problems: list[Problem] = []
        self._entries = workspace.orchestrations or []
        self.orchestrations = [
            self._orchestration(entry, (ORCHESTRATIONS, place)) for place, entry in enumerate(self._entries)
        ]
        self._refuse_duplicates(ORCHESTRATIONS, self.orchestrations, [(each.name, each.id) for each in self._entries])
        syncs = workspace.elt_syncs or []
        self.connections = [
            self._connection(each.connection_label, each.connection_id, (ELT_SYNCS, place), "connection_label")
            for place, each in enumerate(syncs)
        ]
        self.syncs = [self._sync(each, place) for place, each in enumerate(syncs)]
        new = [
            (connection, each.destination_schema_name, each.id)
            for connection, each in zip(self.connections, syncs, strict=True)
        ]
        self._refuse_duplicates(ELT_SYNCS, self.syncs, new)
        reverse_syncs = workspace.reverse_etl_syncs or []
        self.destinations = [
            self._connection(
                each.destination_connection_label,
                each.destination_connection_id,
                (REVERSE_ETL_SYNCS, place),
                "destination_connection_label",
            )
            for place, each in enumerate(reverse_syncs)
        ]
        self.sources = [self._source(each, place) for place, each in enumerate(reverse_syncs)]
        self.reverse_syncs = [self._reverse_sync(each, place) for place, each in enumerate(reverse_syncs)]
        keys = [
            (source, destination, each.object_type_id, each.id)
            for source, destination, each in zip(self.sources, self.destinations, reverse_syncs, strict=True)
        ]
        self._refuse_duplicates(REVERSE_ETL_SYNCS, self.reverse_syncs, keys)
        self.sync_orchestrations = [self._reference(each, (ELT_SYNCS, place)) for place, each in enumerate(syncs)]
        self.reverse_sync_orchestrations = [
            self._reference(each, (REVERSE_ETL_SYNCS, place)) for place, each in enumerate(reverse_syncs)
        ]
        for place, sync in enumerate(syncs):
            self._refuse_duplicate_streams(sync, place)

    def stream(self, sync_id: str | None, entry: StreamEntry) -> EltStream | None:
        """Return the stream of an entry, None if there is none. Services may ignore the case of names."""
        if sync_id is None or sync_id not in self._resources.streams:
            return None
        return stream_named(self._resources.streams[sync_id].values(), entry.name)

    def _problem(self, location: Location, message: str) -> None:
        self.problems.append(Problem(location, message))

    def _orchestration(self, entry: OrchestrationEntry, location: Location) -> str | None:
        if entry.id is not None:
            return self._by_id(entry.id, self._resources.orchestrations, location, "orchestration")
        found = self.names.orchestrations.get(entry.name, [])
        return self._unique((*location, "name"), "orchestrations have this name", found)

    def _connection(self, label: str | None, given_id: str | None, location: Location, field: str) -> str | None:
        if label is None:
            return given_id
        found = self.names.connections.get(label, [])
        if not found:
            self._unknown((*location, field), "connection", label, self.names.connections)
        return self._unique((*location, field), "connections have this label", found, f"{field[:-5]}id")

    def _sync(self, entry: EltSyncEntry, place: int) -> str | None:
        location: Location = (ELT_SYNCS, place)
        if entry.id is not None:
            return self._by_id(entry.id, self._resources.syncs, location, "ELT sync")
        connection = self.connections[place]
        if connection is None:
            return None
        found = self.names.syncs.get((connection, entry.destination_schema_name), [])
        return self._unique(location, "ELT syncs of this connection load into this schema", found)

    def _source(self, entry: ReverseEtlSyncEntry, place: int) -> str | None:
        if entry.transform is None:
            return entry.source_id
        location: Location = (REVERSE_ETL_SYNCS, place, "transform")
        wanted = "/".join(part for part in entry.transform.split("/") if part)
        found = self.names.transforms.get(wanted) or self.names.transforms.get(entry.transform, [])
        if not found:
            self._unknown(location, "transform", entry.transform, self.names.transforms)
        return self._unique(location, "transforms have this folder and name", found, "source_id")

    def _reverse_sync(self, entry: ReverseEtlSyncEntry, place: int) -> str | None:
        location: Location = (REVERSE_ETL_SYNCS, place)
        if entry.id is not None:
            return self._by_id(entry.id, self._resources.reverse_syncs, location, "reverse ETL sync")
        source, destination = self.sources[place], self.destinations[place]
        if source is None or destination is None:
            return None
        found = (
            self.names.reverse_syncs.get((source, destination, entry.object_type_id))
            or self.names.reverse_syncs.get((source.removeprefix(_RAW), destination, entry.object_type_id))
            or []
        )
        return self._unique(location, "reverse ETL syncs have this source, destination and object type", found)

    def _reference(self, entry: EltSyncEntry | ReverseEtlSyncEntry, location: Location) -> OrchestrationReference:
        if entry.orchestration_id is not None:
            return OrchestrationReference(entry.orchestration_id)
        name = entry.orchestration
        if name is None:
            return OrchestrationReference()
        in_file = [place for place, each in enumerate(self._entries) if each.name == name]
        if len(in_file) == 1:
            known = self.orchestrations[in_file[0]]
            return OrchestrationReference(known, None if known else in_file[0])
        named = self.names.orchestrations.get(name, [])
        new_names = {known: each.name for known, each in zip(self.orchestrations, self._entries, strict=True)}
        found = [each for each in named if new_names.get(each, name) == name]
        if len(found) > 1 or in_file:
            self._ambiguous((*location, "orchestration"), "orchestrations have this name", found, "orchestration_id")
        elif named and not found:
            message = f"the file renames the orchestration {name!r} to {new_names[named[0]]!r}: use the new name"
            self._problem((*location, "orchestration"), message)
        elif not found:
            known_names = dict.fromkeys([*self.names.orchestrations, *(each.name for each in self._entries)])
            self._unknown((*location, "orchestration"), "orchestration", name, known_names)
        return OrchestrationReference(found[0] if len(found) == 1 else None)

    def _by_id(self, wanted: str, known: Mapping[str, object], location: Location, what: str) -> str | None:
        if wanted in known:
            return wanted
        self._problem((*location, "id"), f"the service has no {what} with this id: remove the id to create a new one")
        return None

    def _unique(self, location: Location, what: str, found: Sequence[str], field: str = "id") -> str | None:
        if len(found) > 1:
            self._ambiguous(location, what, found, field)
        return found[0] if len(found) == 1 else None

    def _ambiguous(self, location: Location, what: str, found: Sequence[str], field: str) -> None:
        listed = ", ".join([*sorted(found)[:_LISTED], *["..."] * (len(found) > _LISTED)])
        self._problem(location, f"{len(found)} {what}: {listed}. Set {field} instead")

    def _unknown(self, location: Location, what: str, wanted: str, known: Iterable[str]) -> None:
        names = list(known)
        near = " or ".join(near_matches(wanted, names))
        few = ", ".join(sorted(names)[:_LISTED])
        hint = f"Did you mean {near}?" if near else f"Known names: {few}." if few else "The service has none."
        self._problem(location, f"the service has no {what} named {wanted!r}. {hint}")

    def _refuse_duplicates(self, section: str, found: Sequence[str | None], keys: Sequence[Hashable]) -> None:
        seen: set[Hashable] = set()
        for place, (known, key) in enumerate(zip(found, keys, strict=True)):
            which = ("id", known) if known is not None else ("key", key)
            if which in seen:
                self._problem((section, place), "duplicate of an earlier entry")
            seen.add(which)

    def _refuse_duplicate_streams(self, sync: EltSyncEntry, place: int) -> None:
        seen: set[str] = set()
        known = self._resources.streams.get(self.syncs[place] or "", {})
        for index, entry in enumerate(sync.source_streams or []):
            stream = stream_named(known.values(), entry.name)
            key = entry.name if stream is None else stream.id
            if key in seen:
                self._problem((ELT_SYNCS, place, "source_streams", index), "duplicate of an earlier entry")
            seen.add(key)
