"""Flows that collect the inputs and outputs of runs. Unknown inputs and outputs are omitted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_datapipe.api.endpoints import elt_streams, elt_syncs, reverse_etl_syncs, transforms
from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.formats import sql_references
from airflow_provider_datapipe.flows import Flow, list_all, send
from airflow_provider_datapipe.lineage.columns import columns_of
from airflow_provider_datapipe.lineage.model import Column, Dataset, Lineage
from airflow_provider_datapipe.lineage.names import Naming, place_of_transform, places_of
from airflow_provider_datapipe.pipelines.references import table_name
from airflow_provider_datapipe.pipelines.transforms.direct_names import named_directly

if TYPE_CHECKING:
    from airflow_provider_datapipe.api.models.common import Page
    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.api.models.transforms import Reference, Transform
    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.runs.models import RunResult, RunTarget

T = TypeVar("T")
U = TypeVar("U")

#: Version of a transform's SQL that is published. Other values are a version ID, or None for the newest version.
PUBLISHED = "published"
#: Maximum number of resources that are read from a list.
_MOST_LISTED = 300
#: For more transforms than this, read the list, and read only those individually that are missing in it.
_MANY = 3
#: For more transforms than this, report the newest SQL: finding the published version takes a request for each.
_FEW = 5
#: SQL that reads from a table or has a reference.
_READS = re.compile(r"\bfrom\b|\{\{", re.IGNORECASE)
_RAW = "raw."
_RAW_VIEW = "RawView"


@dataclass(frozen=True, slots=True)
class Work:
    """
    Work of one task.

    :param kind: kind of the runs.
    :param targets: resources to run.
    :param results: run results by resource ID, None if there are none.
    :param queries: ad hoc SQL queries.
    :param version: SQL version of transforms: :data:`PUBLISHED`, a version ID, or None for the newest.
    :param is_over: True if the task's runs have finished; columns are collected only then.
    """

    kind: str
    targets: Sequence[RunTarget] = ()
    results: Mapping[str, RunResult] | None = None
    queries: Sequence[str] = ()
    version: str | None = None
    is_over: bool = False

    def rows(self, resource_id: str) -> int | None:
        """Return the number of rows that the run of a resource wrote, None if unknown."""
        result = (self.results or {}).get(resource_id)
        rows = None if result is None else result["rows_synced"]
        return None if rows is None else int(rows)


async def lineage_of(work: Work, naming: Naming) -> Lineage:
    """
    Return the lineage of a task.

    :param work: the work of the task.
    :param naming: naming rules for datasets.
    """
    return await _Collector(work, naming).collect()


async def attempt(flow: Flow[T], otherwise: U) -> T | U:
    """Run a flow and return its result, or the default if it raises a DatapipeError."""
    try:
        return await flow
    except DatapipeError:
        return otherwise


class _Collector:
    def __init__(self, work: Work, naming: Naming) -> None:
        self._work = work
        self._naming = naming
        self._found = Lineage(runs=list((work.results or {}).values()))
        self._available: tuple[Reference, ...] | None = None

    async def collect(self) -> Lineage:
        if self._work.kind == "elt_stream":
            await self._add_elt_streams()
        elif self._work.kind == "transform" and self._work.targets:
            await self._add_transforms()
        elif self._work.queries:
            await self._add_queries()
        elif self._work.kind == "reverse_etl":
            for target in self._work.targets:
                await attempt(self._add_reverse_etl(target.resource_id), None)
        elif self._work.kind == "orchestration":
            for target in self._work.targets:
                await self._add_orchestration(target.resource_id)
        return self._found

    async def _read_first(self, request: Request[Page[T]], otherwise: Iterable[U]) -> Sequence[T | U]:
        """Return the first items of a list, and record a problem if the list may be longer."""
        found = await attempt(list_all(request, limit=_MOST_LISTED), None)
        if found is None:
            return list(otherwise)
        if len(found) == _MOST_LISTED:
            self._found.problem = f"only the first {_MOST_LISTED} items of {request.label} were read"
        return found

    async def _references(self) -> tuple[Reference, ...]:
        if self._available is None:
            self._available = ()
            answer = await attempt(send(transforms.available_references()), None)
            self._available = () if answer is None else answer.data
        return self._available

    def _tables(self, places: Iterable[str]) -> list[Dataset]:
        return [Dataset(self._naming.table(place)) for place in places]

    # --- ELT

    async def _add_elt_streams(self) -> None:
        by_sync: dict[str, list[RunTarget]] = {}
        for target in self._work.targets:
            known = target if target.sync_id else (await attempt(self._stream(target), None))
            if known is not None and known.sync_id:
                by_sync.setdefault(known.sync_id, []).append(known)
        for sync_id, targets in by_sync.items():
            sync = await attempt(send(elt_syncs.get(sync_id)), None)
            if sync is not None:
                self._add_streams(sync, {each.name: self._work.rows(each.resource_id) for each in targets})

    async def _stream(self, target: RunTarget) -> RunTarget:
        found = await send(elt_streams.get(target.resource_id))
        return replace(target, name=found.name, sync_id=found.elt_sync_id)

    def _add_streams(self, sync: EltSync, rows: Mapping[str, int | None]) -> None:
        """
        Add the source and the table of each stream of a sync.

        :param sync: the sync.
        :param rows: number of loaded rows by stream name, None if unknown.
        """
        for name, count in rows.items():
            source = self._naming.external(sync.source_connection_id, name)
            table = self._naming.table(table_name(sync.destination_schema_name, name))
            self._found.add([Dataset(source, integration=sync.source_integration_id)], [Dataset(table, rows=count)])

    # --- Transforms

    async def _add_transforms(self) -> None:
        targets = self._work.targets
        listed: dict[str, Transform] = {}
        if len(targets) > _MANY:
            found: list[Transform] = await attempt(list_all(transforms.list_(), limit=_MOST_LISTED), [])
            listed = {each.id: each for each in found}
        for target in targets:
            transform = listed.get(target.resource_id)
            if transform is None:
                # The transform may be beyond the limit of the list.
                transform = await attempt(send(transforms.get(target.resource_id)), None)
            if transform is not None:
                await self._add_transform(
                    transform,
                    is_alone=len(targets) == 1,
                    version=self._work.version if len(targets) <= _FEW else None,
                    is_moving=not self._work.is_over and _is_moved(transform, target.options),
                )

    async def _add_transform(
        self, transform: Transform, *, is_alone: bool, version: str | None, is_moving: bool = False
    ) -> None:
        """
        Add a transform.

        :param transform: the transform.
        :param is_alone: True if it is the task's only transform; its SQL, columns and column lineage are then reported.
        :param version: SQL version, as in :class:`Work`.
        :param is_moving: True if the task will move it, so that its new location is not yet known.
        """
        sql, parameters = transform.sql_template, transform.parameters
        if version is not None:
            sql, parameters = await self._sql_of_version(transform, version)
        places = places_of(parameters)
        place = None
        if not is_moving:
            place = place_of_transform(transform.folder_path, transform.name, await self._references())
        columns: tuple[Column, ...] = ()
        if is_alone:
            self._found.sql = sql_references.replace_tags(
                sql, {tag: _quoted(where) for tag, where in places.items()}.get
            )
            if self._work.is_over and place is not None:
                schema = await attempt(send(transforms.schema(transform.id)), None)
                columns = () if schema is None else tuple(Column(each.name, each.type) for each in schema.data)
        made_from = {
            column: [(self._naming.table(table), name) for table, name in origins]
            for column, origins in columns_of(sql, places, [each.name for each in columns]).items()
        }
        outputs = [] if place is None else [Dataset(self._naming.table(place), columns, made_from)]
        self._found.add(self._tables(places.values()), outputs)

    async def _sql_of_version(self, transform: Transform, wanted: str) -> tuple[str, tuple[Reference, ...]]:
        # Usually the newest version; 20 versions are enough in practice.
        page = await attempt(send(transforms.versions(transform.id, limit=20)), None)
        for version in () if page is None else page.data:
            if version.is_published if wanted == PUBLISHED else version.id == wanted:
                return version.sql_template, version.parameters
        return transform.sql_template, transform.parameters

    # --- Queries

    async def _add_queries(self) -> None:
        queries = self._work.queries
        available = (await self._references()) if any(_READS.search(sql) for sql in queries) else ()
        places = places_of(available)
        read: list[str] = []
        for sql in queries:
            tags = [tag for tag in sql_references.tags(sql) if tag in places]
            direct = named_directly(sql, {place: tag for tag, place in places.items()})
            read += [places[tag] for tag in dict.fromkeys([*tags, *direct])]
        self._found.add(self._tables(read), [])
        names = {tag: _quoted(where) for tag, where in places.items()}
        self._found.sql = ";\n".join(sql_references.replace_tags(sql, names.get) for sql in queries)
        if len(self._found.runs) == 1:
            self._found.query_id = self._found.runs[0]["run_id"]

    # --- Reverse ETL

    async def _add_reverse_etl(self, sync_id: str) -> None:
        sync = await send(reverse_etl_syncs.get(sync_id))
        transform = None
        if sync.source_type != _RAW_VIEW:
            transform = await attempt(send(transforms.get(sync.transform_id or sync.source_id)), None)
        await self._add_reverse_etl_sync(sync, transform, rows=self._work.rows(sync_id))

    async def _add_reverse_etl_sync(
        self, sync: ReverseEtlSync, transform: Transform | None, *, rows: int | None
    ) -> None:
        """
        Add the source and the destination of a reverse ETL sync.

        :param sync: the sync.
        :param transform: the source transform; None for a raw view or if unknown.
        :param rows: number of synced rows, None if unknown.
        """
        place = None
        if sync.source_type == _RAW_VIEW:
            place = sync.source_id.removeprefix(_RAW)
        elif transform is not None:
            place = place_of_transform(transform.folder_path, transform.name, await self._references())
        source = None if place is None else self._naming.table(place)
        mappings = () if sync.operation is None else sync.operation.mappings
        destination = Dataset(
            self._naming.external(sync.destination_connection_id, sync.object_type_id),
            tuple(Column(each.destination_property_id) for each in mappings),
            # The column lineage follows from the mappings, without parsing SQL.
            {each.destination_property_id: [(source, each.source_property_id)] for each in mappings} if source else {},
            rows,
            sync.destination_integration_id,
        )
        self._found.add([] if source is None else [Dataset(source)], [destination])

    # --- Orchestrations

    async def _add_orchestration(self, orchestration_id: str) -> None:
        """Add all resources that are attached to an orchestration."""
        syncs = await self._read_first(elt_syncs.list_(), [])
        models = {each.id: each for each in await self._read_first(transforms.list_(), [])}
        sendings = await self._read_first(reverse_etl_syncs.list_(), [])
        # ELT syncs come last: they need no further requests, and the request limit may be reached.
        for sending in sendings:
            if sending.orchestration_workflow_id == orchestration_id:
                read = models.get(sending.transform_id or sending.source_id)
                await self._add_reverse_etl_sync(sending, read, rows=None)
        built = [each for each in models.values() if each.orchestration_workflow_id == orchestration_id]
        for model in built:
            version = PUBLISHED if len(built) <= _FEW else None
            await self._add_transform(model, is_alone=False, version=version)
        for sync in syncs:
            if sync.orchestration_workflow_id == orchestration_id:
                streams = await self._read_first(elt_streams.list_(elt_sync_id=sync.id), sync.source_streams or ())
                self._add_streams(sync, {stream.name: None for stream in streams})


def _is_moved(transform: Transform, options: Mapping[str, str]) -> bool:
    """Return True if the publish options change the name or the folder of a transform."""
    folder, name = options.get("folder_path", transform.folder_path), options.get("name", transform.name)
    return (folder.strip("/"), name) != (transform.folder_path.strip("/"), transform.name)


def _quoted(place: str) -> str:
    """Return schema and name of a table as quoted SQL identifiers."""
    return ".".join(part if part.isidentifier() else _in_quotes(part) for part in place.split(".", 1))


def _in_quotes(part: str) -> str:
    doubled = part.replace('"', '""')
    return f'"{doubled}"'
