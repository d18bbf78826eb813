"""Export of the service's resources to a workspace file. An existing file keeps its comments and omitted fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.formats.yaml_reader import escape_variables
from airflow_provider_datapipe.pipelines.workspace.apply_elt_streams import STREAM_OPTIONS
from airflow_provider_datapipe.pipelines.workspace.current_resources import (
    CurrentResources,
    read_current_resources,
    read_details,
)
from airflow_provider_datapipe.pipelines.workspace.document import SETTINGS, Document
from airflow_provider_datapipe.pipelines.workspace.matching import (
    Matching,
    OrchestrationReference,
    key_of_sync,
    keys_of_reverse_sync,
    path_of,
)
from airflow_provider_datapipe.pipelines.workspace.models import (
    ELT_SYNCS,
    ORCHESTRATIONS,
    REVERSE_ETL_SYNCS,
    EltSyncEntry,
    Entry,
    ReverseEtlSyncEntry,
    StreamEntry,
    Workspace,
    workspace_of,
)
from airflow_provider_datapipe.pipelines.workspace.round_trip import Place, dump, load
from airflow_provider_datapipe.resources.comparable import (
    UNKNOWN,
    schedule_of_orchestration,
    schedule_of_stream,
    schedule_of_sync,
)
from airflow_provider_datapipe.resources.elt_streams import stream_named
from airflow_provider_datapipe.resources.reverse_etl_syncs import operation_meaning, operation_shown

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.orchestrations import Orchestration
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.pipelines.collect import Runner

_MODES = ("insert", "update", "upsert", "mirror")
_REFERENCES = ("orchestration", "orchestration_id")
# Fields of natural keys, which can differ if an entry is identified by its ID.
_CONNECTION, _SCHEMA = ("connection_label", "connection_id"), ("destination_schema_name",)
_DESTINATION, _SOURCE = ("destination_connection_label", "destination_connection_id"), ("transform", "source_id")
_SCHEDULE = ("sync_interval", *_REFERENCES)


@dataclass(frozen=True, slots=True)
class Pulled:
    """
    Result of a pull.

    :param text: new text of the file.
    :param without_settings: names of resources whose settings are on the service, but not in the file.
    :param without_schedule: names of new entries whose schedule the service does not show.
    """

    text: str
    without_settings: tuple[str, ...]
    without_schedule: tuple[str, ...]


def pull(service: Runner, existing: str | None, name: str) -> Pulled:
    """
    Return the text of a workspace file that matches the service.

    :param service: runner of the requests.
    :param existing: text of the existing file; None if there is none.
    :param name: name of the file in messages.
    :raises WorkspaceError: if the existing file is invalid.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    document = Document(existing or "", name, None)
    workspace = workspace_of(document)
    resources = service.run(read_current_resources())
    read_details(service, resources, resources.syncs, resources.reverse_syncs)
    writer = _Writer(resources, workspace)
    if existing is None:
        text = dump(writer.new_content())
    else:
        # The entries that differ have to be known before the file is loaded for changes.
        writer.update(document.content)
        text = existing
        if writer.changed:
            # The library keeps the line ends of comments only.
            tree = load(existing.replace("\r\n", "\n"), writer.changed_places)
            _Writer(resources, workspace).update(tree)
            text = dump(tree)
            if existing.count("\n") == existing.count("\r\n"):
                text = text.replace("\n", "\r\n")
    return Pulled(text, tuple(writer.without_settings), tuple(writer.without_schedule))


