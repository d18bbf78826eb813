"""Plans that make the service match a workspace file, with the units of work that apply them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_datapipe.api.endpoints import elt_streams, elt_syncs, reverse_etl_syncs
from airflow_provider_datapipe.pipelines.plan import Action, Item, Plan
from airflow_provider_datapipe.pipelines.workspace import (
    apply_elt_streams,
    apply_elt_syncs,
    apply_orchestrations,
    apply_reverse_etl_syncs,
)
from airflow_provider_datapipe.pipelines.workspace.apply_elt_streams import HIDDEN_STREAM_OPTIONS, STREAM_OPTIONS
from airflow_provider_datapipe.pipelines.workspace.current_resources import (
    CurrentResources,
    read_current_resources,
    read_details,
)
from airflow_provider_datapipe.pipelines.workspace.document import Problem
from airflow_provider_datapipe.pipelines.workspace.matching import Matching, OrchestrationReference, path_of
from airflow_provider_datapipe.pipelines.workspace.models import (
    ELT_SYNCS,
    ORCHESTRATIONS,
    REVERSE_ETL_SYNCS,
    EltSyncEntry,
    Workspace,
    workspace_of,
)
from airflow_provider_datapipe.pipelines.workspace.units import Attached, Key, Unit, deletion, new_fields
from airflow_provider_datapipe.resources import orchestrations
from airflow_provider_datapipe.resources.comparable import UNKNOWN, listed, not_compared, schedule_of_orchestration
from airflow_provider_datapipe.resources.differences import Differences
from airflow_provider_datapipe.resources.reverse_etl_syncs import HIDDEN_INTERVAL, IDLE_INTERVAL

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.pipelines.collect import Runner
    from airflow_provider_datapipe.pipelines.workspace.document import Document

T = TypeVar("T")

ORCHESTRATION, ELT_SYNC, ELT_STREAM, REVERSE_ETL_SYNC = "orchestration", "elt_sync", "elt_stream", "reverse_etl_sync"
_RESEND = "To send it anyway, run `datapipe apply --resend`, or clear the task."
#: The unknown field of each kind of resource, and what the user can do.
_UNKNOWN = {
    ORCHESTRATION: ("cron_schedule of orchestrations", _RESEND),
    ELT_SYNC: ("sync_interval of an ELT sync that is attached to an orchestration", _RESEND),
    ELT_STREAM: ("sync_interval of streams", _RESEND),
    REVERSE_ETL_SYNC: (HIDDEN_INTERVAL, IDLE_INTERVAL),
}


@dataclass(frozen=True, slots=True)
class WorkspacePlan:
    """
    A plan and its units of work.

    :param units: units in the order in which they are applied.
    :param unchanged: items without changes.
    :param warnings: warnings for the user.
    :param sets_enabled: for the ID of each reverse ETL sync of the file, True if the file sets ``enabled``.
    """

    units: tuple[Unit, ...]
    unchanged: tuple[Item, ...]
    warnings: tuple[str, ...]
    sets_enabled: Mapping[str, bool]

    @property
    def plan(self) -> Plan:
        """The plan as it is shown."""
        return Plan(tuple(item for unit in self.units for item in unit.items) + self.unchanged, self.warnings)


def make_plan(
    service: Runner, document: Document, *, delete_orphans: bool = False, resend: bool = False
) -> WorkspacePlan:
    """
    Compare a file with the service.

    :param service: runner of the requests.
    :param document: the file.
    :param delete_orphans: if True, resources that the file does not name are deleted.
    :param resend: if True, schedules that the service does not show are sent even if nothing else differs.
    :raises WorkspaceError: if the file is invalid, by itself or for this service.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    workspace = workspace_of(document)
    resources = service.run(read_current_resources())
    matching = Matching(workspace, resources)
    if matching.problems:
        raise document.error(matching.problems)
    read_details(service, resources, _known(matching.syncs), _known(matching.reverse_syncs))
    planner = _Planner(workspace, resources, delete_orphans=delete_orphans, resend=resend)
    if planner.problems:
        raise document.error(planner.problems)
    return planner.plan()


