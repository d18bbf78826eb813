"""
Snapshots of the service's resources as JSON files: sorted, without times and secrets, for version control.

``snapshot.schema.json`` beside this module describes the format. DAG files read snapshots, so this module needs only
the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airflow_provider_datapipe.pipelines.errors import SnapshotError

FORMAT = "datapipe-snapshot"
VERSION = 1

STREAM, TRANSFORM, REVERSE_ETL = "stream", "transform", "reverse_etl"
SYNC, ORCHESTRATION = "sync", "orchestration"
#: Runnable kinds, which become tasks, in the order of the data flow.
RUNNABLE = (STREAM, TRANSFORM, REVERSE_ETL)
KINDS = (*RUNNABLE, SYNC, ORCHESTRATION)

_WRITE_AGAIN = "write it again with `datapipe snapshot`"


@dataclass(frozen=True, slots=True)
class Node:
    """
    A resource of the service. Fields that do not apply to its kind are empty.

    :param id: ``kind:`` and the service's ID; unique in the snapshot.
    :param kind: ``stream``, ``transform``, ``reverse_etl``, ``sync`` (ELT) or ``orchestration``.
    :param resource_id: the service's ID.
    :param name: its name. Syncs have no names: an ELT sync gets the name of its schema, and a reverse ETL sync a name
        made of its source and destination.
    :param folder: folder of a transform, or schema of a stream.
    :param status: ``draft`` or ``published`` for transforms, ``enabled`` or ``disabled`` for syncs and streams.
    :param materialization: ``view`` or ``table`` for transforms.
    :param integration: source integration of an ELT sync, or destination integration of a reverse ETL sync.
    :param sync: node ID of the sync of a stream.
    :param orchestration: node ID of the orchestration that the resource is attached to.
    :param depends_on: IDs of the nodes that it reads; of a published transform, those of the published SQL.
    :param draft_depends_on: IDs of the nodes that the unpublished SQL of a published transform reads, if they differ.
    :param unresolved: references without a node.
    :param documentation: its description.
    :param sql: the SQL, if it was requested; of a published transform, the published SQL.
    """

    id: str
    kind: str
    resource_id: str
    name: str
    folder: str = ""
    status: str = ""
    materialization: str = ""
    integration: str = ""
    sync: str = ""
    orchestration: str = ""
    depends_on: tuple[str, ...] = ()
    draft_depends_on: tuple[str, ...] | None = None
    unresolved: tuple[str, ...] = ()
    documentation: str = ""
    sql: str = ""

    @property
    def title(self) -> str:
        """Name with its folder or schema, as used in selections and messages."""
        if not self.folder:
            return self.name
        return f"{self.folder}.{self.name}" if self.kind == STREAM else f"{self.folder}/{self.name}"

    def as_json(self) -> dict[str, Any]:
        """Return the node as JSON, without empty fields."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given
            if value or (name == "draft_depends_on" and value is not None)
        }


_TEXTS = tuple(field.name for field in fields(Node) if field.type == "str")
_LISTS = tuple(field.name for field in fields(Node) if field.name not in _TEXTS)
_REQUIRED = ("id", "kind", "resource_id", "name")
#: Kinds of nodes that a field can refer to.
_REFERENCE_KINDS = {"sync": (SYNC,), "orchestration": (ORCHESTRATION,)}