class _Writer:
    """
    Writer of entries for the resources of the service.

    :param resources: resources of the service.
    :param workspace: the existing file.
    """

    def __init__(self, resources: CurrentResources, workspace: Workspace) -> None:
        self._resources = resources
        self._workspace = workspace
        self._matching = Matching(workspace, resources)
        self._names = self._matching.names
        self.changed = False
        self.changed_places: set[Place] = set()
        self.without_settings: list[str] = []
        self.without_schedule: list[str] = []

    def new_content(self) -> dict[str, Any]:
        """Return the content of a new file."""
        return {section: self._sorted(map(export, found.values())) for section, _, found, export in self._sections()}

    def update(self, tree: Any) -> None:
        """Update an existing file where it differs from the service."""
        for section, ids, resources, export in self._sections():
            self._section(tree, section, ids, resources, export)

    def _sections(self) -> Iterator[tuple[str, Sequence[str | None], Mapping[str, Any], Any]]:
        """Yield each section with the IDs of its entries, the resources of the service, and their conversion."""
        matching, resources = self._matching, self._resources
        yield ORCHESTRATIONS, matching.orchestrations, resources.orchestrations, self._orchestration
        yield ELT_SYNCS, matching.syncs, resources.syncs, self._sync
        yield REVERSE_ETL_SYNCS, matching.reverse_syncs, resources.reverse_syncs, self._reverse_sync

    def _section(
        self, tree: Any, section: str, ids: Sequence[str | None], resources: Mapping[str, Any], export: Any
    ) -> None:
        if not self._workspace.is_set(section):
            return
        entries: Sequence[Entry] = getattr(self._workspace, section)
        seen: set[str] = set()
        for place in range(len(entries) - 1, -1, -1):
            known = ids[place]
            before, self.changed = self.changed, False
            if known is None or known in seen:
                del tree[section][place]
                self.changed = True
            else:
                seen.add(known)
                current = resources[known]
                self._entry(tree[section][place], entries[place], export(current), place, current)
            if self.changed:
                self.changed_places.add((section, place))
            self.changed |= before
        new = self._sorted(export(each) for key, each in resources.items() if key not in seen)
        if new:
            tree[section].extend(new)
            self.changed = True

    def _entry(self, node: Any, entry: Entry, exported: dict[str, Any], place: int, current: Any) -> None:
        """Update the fields that an entry sets."""
        for field in sorted(entry.model_fields_set):
            if field in ("cron_schedule", "object_type_id", "start_date", "enabled", "name"):
                self._set(node, field, getattr(entry, field), exported)
            elif field == "operation" and operation_meaning(entry.operation) != operation_meaning(current.operation):  # type: ignore[attr-defined] # of a reverse ETL sync
                self._set(node, field, None, exported)
        if isinstance(entry, EltSyncEntry):
            self._replace(
                node, _CONNECTION, exported, same=self._matching.connections[place] == current.source_connection_id
            )
            schema = current.destination_schema_name
            self._replace(node, _SCHEMA, exported, same=entry.destination_schema_name in (None, schema))
            if entry.is_set("sync_interval"):
                self._set(node, "sync_interval", entry.sync_interval, exported)
            self._attached(node, entry, exported, self._matching.sync_orchestrations[place], current)
            if entry.source_streams is not None:
                self._streams(node["source_streams"], entry.source_streams, self._resources.streams.get(current.id, {}))
            if entry.settings is None and current.config:
                self.without_settings.append(str(current.destination_schema_name or current.id))
        elif isinstance(entry, ReverseEtlSyncEntry):
            destination = current.destination_connection_id
            self._replace(node, _DESTINATION, exported, same=self._matching.destinations[place] == destination)
            source = (self._matching.sources[place] or "").removeprefix("raw.")
            self._replace(node, _SOURCE, exported, same=source in (current.source_id, current.transform_id))
            self._attached(node, entry, exported, self._matching.reverse_sync_orchestrations[place], current)
            if entry.settings is None and current.settings:
                self.without_settings.append(current.id)

    def _set(self, node: Any, field: str, declared: Any, exported: Mapping[str, Any]) -> None:
        """Update a field if it differs and the service shows it."""
        if field not in exported:
            return
        if (str(declared) if field == "start_date" else escape_variables(declared)) != exported[field]:
            node[field] = exported[field]
            self.changed = True

    def _attached(
        self,
        node: Any,
        entry: EltSyncEntry | ReverseEtlSyncEntry,
        exported: Mapping[str, Any],
        reference: OrchestrationReference,
        current: EltSync | ReverseEtlSync,
    ) -> None:
        """Update the orchestration and the fields that depend on it, if they differ."""
        fields = _REFERENCES if isinstance(entry, EltSyncEntry) else _SCHEDULE
        if not entry.is_set(*fields):
            return
        if schedule_of_sync(current) is UNKNOWN:
            # The file keeps its value.
            fields = _REFERENCES
        same = reference.entry is None and reference.id == current.orchestration_workflow_id
        if "sync_interval" in fields:
            same = same and entry.sync_interval == current.sync_interval
        self._replace(node, fields, exported, same=same and not (entry.orchestration and reference.id is None))

    def _replace(self, node: Any, fields: Sequence[str], exported: Mapping[str, Any], *, same: bool) -> None:
        """Update fields that belong together, unless they are the same."""
        if same:
            return
        for field in fields:
            if field in exported:
                node[field] = exported[field]
            elif field in node:
                del node[field]
        self.changed = True

    def _streams(self, nodes: Any, entries: Sequence[StreamEntry], streams: Mapping[str, EltStream]) -> None:
        seen: set[str] = set()
        for place in range(len(entries) - 1, -1, -1):
            entry = entries[place]
            known = stream_named(streams.values(), entry.name)
            if known is None or known.id in seen:
                del nodes[place]
                self.changed = True
                continue
            seen.add(known.id)
            exported = _stream(known)
            for field in (*STREAM_OPTIONS, "sync_interval"):
                if (
                    entry.is_set(field)
                    and field in exported
                    and not _is_same_value(getattr(entry, field), exported[field])
                ):
                    nodes[place][field] = exported[field]
                    self.changed = True
        new = self._sorted(_stream(each) for each in streams.values() if each.id not in seen)
        if new:
            nodes.extend(new)
            self.changed = True

    def _sorted(self, entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        # Entries with the same name also have an ID.
        return sorted(entries, key=lambda each: [str(each[field]) for field in _SORTED_BY if field in each])

    def _orchestration(self, current: Orchestration) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if len(self._names.orchestrations[current.name]) > 1:
            entry["id"] = escape_variables(current.id)
        entry["name"] = escape_variables(current.name)
        schedule = schedule_of_orchestration(current)
        if schedule is UNKNOWN:
            if current.id not in self._matching.orchestrations:
                self.without_schedule.append(current.name)
        else:
            entry["cron_schedule"] = escape_variables(str(schedule))
        return entry

    def _sync(self, current: EltSync) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if current.destination_schema_name is None or len(self._names.syncs[key_of_sync(current)]) > 1:
            entry["id"] = escape_variables(current.id)
        entry |= self._connection(current.source_connection_id, "connection")
        if current.destination_schema_name is not None:
            entry["destination_schema_name"] = escape_variables(current.destination_schema_name)
        is_new = current.id not in self._matching.syncs
        streams = self._resources.streams.get(current.id, {})
        schema = current.destination_schema_name or current.id
        if schedule_of_sync(current) is not UNKNOWN:
            entry["sync_interval"] = current.sync_interval
        elif is_new:
            self.without_schedule.append(schema)
        if is_new:
            hidden = [each.name for each in streams.values() if schedule_of_stream(each) is UNKNOWN]
            self.without_schedule += [f"{schema}.{name}" for name in hidden]
        entry |= self._orchestration_reference(current.orchestration_workflow_id)
        entry["enabled"] = current.enabled
        if current.start_date is not None:
            entry["start_date"] = current.start_date.date().isoformat()
        if current.config and is_new:
            self.without_settings.append(schema)
        entry["source_streams"] = self._sorted(_stream(each) for each in streams.values())
        return entry

    def _reverse_sync(self, current: ReverseEtlSync) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if any(len(self._names.reverse_syncs[key]) > 1 for key in keys_of_reverse_sync(current)):
            entry["id"] = escape_variables(current.id)
        transform = self._resources.transforms.get(current.transform_id or current.source_id)
        path = None if transform is None else path_of(transform)
        if path is not None and len(self._names.transforms[path]) == 1 and _is_path(path):
            entry["transform"] = escape_variables(path)
        else:
            entry["source_id"] = escape_variables(current.source_id)
        entry |= self._connection(current.destination_connection_id, "destination_connection")
        entry["object_type_id"] = escape_variables(current.object_type_id)
        if current.operation is not None and str(current.operation.mode) in _MODES:
            entry["operation"] = escape_variables(operation_shown(current.operation))
        if schedule_of_sync(current) is not UNKNOWN:
            entry["sync_interval"] = current.sync_interval
        if current.orchestration_workflow_id is not None:
            entry |= self._orchestration_reference(current.orchestration_workflow_id)
        entry["enabled"] = current.enabled
        if getattr(current, SETTINGS, None) and current.id not in self._matching.reverse_syncs:
            self.without_settings.append(current.id)
        return entry

    def _connection(self, connection_id: str, field: str) -> dict[str, Any]:
        current = self._resources.connections.get(connection_id)
        if current is None or not current.label or len(self._names.connections[current.label]) > 1:
            return {f"{field}_id": escape_variables(connection_id)}
        return {f"{field}_label": escape_variables(current.label)}

    def _orchestration_reference(self, orchestration_id: str | None) -> dict[str, Any]:
        if orchestration_id is None:
            return {"orchestration": None}
        current = self._resources.orchestrations.get(orchestration_id)
        if current is None or len(self._names.orchestrations[current.name]) > 1:
            return {"orchestration_id": escape_variables(orchestration_id)}
        return {"orchestration": escape_variables(current.name)}


_SORTED_BY = (
    "name",
    "transform",
    "source_id",
    "connection_label",
    "connection_id",
    "destination_connection_label",
    "destination_connection_id",
    "destination_schema_name",
    "object_type_id",
    "id",
)


def _stream(current: EltStream) -> dict[str, Any]:
    shown = current.model_dump(mode="json", include={*STREAM_OPTIONS, "sync_interval"})
    fields = STREAM_OPTIONS if schedule_of_stream(current) is UNKNOWN else (*STREAM_OPTIONS, "sync_interval")
    named = {"name": current.name, **{name: shown[name] for name in fields}}
    entry: dict[str, Any] = escape_variables(named)
    return entry


def _is_same_value(declared: Any, exported: Any) -> bool:
    if isinstance(declared, list) and isinstance(exported, list):
        return sorted(map(escape_variables, declared)) == sorted(exported)
    return bool(escape_variables(declared) == exported)


def _is_path(path: str) -> bool:
    """Return True if a path has no empty part and is therefore read unchanged."""
    return bool(path) and all(path.split("/"))
