"""Export of the service's resources to a workspace file. An existing file keeps its comments and omitted fields."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import RoundTripRepresenter

from airflow_provider_datapipe.api.models.formats.yaml_reader import escape_variables
from airflow_provider_datapipe.pipelines.workspace.apply_elt_streams import STREAM_OPTIONS
from airflow_provider_datapipe.pipelines.workspace.document import SETTINGS, Document
from airflow_provider_datapipe.pipelines.workspace.held import Held, held_by, read_details
from airflow_provider_datapipe.pipelines.workspace.matching import (
    Matching,
    OrchestrationReference,
    key_of_sync,
    keys_of_sending,
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
_ATTACHED: dict[str, type[Entry]] = {ELT_SYNCS: EltSyncEntry, REVERSE_ETL_SYNCS: ReverseEtlSyncEntry}


@dataclass(frozen=True, slots=True)
class Pulled:
    """
    Result of a pull.

    :param text: new text of the file.
    :param held: resources of the service.
    :param unsaid: names of resources whose settings are on the service, but not in the file.
    :param without_schedule: names of new entries whose schedule the service does not show.
    """

    text: str
    held: Held
    unsaid: tuple[str, ...]
    without_schedule: tuple[str, ...]


def pull(service: Runner, there: str | None, name: str) -> Pulled:
    """
    Return the text of a workspace file that matches the service.

    :param service: runner of the requests.
    :param there: text of the existing file; None if there is none.
    :param name: name of the file in messages.
    :raises WorkspaceError: if the existing file is invalid.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    document = None if there is None else Document(there, name, None)
    workspace = None if document is None else workspace_of(document)
    held = held_by(service)
    read_details(service, held, held.syncs.keys(), held.sendings.keys())
    if there is None or workspace is None:
        writer = _Writer(held, Workspace())
        return Pulled(_text(writer.whole()), held, tuple(writer.unsaid), tuple(writer.without_schedule))
    writer = _Writer(held, workspace)
    tree = _yaml().load(there)
    writer.bring_up_to_date(tree)
    text = _text(tree) if writer.changed else there
    return Pulled(text, held, tuple(writer.unsaid), tuple(writer.without_schedule))


