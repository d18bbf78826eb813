"""Flow that reads a snapshot from the service. A runner sends the requests and can show the progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_provider_datapipe.api.endpoints import (
    elt_streams,
    elt_syncs,
    orchestrations,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import InvalidRequestError, NotFoundError, ServerError
from airflow_provider_datapipe.flows import Flow, list_all
from airflow_provider_datapipe.pipelines.references import ReferenceCatalog
from airflow_provider_datapipe.pipelines.snapshot import (
    ORCHESTRATION,
    REVERSE_ETL,
    STREAM,
    SYNC,
    TRANSFORM,
    Node,
    Snapshot,
    node_id,
)
from airflow_provider_datapipe.resources.transform_state import published_version

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.orchestrations import Orchestration
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.api.models.transforms import Transform, TransformVersion

T = TypeVar("T")

_PUBLISHED = "published"


class Runner(Protocol):
    """Runner of flows, which sends their requests to the service."""

    def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""

    def run_concurrently(self, flows: Sequence[Flow[T]]) -> list[T]:
        """Run flows, several at a time, and return their results in order."""


def collect(service: Runner, *, with_sql: bool = False) -> Snapshot:
    """
    Read a snapshot of the service.

    Resources that are created or deleted meanwhile may be included or not. References to missing resources are omitted.

    :param service: runner of the requests.
    :param with_sql: if True, the nodes contain the SQL of transforms.
    :raises DatapipeError: if the service refuses a request, or cannot be reached.
    """
    builder = service.run(_read_lists())
    published = [transform.id for transform in builder.transforms if transform.status == _PUBLISHED]
    # This requires one request for each transform.
    found = service.run_concurrently([_published_version(transform_id) for transform_id in published])
    versions = {key: version for key, version in zip(published, found, strict=True) if version is not None}
    service.run(_read_substreams(builder, versions.values()))
    return Snapshot(builder.nodes(versions, with_sql=with_sql), origin="The service's response")


async def _read_lists() -> _SnapshotBuilder:
    return _SnapshotBuilder(
        await list_all(orchestrations.list_()),
        await list_all(elt_syncs.list_()),
        await list_all(elt_streams.list_()),
        await list_all(transforms.list_()),
        await list_all(reverse_etl_syncs.list_()),
    )


async def _read_substreams(builder: _SnapshotBuilder, versions: Iterable[TransformVersion]) -> None:
    """Read the substreams of syncs whose schemas contain a referenced table that is not a stream."""
    used = [version.parameters for version in versions] + [each.parameters for each in builder.transforms]
    unknown = {
        reference.dw_item_id.partition(".")[0]
        for references in used
        for reference in references
        if reference.tag.startswith("raw.") and not builder.catalog.nodes_of(reference)
    }
    for sync in builder.syncs.values():
        if sync.destination_schema_name in unknown:
            # Only if necessary: the service may have to query the source, which may be unavailable.
            try:
                available = await list_all(elt_syncs.available_source_streams(sync.id))
            except (InvalidRequestError, NotFoundError, ServerError):
                continue
            builder.catalog.add_substreams(sync.destination_schema_name, available, builder.streams_of(sync.id))


async def _published_version(transform_id: str) -> TransformVersion | None:
    try:
        return await published_version(transform_id)
    except NotFoundError:
        # It was deleted meanwhile: the SQL that was read before is used.
        return None


class _SnapshotBuilder:
    """Resources of the service, and their conversion to nodes."""

    def __init__(
        self,
        orchestrations: Sequence[Orchestration],
        syncs: Sequence[EltSync],
        streams: Sequence[EltStream],
        transforms: Sequence[Transform],
        reverse_syncs: Sequence[ReverseEtlSync],
    ) -> None:
        # Pages can contain duplicates if the list changes between the requests.
        self.orchestrations = {each.id: each for each in orchestrations}
        self.syncs = {each.id: each for each in syncs}
        self.streams = {each.id: each for each in streams if each.elt_sync_id in self.syncs}
        self.transforms = {each.id: each for each in transforms}.values()
        self.reverse_syncs = {each.id: each for each in reverse_syncs}
        self.catalog = ReferenceCatalog()
        for stream in self.streams.values():
            self.catalog.add_stream(stream.id, self.syncs[stream.elt_sync_id].destination_schema_name, stream.name)
        for model in self.transforms:
            self.catalog.add_transform(model)

    def streams_of(self, sync_id: str) -> Mapping[str, str]:
        return {each.name: each.id for each in self.streams.values() if each.elt_sync_id == sync_id}

    def nodes(self, versions: Mapping[str, TransformVersion], *, with_sql: bool) -> list[Node]:
        nodes = [self._orchestration_node(each) for each in self.orchestrations.values()]
        nodes += [self._sync_node(each) for each in self.syncs.values()]
        nodes += [self._stream_node(each) for each in self.streams.values()]
        nodes += [self._transform_node(each, versions.get(each.id), with_sql=with_sql) for each in self.transforms]
        titles = {node.id: node.name for node in nodes}
        nodes += [self._reverse_sync_node(each, titles) for each in self.reverse_syncs.values()]
        return nodes

    def _orchestration_id(self, workflow_id: str | None) -> str:
        return node_id(ORCHESTRATION, workflow_id) if workflow_id in self.orchestrations and workflow_id else ""

    def _orchestration_node(self, each: Orchestration) -> Node:
        return Node(node_id(ORCHESTRATION, each.id), ORCHESTRATION, each.id, each.name or each.id)

    def _sync_node(self, each: EltSync) -> Node:
        return Node(
            node_id(SYNC, each.id),
            SYNC,
            each.id,
            each.destination_schema_name or each.id,
            status=_status(each.enabled),
            integration=each.source_integration_id,
            orchestration=self._orchestration_id(each.orchestration_workflow_id),
        )

    def _stream_node(self, each: EltStream) -> Node:
        sync = self.syncs[each.elt_sync_id]
        return Node(
            node_id(STREAM, each.id),
            STREAM,
            each.id,
            each.name,
            folder=sync.destination_schema_name or sync.id,
            status=_status(sync.enabled),
            sync=node_id(SYNC, sync.id),
        )

    def _transform_node(self, each: Transform, published: TransformVersion | None, *, with_sql: bool) -> Node:
        newest = self.catalog.resolve(each.parameters)
        effective = newest if published is None else self.catalog.resolve(published.parameters)
        node = Node(
            node_id(TRANSFORM, each.id),
            TRANSFORM,
            each.id,
            each.name,
            folder="/".join(part for part in each.folder_path.split("/") if part),
            status=str(each.status),
            materialization=str(each.materialization),
            orchestration=self._orchestration_id(each.orchestration_workflow_id),
            depends_on=effective.nodes,
            draft_depends_on=None if newest.nodes == effective.nodes else newest.nodes,
            unresolved=tuple(sorted({*effective.unresolved, *newest.unresolved})),
            documentation=each.documentation or "",
        )
        return replace(node, sql=(published or each).sql_template) if with_sql else node

    def _reverse_sync_node(self, each: ReverseEtlSync, titles: Mapping[str, str]) -> Node:
        source = self.catalog.source(str(each.source_type), each.transform_id or each.source_id)
        known = tuple(key for key in source.nodes if key in titles)
        read = titles[known[0]] if known else each.source_id
        return Node(
            node_id(REVERSE_ETL, each.id),
            REVERSE_ETL,
            each.id,
            f"{read}_to_{each.destination_integration_id}",
            status=_status(each.enabled),
            integration=each.destination_integration_id,
            orchestration=self._orchestration_id(each.orchestration_workflow_id),
            depends_on=known,
            unresolved=() if known else (each.source_id,),
        )


def _status(enabled: bool) -> str:
    return "enabled" if enabled else "disabled"
