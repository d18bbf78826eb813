"""
Resolution of references in SQL templates.

The service lists the references of each template, with their tags and their names in the warehouse, so no SQL is parsed
here. The list does not contain the IDs of the resources. These are found by the exact schema and name of a stream, or
the exact folder and name of a transform.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.pipelines.snapshot import STREAM, TRANSFORM, node_id

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_syncs import AvailableStream
    from airflow_provider_datapipe.api.models.transforms import Reference, Transform

_RAW = "raw."
_MODEL = "model."
_RAW_VIEW = "raw_view"


class Resolved(NamedTuple):
    """
    Resolved references.

    :param nodes: IDs of the referenced nodes, sorted.
    :param unresolved: tags without a node, sorted.
    """

    nodes: tuple[str, ...]
    unresolved: tuple[str, ...]


@dataclass(slots=True)
class ReferenceCatalog:
    """Possible targets of references: node IDs by the names that references use."""

    _raw: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: Tables beside those of streams. A stream with the same name takes precedence.
    _substreams: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _models: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _published: set[str] = field(default_factory=set)

    def add_stream(self, stream_id: str, schema: str | None, name: str) -> None:
        """Add the table of a stream."""
        self._raw[table_name(schema, name)].append(node_id(STREAM, stream_id))

    def add_substreams(
        self, schema: str | None, available: Iterable[AvailableStream], stream_ids: Mapping[str, str]
    ) -> None:
        """
        Add the tables of substreams, which contain the nested records of a stream's rows.

        :param schema: schema of the sync.
        :param available: available streams of its source.
        :param stream_ids: IDs of its streams, by name.
        """
        for stream in available:
            for substream in stream.sub_streams or ():
                if stream.name in stream_ids:
                    for name in (substream, f"{stream.name}_{substream}", f"{stream.name}__{substream}"):
                        self._substreams[table_name(schema, name)].append(node_id(STREAM, stream_ids[stream.name]))

    def add_transform(self, transform: Transform) -> None:
        """Add the view or table of a transform."""
        key = node_id(TRANSFORM, transform.id)
        folders = [part for part in transform.folder_path.split("/") if part]
        self._models[".".join([*folders, transform.name])].append(key)
        if transform.status == "published":
            self._published.add(key)

    def nodes_of(self, reference: Reference) -> list[str]:
        """Return the IDs of the nodes that a reference matches: several if the service's names are ambiguous."""
        if reference.type == _RAW_VIEW or reference.tag.startswith(_RAW):
            names = (reference.tag.removeprefix(_RAW), reference.dw_item_id)
            found = (known.get(name) for known in (self._raw, self._substreams) for name in names)
            return sorted(set(next(filter(None, found), ())))
        named = set(self._models.get(reference.tag.removeprefix(_MODEL), ()))
        # Only published transforms can be referenced. Drafts match by the name that they will have.
        return sorted(named & self._published or named)

    def resolve(self, references: Sequence[Reference]) -> Resolved:
        """Return the nodes that references match, and the tags without a node."""
        found = {reference.tag: self.nodes_of(reference) for reference in references}
        nodes = {node for each in found.values() for node in each}
        return Resolved(tuple(sorted(nodes)), tuple(sorted(tag for tag, each in found.items() if not each)))

    def source(self, source_type: str, source_id: str) -> Resolved:
        """Return the node that a reverse ETL sync reads: a transform by its ID, a raw view by its schema and name."""
        if source_type != "RawView":
            return Resolved((node_id(TRANSFORM, source_id),), ())
        found = sorted(set(self._raw.get(source_id.removeprefix(_RAW), ())))
        return Resolved(tuple(found), () if found else (source_id,))


def table_name(schema: str | None, name: str) -> str:
    """Return the table of a stream in the warehouse."""
    return f"{schema}.{name}" if schema else name