class Snapshot:
    """
    Resources of the service.

    :param nodes: all nodes, in any order.
    :param origin: name of the snapshot in messages.
    :raises SnapshotError: if nodes have the same ID, or refer to missing nodes.
    """

    def __init__(self, nodes: Iterable[Node], *, origin: str = "The snapshot") -> None:
        ordered = sorted(nodes, key=lambda node: node.id)
        self.origin = origin
        self.nodes: Mapping[str, Node] = MappingProxyType({node.id: node for node in ordered})
        if len(self.nodes) != len(ordered):
            duplicate = next(one.id for one, other in pairwise(ordered) if one.id == other.id)
            raise SnapshotError(f"{origin}: duplicate id {duplicate!r}: {_WRITE_AGAIN}.")
        for node in ordered:
            self._check_references(node)

    def _check_references(self, node: Node) -> None:
        for field in (*_REFERENCE_KINDS, "depends_on", "draft_depends_on"):
            value = getattr(node, field)
            for target in (value,) if isinstance(value, str) else value or ():
                referenced = self.nodes.get(target)
                if target and (referenced is None or referenced.kind not in _REFERENCE_KINDS.get(field, RUNNABLE)):
                    what = "is not in the snapshot" if referenced is None else f"has the kind {referenced.kind}"
                    raise SnapshotError(
                        f"{self.origin}: {field} of {node.id!r} refers to {target!r}, which {what}: {_WRITE_AGAIN}."
                    )

    def as_text(self) -> str:
        """Return the snapshot as the text of a file, which is the same for the same nodes."""
        document = {"format": FORMAT, "version": VERSION, "nodes": [node.as_json() for node in self.nodes.values()]}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def parse(text: str, *, origin: str = "The snapshot") -> Snapshot:
    """
    Parse a snapshot.

    :param text: the text of the file.
    :param origin: name of the snapshot in messages.
    :raises SnapshotError: if the text is not JSON, has another version, or is not a valid snapshot.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SnapshotError(
            f"{origin}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}): {_WRITE_AGAIN}."
        ) from None
    except RecursionError:
        raise SnapshotError(f"{origin} is nested too deeply to be a snapshot: {_WRITE_AGAIN}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SnapshotError(f"{origin} is not a snapshot, because its format is not {FORMAT!r}: {_WRITE_AGAIN}.")
    version = document.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise SnapshotError(
            f"{origin} has the format version {version!r}, and this release reads version {VERSION}: {_WRITE_AGAIN} "
            "of this release."
        )
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        raise SnapshotError(f"{origin}: nodes is not a list: {_WRITE_AGAIN}.")
    return Snapshot((_node(node, f"{origin}, nodes[{place}]") for place, node in enumerate(nodes)), origin=origin)


def _node(given: Any, where: str) -> Node:
    """Parse a node. Unknown fields are ignored, because a later release may have more."""
    if not isinstance(given, dict):
        raise SnapshotError(f"{where} is not an object: {_WRITE_AGAIN}.")
    for name in _TEXTS:
        value = given.get(name, "")
        if not isinstance(value, str) or (name in _REQUIRED and not value):
            kind = "non-empty string" if name in _REQUIRED else "string"
            raise SnapshotError(f"{where}: {name} must be a {kind}: {_WRITE_AGAIN}.")
    if given["kind"] not in KINDS:
        raise SnapshotError(f"{where}: kind is {given['kind']!r}, not one of {', '.join(KINDS)}: {_WRITE_AGAIN}.")
    if given["id"] != node_id(given["kind"], given["resource_id"]):
        raise SnapshotError(f"{where}: id is {given['id']!r}, not made of kind and resource_id: {_WRITE_AGAIN}.")
    values: dict[str, Any] = {name: given[name] for name in _TEXTS if name in given}
    for name in _LISTS:
        if name in given:
            value = given[name]
            if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
                raise SnapshotError(f"{where}: {name} is not a list of strings: {_WRITE_AGAIN}.")
            values[name] = tuple(value)
    return Node(**values)


def node_id(kind: str, resource_id: str) -> str:
    """Return the ID of a node."""
    return f"{kind}:{resource_id}"


_FileVersion = tuple[int, int, int]
#: Cache of this process by path, with the state of the file when it was read.
_cache: dict[Path, tuple[_FileVersion, Snapshot]] = {}


def read(path: Path) -> Snapshot:
    """
    Read the file of a snapshot. The result is cached in the process until the file changes.

    :param path: the file.
    :raises SnapshotError: if the file does not exist, cannot be read, or is invalid.
    """
    origin = str(path)
    try:
        state = path.stat()
        version_key = (state.st_mtime_ns, state.st_size, state.st_ino)
        known = _cache.get(path)
        if known is not None and known[0] == version_key:
            return known[1]
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SnapshotError(
            f"There is no snapshot {origin}: create it with `datapipe snapshot --output FILE`."
        ) from None
    except UnicodeDecodeError:
        raise SnapshotError(f"{origin} is not valid UTF-8: {_WRITE_AGAIN}.") from None
    except OSError as error:
        raise SnapshotError(f"The snapshot {origin} can't be read: {error.strerror or error}.") from None
    snapshot = parse(text, origin=origin)
    _cache[path] = (version_key, snapshot)
    return snapshot