class _Writer:
    """
    Writer of entries for the resources of the service.

    :param held: resources of the service.
    :param workspace: the existing file.
    """

    def __init__(self, held: Held, workspace: Workspace) -> None:
        self._held = held
        self._workspace = workspace
        self._matching = Matching(workspace, held)
        self._names = self._matching.names
        self.changed = False
        self.unsaid: list[str] = []
        self.without_schedule: list[str] = []

    def whole(self) -> dict[str, Any]:
        """Return the content of a new file."""
        return {
            ORCHESTRATIONS: self._sorted(self._orchestration(each) for each in self._held.orchestrations.values()),
            ELT_SYNCS: self._sorted(self._sync(each) for each in self._held.syncs.values()),
            REVERSE_ETL_SYNCS: self._sorted(self._sending(each) for each in self._held.sendings.values()),
        }

    def bring_up_to_date(self, tree: Any) -> None:
        """Update an existing file where it differs from the service."""
        self._section(
            tree, ORCHESTRATIONS, self._matching.orchestrations, self._held.orchestrations, self._orchestration
        )
        self._section(tree, ELT_SYNCS, self._matching.syncs, self._held.syncs, self._sync)
        self._section(tree, REVERSE_ETL_SYNCS, self._matching.sendings, self._held.sendings, self._sending)

    def _section(
        self, tree: Any, section: str, ids: Sequence[str | None], held: Mapping[str, Any], describe: Any
    ) -> None:
        if not self._workspace.says(section):
            return
        entries: Sequence[Entry] = getattr(self._workspace, section)
        seen: set[str] = set()
        for place in range(len(entries) - 1, -1, -1):
            known = ids[place]
            if known is None or known in seen:
                del tree[section][place]
                self.changed = True
                continue
            seen.add(known)
            self._entry(tree[section][place], entries[place], describe(held[known]), place, held[known])
        new = self._sorted(describe(each) for key, each in held.items() if key not in seen)
        if new:
            tree[section].extend(new)
            self.changed = True

    def _entry(self, node: Any, entry: Entry, now: dict[str, Any], place: int, held: Any) -> None:
        """Update the fields that an entry sets."""
        for field in sorted(entry.model_fields_set):
            if field in ("cron_schedule", "object_type_id", "start_date", "enabled", "name"):
                self._set(node, field, getattr(entry, field), now)
            elif field == "operation" and operation_meaning(entry.operation) != operation_meaning(held.operation):  # type: ignore[attr-defined] # of a reverse ETL sync
                self._set(node, field, None, now)
        if isinstance(entry, EltSyncEntry):
            self._replace(node, _CONNECTION, now, same=self._matching.connections[place] == held.source_connection_id)
            schema = held.destination_schema_name
            self._replace(node, _SCHEMA, now, same=entry.destination_schema_name in (None, schema))
            if entry.says("sync_interval"):
                self._set(node, "sync_interval", entry.sync_interval, now)
            self._attached(node, entry, now, self._matching.sync_orchestrations[place], held)
            if entry.source_streams is not None:
                self._streams(node["source_streams"], entry.source_streams, self._held.streams.get(held.id, {}))
            if entry.settings is None and held.config:
                self.unsaid.append(str(held.destination_schema_name or held.id))
        elif isinstance(entry, ReverseEtlSyncEntry):
            to = held.destination_connection_id
            self._replace(node, _DESTINATION, now, same=self._matching.destinations[place] == to)
            source = (self._matching.sources[place] or "").removeprefix("raw.")
            self._replace(node, _SOURCE, now, same=source in (held.source_id, held.transform_id))
            self._attached(node, entry, now, self._matching.sending_orchestrations[place], held)
            if entry.settings is None and held.settings:
                self.unsaid.append(held.id)

    def _set(self, node: Any, field: str, said: Any, now: Mapping[str, Any]) -> None:
        """Update a field if it differs and the service shows it."""
        if field not in now:
            return
        if (str(said) if field == "start_date" else escape_variables(said)) != now[field]:
            node[field] = now[field]
            self.changed = True

    def _attached(
        self,
        node: Any,
        entry: EltSyncEntry | ReverseEtlSyncEntry,
        now: Mapping[str, Any],
        reference: OrchestrationReference,
        held: EltSync | ReverseEtlSync,
    ) -> None:
        """Update the orchestration and the fields that depend on it, if they differ."""
        fields = _REFERENCES if isinstance(entry, EltSyncEntry) else _SCHEDULE
        if not entry.says(*fields):
            return
        if schedule_of_sync(held) is UNKNOWN:
            # The file keeps its value.
            fields = _REFERENCES
        same = reference.entry is None and reference.id == held.orchestration_workflow_id
        if "sync_interval" in fields:
            same = same and entry.sync_interval == held.sync_interval
        self._replace(node, fields, now, same=same and not (entry.orchestration and reference.id is None))

    def _replace(self, node: Any, fields: Sequence[str], now: Mapping[str, Any], *, same: bool) -> None:
        """Update fields that belong together, unless they are the same."""
        if same:
            return
        for field in fields:
            if field in now:
                node[field] = now[field]
            elif field in node:
                del node[field]
        self.changed = True

    def _streams(self, nodes: Any, entries: Sequence[StreamEntry], held: Mapping[str, EltStream]) -> None:
        seen: set[str] = set()
        for place in range(len(entries) - 1, -1, -1):
            entry = entries[place]
            known = stream_named(held.values(), entry.name)
            if known is None or known.id in seen:
                del nodes[place]
                self.changed = True
                continue
            seen.add(known.id)
            now = _stream(known)
            for field in (*STREAM_OPTIONS, "sync_interval"):
                if entry.says(field) and field in now and not _alike(getattr(entry, field), now[field]):
                    nodes[place][field] = now[field]
                    self.changed = True
        new = self._sorted(_stream(each) for each in held.values() if each.id not in seen)
        if new:
            nodes.extend(new)
            self.changed = True

    def _sorted(self, entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        # Entries with the same name also have an ID.
        return sorted(entries, key=lambda each: [str(each[field]) for field in _SORTED_BY if field in each])

    def _orchestration(self, held: Orchestration) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if len(self._names.orchestrations[held.name]) > 1:
            entry["id"] = escape_variables(held.id)
        entry["name"] = escape_variables(held.name)
        schedule = schedule_of_orchestration(held)
        if schedule is UNKNOWN:
            if self._is_new(self._matching.orchestrations, held.id):
                self.without_schedule.append(held.name)
        else:
            entry["cron_schedule"] = escape_variables(str(schedule))
        return entry

    def _sync(self, held: EltSync) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if held.destination_schema_name is None or len(self._names.syncs[key_of_sync(held)]) > 1:
            entry["id"] = escape_variables(held.id)
        entry |= self._connection(held.source_connection_id, "connection")
        if held.destination_schema_name is not None:
            entry["destination_schema_name"] = escape_variables(held.destination_schema_name)
        is_new = self._is_new(self._matching.syncs, held.id)
        streams = self._held.streams.get(held.id, {})
        schema = held.destination_schema_name or held.id
        if schedule_of_sync(held) is not UNKNOWN:
            entry["sync_interval"] = held.sync_interval
        elif is_new:
            self.without_schedule.append(schema)
        if is_new:
            hidden = [each.name for each in streams.values() if schedule_of_stream(each) is UNKNOWN]
            self.without_schedule += [f"{schema}.{name}" for name in hidden]
        entry |= self._called(held.orchestration_workflow_id)
        entry["enabled"] = held.enabled
        if held.start_date is not None:
            entry["start_date"] = held.start_date.date().isoformat()
        if held.config and is_new:
            self.unsaid.append(schema)
        entry["source_streams"] = self._sorted(_stream(each) for each in streams.values())
        return entry

    def _sending(self, held: ReverseEtlSync) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if any(len(self._names.sendings[key]) > 1 for key in keys_of_sending(held)):
            entry["id"] = escape_variables(held.id)
        transform = self._held.transforms.get(held.transform_id or held.source_id)
        path = None if transform is None else path_of(transform)
        if path is not None and len(self._names.transforms[path]) == 1 and _is_path(path):
            entry["transform"] = escape_variables(path)
        else:
            entry["source_id"] = escape_variables(held.source_id)
        entry |= self._connection(held.destination_connection_id, "destination_connection")
        entry["object_type_id"] = escape_variables(held.object_type_id)
        if held.operation is not None and str(held.operation.mode) in _MODES:
            entry["operation"] = escape_variables(operation_shown(held.operation))
        if schedule_of_sync(held) is not UNKNOWN:
            entry["sync_interval"] = held.sync_interval
        if held.orchestration_workflow_id is not None:
            entry |= self._called(held.orchestration_workflow_id)
        entry["enabled"] = held.enabled
        if getattr(held, SETTINGS, None) and self._is_new(self._matching.sendings, held.id):
            self.unsaid.append(held.id)
        return entry

    def _is_new(self, named: Sequence[str | None], key: str) -> bool:
        return key not in named

    def _connection(self, connection_id: str, field: str) -> dict[str, Any]:
        held = self._held.connections.get(connection_id)
        if held is None or not held.label or len(self._names.connections[held.label]) > 1:
            return {f"{field}_id": escape_variables(connection_id)}
        return {f"{field}_label": escape_variables(held.label)}

    def _called(self, orchestration_id: str | None) -> dict[str, Any]:
        if orchestration_id is None:
            return {"orchestration": None}
        held = self._held.orchestrations.get(orchestration_id)
        if held is None or len(self._names.orchestrations[held.name]) > 1:
            return {"orchestration_id": escape_variables(orchestration_id)}
        return {"orchestration": escape_variables(held.name)}


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


def _stream(held: EltStream) -> dict[str, Any]:
    shown = held.model_dump(mode="json", include={*STREAM_OPTIONS, "sync_interval"})
    fields = STREAM_OPTIONS if schedule_of_stream(held) is UNKNOWN else (*STREAM_OPTIONS, "sync_interval")
    named = {"name": held.name, **{name: shown[name] for name in fields}}
    entry: dict[str, Any] = escape_variables(named)
    return entry


def _alike(said: Any, now: Any) -> bool:
    if isinstance(said, list) and isinstance(now, list):
        return sorted(map(escape_variables, said)) == sorted(now)
    return bool(escape_variables(said) == now)


def _is_path(path: str) -> bool:
    """Return True if a path has no empty part and is therefore read unchanged."""
    return bool(path) and all(path.split("/"))


class _Representer(RoundTripRepresenter):
    """YAML representer that writes null as a word, and text so that it is read unchanged."""

    def represent_nothing(self, _: None) -> Any:
        """Represent null."""
        return self.represent_scalar("tag:yaml.org,2002:null", "null")

    def represent_text(self, text: str) -> Any:
        """Represent text. Without double quotes, the library reads the line end U+0085 as a space."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\x85" in text else None)


_Representer.add_representer(type(None), _Representer.represent_nothing)
_Representer.add_representer(str, _Representer.represent_text)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = sys.maxsize
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _text(tree: Any) -> str:
    text = io.StringIO()
    _yaml().dump(tree, text)
    return text.getvalue()