def _known(ids: Iterable[str | None]) -> list[str]:
    return [each for each in ids if each is not None]


@dataclass(frozen=True, slots=True)
class _Attachment:
    """
    The orchestration that an entry sets.

    :param key: key of the entry.
    :param kind: kind of its resource.
    :param name: name of its resource.
    :param present: its resource; None if it does not exist yet.
    :param wanted: ID of the orchestration that the entry sets; None for none, or for one that has to be created first.
    """

    key: Key
    kind: str
    name: str
    present: EltSync | ReverseEtlSync | None
    wanted: str | None

    def moves_from(self, orchestration_id: str) -> bool:
        """Return True if the entry detaches its resource from this orchestration."""
        present = None if self.present is None else self.present.orchestration_workflow_id
        return present == orchestration_id != self.wanted


class _Planner:
    def __init__(
        self, workspace: Workspace, resources: CurrentResources, *, delete_orphans: bool, resend: bool
    ) -> None:
        self._workspace = workspace
        self._resources = resources
        self._matching = Matching(workspace, resources)
        self._delete = delete_orphans
        self._resend = resend
        #: Streams with options that the service does not show.
        self._hidden: list[str] = []
        #: Names of the resources whose schedule can't be compared and is not sent, by kind.
        self._unknown: dict[str, list[str]] = {}
        self.problems: list[Problem] = list(self._matching.problems)
        self._warnings: list[str] = []
        self._unchanged: list[Item] = []
        self._attachments: list[_Attachment] = []
        if not self.problems:
            self._orchestrations = [self._orchestration(place) for place in range(len(workspace.orchestrations or []))]
            self._syncs = [unit for place in range(len(workspace.elt_syncs or [])) for unit in self._sync(place)]
            self._reverse_syncs = [self._reverse_sync(place) for place in range(len(workspace.reverse_etl_syncs or []))]

    def plan(self) -> WorkspacePlan:
        first, last = self._orphans()
        units = [*first, *self._orchestrations, *self._syncs, *self._reverse_syncs, *last]
        sets_enabled = {
            known: entry.enabled is not None
            for known, entry in zip(self._matching.reverse_syncs, self._workspace.reverse_etl_syncs or [], strict=True)
            if known is not None
        }
        warnings = [*self._warnings]
        if self._hidden:
            warnings.append(
                "The service does not return excluded_columns and hashed_columns of streams, so they cannot be "
                f"compared: apply always sends those of the file ({listed(self._hidden)})."
            )
        warnings += [not_compared(_UNKNOWN[kind][0], names, _UNKNOWN[kind][1]) for kind, names in self._unknown.items()]
        return WorkspacePlan(tuple(units), tuple(self._unchanged), tuple(warnings), sets_enabled)

    def _require_fields(self, section: str, place: int, entry: object, *fields: str) -> None:
        for each in fields:
            if getattr(entry, each) is None:
                self.problems.append(Problem((section, place), f"{each} is required to create this resource"))

    def _orchestration(self, place: int) -> Unit:
        entry = (self._workspace.orchestrations or [])[place]
        known = self._matching.orchestrations[place]
        key: Key = (ORCHESTRATIONS, place)
        if known is None:
            self._require_fields(ORCHESTRATIONS, place, entry, "cron_schedule")
            item = Item(ORCHESTRATION, entry.name, Action.CREATE, tuple(new_fields(entry, ["cron_schedule"])))
            found = Differences()
        else:
            found = orchestrations.compare(
                self._resources.orchestrations[known], name=entry.name, cron_schedule=entry.cron_schedule
            )
            item = self._compared(ORCHESTRATION, entry.name, found)
        work = apply_orchestrations.change(entry, item, key, known=known, differences=found)
        return Unit((item,), work if item.action is not Action.NONE else None, (key,))

    def _compared(self, kind: str, name: str, found: Differences) -> Item:
        """Return the item of a resource that exists. Unknown fields are part of it only if they are sent."""
        # The service ignores the schedule of an attached reverse ETL sync, so do not deactivate the sync to send it.
        found.add_unknown(resend=self._resend and kind != REVERSE_ETL_SYNC)
        if found.unknown:
            self._unknown.setdefault(kind, []).append(name)
        action = Action.UPDATE if found.changes else Action.NONE
        return Item(kind, name, action, tuple(found.changes), reason="; ".join(found.impossible))

    def _sync(self, place: int) -> Iterator[Unit]:
        entry = (self._workspace.elt_syncs or [])[place]
        known, connection_id = self._matching.syncs[place], self._matching.connections[place]
        reference = self._matching.sync_orchestrations[place]
        key: Key = (ELT_SYNCS, place)
        name = self._sync_name(entry.destination_schema_name, connection_id, known)
        if entry.sets_orchestration:
            present = self._resources.syncs.get(known or "")
            self._attachments.append(_Attachment(key, ELT_SYNC, name, present, reference.id))
        found = Differences()
        if known is None:
            self._require_fields(ELT_SYNCS, place, entry, "sync_interval")
            changes = new_fields(entry, ["sync_interval", "enabled", "start_date", "settings"])
            found.compare("orchestration", None, self._reference_name(reference))
            item = Item(ELT_SYNC, name, Action.CREATE, (*changes, *found.changes))
        else:
            current = self._resources.syncs[known]
            names = self._orchestration_name(current.orchestration_workflow_id), self._reference_name(reference)
            found = apply_elt_syncs.compare(entry, current, connection_id=connection_id, orchestration=names)
            item = self._compared(ELT_SYNC, name, found)
        attached = _attached(reference)
        work = apply_elt_syncs.change(
            entry, item, key, known=known, connection_id=connection_id, attached=attached, differences=found
        )
        yield Unit((item,), work if item.action is not Action.NONE else None, (key,), _needs(attached))
        if entry.source_streams:
            yield from self._streams(entry, known, key, entry.destination_schema_name or name)

    def _streams(self, entry: EltSyncEntry, sync_id: str | None, sync_key: Key, schema: str) -> Iterator[Unit]:
        changed: list[apply_elt_streams.StreamWork] = []
        for each in entry.source_streams or []:
            known = self._matching.stream(sync_id, each)
            name = f"{schema}.{each.name}"
            if known is None:
                found = Differences()
                changes = new_fields(each, [*STREAM_OPTIONS, *HIDDEN_STREAM_OPTIONS, "sync_interval"])
                item = Item(ELT_STREAM, name, Action.CREATE, tuple(changes))
            else:
                found = apply_elt_streams.compare(each, known)
                item = self._compared(ELT_STREAM, name, found)
                if found.hidden:
                    self._hidden.append(name)
            if item.action is Action.NONE and not found.hidden:
                self._unchanged.append(item)
            else:
                changed.append(apply_elt_streams.StreamWork(each, item, known, found))
        if changed:
            items = tuple(each.item for each in changed)
            keys = tuple((*sync_key, each.entry.name) for each in changed)
            yield Unit(items, apply_elt_streams.change(sync_id, sync_key, changed), keys, (sync_key,))

    def _reverse_sync(self, place: int) -> Unit:
        entry = (self._workspace.reverse_etl_syncs or [])[place]
        matching = self._matching
        known, source_id = matching.reverse_syncs[place], matching.sources[place]
        connection_id = matching.destinations[place]
        reference = matching.reverse_sync_orchestrations[place]
        key: Key = (REVERSE_ETL_SYNCS, place)
        name = self._reverse_sync_name(entry.transform, source_id, connection_id, entry.object_type_id)
        if entry.sets_orchestration:
            present = self._resources.reverse_syncs.get(known or "")
            self._attachments.append(_Attachment(key, REVERSE_ETL_SYNC, name, present, reference.id))
        found = Differences()
        if known is None:
            self._require_fields(REVERSE_ETL_SYNCS, place, entry, "operation")
            if entry.sync_interval is None and reference == OrchestrationReference():
                message = "sync_interval or orchestration is required to create this resource"
                self.problems.append(Problem((REVERSE_ETL_SYNCS, place), message))
            changes = new_fields(entry, ["operation", "sync_interval", "enabled", "settings"])
            found.compare("orchestration", None, self._reference_name(reference))
            item = Item(REVERSE_ETL_SYNC, name, Action.CREATE, (*changes, *found.changes))
        else:
            current = self._resources.reverse_syncs[known]
            names = self._orchestration_name(current.orchestration_workflow_id), self._reference_name(reference)
            found = apply_reverse_etl_syncs.compare(
                entry, current, source_id=source_id, connection_id=connection_id, orchestration=names
            )
            item = self._compared(REVERSE_ETL_SYNC, name, found)
        attached = _attached(reference)
        work = apply_reverse_etl_syncs.change(
            entry,
            item,
            known=known,
            source_id=source_id,
            connection_id=connection_id,
            attached=attached,
            differences=found,
        )
        needs = (*_needs(attached), *self._stream_needed(source_id))
        return Unit((item,), work if item.action is not Action.NONE else None, (key,), needs)

    def _stream_needed(self, source_id: str | None) -> tuple[Key, ...]:
        """Return the key of the file's stream that creates the raw view of a reverse ETL sync, if there is one."""
        view = (source_id or "").removeprefix("raw.")
        for place, entry in enumerate(self._workspace.elt_syncs or []):
            for each in entry.source_streams or []:
                if view == f"{entry.destination_schema_name}.{each.name}":
                    return ((ELT_SYNCS, place, each.name),)
        return ()

    def _orchestration_name(self, orchestration_id: str | None) -> str | None:
        current = self._resources.orchestrations.get(orchestration_id or "")
        if current is None or len(self._matching.names.orchestrations[current.name]) > 1:
            return orchestration_id
        return current.name

    def _reference_name(self, reference: OrchestrationReference) -> str | None:
        if reference.entry is not None:
            return (self._workspace.orchestrations or [])[reference.entry].name
        return self._orchestration_name(reference.id)

    def _label(self, connection_id: str | None) -> str:
        current = self._resources.connections.get(connection_id or "")
        return (current.label if current is not None else None) or str(connection_id)

    def _sync_name(self, schema: str | None, connection_id: str | None, sync_id: str | None) -> str:
        return f"{self._label(connection_id)} -> {schema or sync_id}"

    def _reverse_sync_name(self, path: str | None, source_id: str | None, connection_id: str | None, kind: str) -> str:
        source = path
        if source is None:
            current = self._resources.transforms.get(source_id or "")
            source = str(source_id) if current is None else path_of(current)
        return f"{source} -> {self._label(connection_id)} {kind}"

    def _orphans(self) -> tuple[list[Unit], list[Unit]]:
        """Return the units of deletions: those that come before creations, and those at the end."""
        first: list[Unit] = []
        last: list[Unit] = []
        deleted: set[tuple[str, str]] = set()
        for reverse_sync in self._not_in_file(
            REVERSE_ETL_SYNCS, self._resources.reverse_syncs, self._matching.reverse_syncs
        ):
            name = self._reverse_sync_name(
                None, reverse_sync.source_id, reverse_sync.destination_connection_id, reverse_sync.object_type_id
            )
            deleted.add((REVERSE_ETL_SYNC, reverse_sync.id))
            self._add_orphan(last, REVERSE_ETL_SYNC, name, reverse_sync.id, reverse_etl_syncs.delete(reverse_sync.id))
        for entry, sync_id in zip(self._workspace.elt_syncs or [], self._matching.syncs, strict=True):
            if entry.source_streams is None or sync_id is None:
                continue
            streams = self._resources.streams.get(sync_id, {})
            named = [self._matching.stream(sync_id, each) for each in entry.source_streams]
            for stream_id in streams.keys() - {each.id for each in named if each is not None}:
                name = f"{entry.destination_schema_name or sync_id}.{streams[stream_id].name}"
                self._add_orphan(last, ELT_STREAM, name, stream_id, elt_streams.delete(stream_id))
        new_schemas = {
            entry.destination_schema_name
            for entry, known in zip(self._workspace.elt_syncs or [], self._matching.syncs, strict=True)
            if known is None
        }
        for sync in self._not_in_file(ELT_SYNCS, self._resources.syncs, self._matching.syncs):
            name = self._sync_name(sync.destination_schema_name, sync.source_connection_id, sync.id)
            deleted.add((ELT_SYNC, sync.id))
            units = first if sync.destination_schema_name in new_schemas else last
            self._add_orphan(units, ELT_SYNC, name, sync.id, elt_syncs.delete(sync.id))
        users_by_id = self._orchestration_users(deleted if self._delete else set())
        for current in self._not_in_file(ORCHESTRATIONS, self._resources.orchestrations, self._matching.orchestrations):
            users = users_by_id.get(current.id, [])
            shown = schedule_of_orchestration(current)
            request = apply_orchestrations.delete(current.id, None if shown is UNKNOWN else shown)
            if users and self._delete:
                self._unchanged.append(Item(ORCHESTRATION, current.name, Action.NONE, orphan=True))
                self._warnings.append(
                    f"The orchestration {current.name!r} is not deleted, because it is used by: {listed(users)}."
                )
                continue
            needs = (
                *(("deleted", *each) for each in sorted(deleted)),
                *(each.key for each in self._attachments if each.moves_from(current.id)),
            )
            self._add_orphan(last, ORCHESTRATION, current.name, current.id, request, needs_applied=needs)
        last.sort(key=lambda unit: _DELETION_ORDER.index(unit.items[0].kind))
        return first, last

    def _not_in_file(self, section: str, resources: Mapping[str, T], named: Sequence[str | None]) -> list[T]:
        """Return the resources that the file does not name; empty if the file omits their section."""
        if not self._workspace.is_set(section):
            return []
        in_file = set(named)
        return [each for key, each in resources.items() if key not in in_file]

    def _add_orphan(
        self,
        units: list[Unit],
        kind: str,
        name: str,
        key: str,
        request: Request[None],
        *,
        needs_applied: tuple[Key, ...] = (),
    ) -> None:
        if self._delete:
            item = Item(kind, name, Action.DELETE, orphan=True)
            work = deletion(item, request)
            units.append(Unit((item,), work, (("deleted", kind, key),), needs_applied=needs_applied))
        else:
            self._unchanged.append(Item(kind, name, Action.NONE, orphan=True))

    def _orchestration_users(self, deleted: set[tuple[str, str]]) -> dict[str, list[str]]:
        """Return the names of the resources that will be attached to each orchestration, by its ID."""
        users: dict[str, list[str]] = {}
        declared = {(each.kind, each.present.id) for each in self._attachments if each.present is not None}

        def add(orchestration_id: str | None, name: str) -> None:
            if orchestration_id is not None:
                users.setdefault(orchestration_id, []).append(name)

        def add_undeclared(kind: str, resources: Mapping[str, Any], name: Callable[[Any], str]) -> None:
            for key, each in resources.items():
                if (kind, key) not in declared | deleted:
                    add(each.orchestration_workflow_id, name(each))

        for each in self._attachments:
            add(each.wanted, each.name)
        add_undeclared(
            ELT_SYNC,
            self._resources.syncs,
            lambda each: self._sync_name(each.destination_schema_name, each.source_connection_id, each.id),
        )
        add_undeclared(
            REVERSE_ETL_SYNC,
            self._resources.reverse_syncs,
            lambda each: self._reverse_sync_name(
                None, each.source_id, each.destination_connection_id, each.object_type_id
            ),
        )
        add_undeclared("transform", self._resources.transforms, path_of)
        return users


_DELETION_ORDER = (REVERSE_ETL_SYNC, ELT_STREAM, ELT_SYNC, ORCHESTRATION)


def _attached(reference: OrchestrationReference) -> Attached:
    return Attached(reference.id, None if reference.entry is None else (ORCHESTRATIONS, reference.entry))


def _needs(attached: Attached) -> tuple[Key, ...]:
    return () if attached.key is None else (attached.key,)
