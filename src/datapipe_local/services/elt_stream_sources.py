"""Stream sources: data that a stream reads, either an object of its source or a query over such objects."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from datapipe_local.common.errors import RunError
from datapipe_local.connectors import sources
from datapipe_local.connectors.sources.base import Fetched, Need
from datapipe_local.services import connections
from datapipe_local.storage.records import Json
from datapipe_local.warehouse import sandbox
from datapipe_local.warehouse.loading import protection
from datapipe_local.warehouse.loading.load_options import LoadOptions
from datapipe_local.warehouse.loading.readable import Selection, Stored, relations
from datapipe_local.warehouse.loading.substreams import names as substream_names
from datapipe_local.warehouse.loading.types import described
from datapipe_local.warehouse.sandbox import SandboxTable
from datapipe_local.warehouse.warehouse import Scan, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from datapipe_local.connectors.sources.base import Source
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import CustomReport, EltStream, EltSync
    from datapipe_local.warehouse.loading.types import Typed

#: Key of the custom report ID in the origin of a stream.
_REPORT = "custom_report_id"


@dataclass(frozen=True)
class Part:
    """
    Object of a source that a query can name.

    :param origin: Location in the source.
    :param selection: Columns that the query can read.
    """

    origin: Json
    selection: Selection


def source_of(context: Context, sync: EltSync) -> Source:
    """Return the source of a sync."""
    return sources.connect(connections.get(context, sync.connection_id), context.store, context.clock)


def selection_of(stream: EltStream) -> Selection:
    """Return the column selection of a stream."""
    return Selection(stream.excluded_columns, stream.hashed_columns, stream.excluded_substreams)


def load_options_of(stream: EltStream) -> LoadOptions:
    """Return the load options of a stream."""
    return LoadOptions(
        selection_of(stream),
        stream.incremental_pointer_id,
        tuple(stream.incremental_primary_key_name or ()),
        stream.enabled_history_table,
    )


def report_origin(report_id: str) -> Json:
    """Return the origin of a stream that reads a custom report."""
    return {_REPORT: report_id}


def report_of(context: Context, origin: Json) -> CustomReport | None:
    """Return the custom report that an origin refers to, or None."""
    return context.store.custom_reports.get(origin[_REPORT]) if _REPORT in origin else None


def is_there(context: Context, source: Source, stream: EltStream) -> bool:
    """Return True if the data of the stream currently exists."""
    return report_of(context, stream.origin) is not None or (_REPORT not in stream.origin and source.has(stream.origin))


def substreams(context: Context, source: Source, origin: Json) -> tuple[str, ...]:
    """Return the names of the substreams of an origin, or none if the source cannot be read."""
    if _REPORT in origin or not source.may_nest(origin):
        return ()
    try:
        with (
            source.fetch(origin, context.warehouse.scratch, Need(rows=False)) as fetched,
            context.warehouse.cursor() as cursor,
            relations(cursor, fetched.scan) as found,
        ):
            return tuple(substream_names(described(cursor, found[0])))
    except (RunError, WarehouseError):
        # The next run reports the problem.
        return ()


@contextmanager
def opened(context: Context, sync: EltSync, origin: Json, need: Need) -> Iterator[Fetched]:
    """
    Fetch the data of an origin for the duration of a ``with`` block.

    :param need: Required columns and rows.
    :raises RunError: if the data cannot be fetched.
    """
    report = report_of(context, origin)
    if report is None:
        with source_of(context, sync).fetch(origin, context.warehouse.scratch, need) as fetched:
            yield fetched
        return
    with tempfile.TemporaryDirectory(dir=context.warehouse.scratch) as folder:
        file = Path(folder) / "result.duckdb"
        with _tables(context, sync, report.query, need) as (tables, size):
            try:
                sandbox.store(context.warehouse, report.query, tables, file)
            except WarehouseError as error:
                is_protected = any(table.selection.protected for table in tables.values())
                reason = protection.without_values(error) if is_protected else str(error)
                raise RunError(f"The query of the custom report {report.name!r} failed: {reason}.") from error
        yield Fetched(f"the custom report {report.name!r}", Stored(file), size)


def columns(context: Context, sync: EltSync, origin: Json) -> list[Typed]:
    """
    Return the columns of an origin.

    :raises RunError: if the data cannot be fetched or read.
    """
    report = report_of(context, origin)
    try:
        if report is not None:
            return query_columns(context, sync, report.query)
        with (
            opened(context, sync, origin, Need(rows=False)) as fetched,
            context.warehouse.cursor() as cursor,
            relations(cursor, fetched.scan) as found,
        ):
            return described(cursor, found[0])
    except WarehouseError as error:
        raise RunError(f"Its columns cannot be read: {error}.") from error


def query_columns(context: Context, sync: EltSync, query: str) -> list[Typed]:
    """
    Return the columns of a query over the streams of a sync and its source.

    :raises WarehouseError: if the query is invalid.
    :raises RunError: if the data of the query cannot be fetched.
    """
    with _tables(context, sync, query, Need(rows=False)) as (tables, _):
        return sandbox.columns(context.warehouse, query, tables)


def parts(context: Context, sync: EltSync) -> dict[str, Part]:
    """
    Return everything that a query can name.

    These are the streams of a sync with their column selection, and the other objects of its source.

    :raises SourceError: if the source is not available.
    """
    named = {
        stream.name.lower(): Part(stream.origin, selection_of(stream))
        for stream in context.store.elt_streams.all("WHERE elt_sync_id = ?", sync.id)
        if _REPORT not in stream.origin
    }
    taken = [part.origin for part in named.values()]
    for offer in source_of(context, sync).offers():
        if not any(is_part_of(offer.origin, origin) for origin in taken):
            named.setdefault(offer.name.lower(), Part(offer.origin, Selection()))
    return named


def is_part_of(offered: Json, origin: Json) -> bool:
    """Return True if an origin reads the offered object."""
    return all(origin.get(name) == value for name, value in offered.items())


@contextmanager
def _tables(
    context: Context, sync: EltSync, query: str, need: Need
) -> Iterator[tuple[Mapping[str, SandboxTable], int]]:
    """Fetch the tables that a query names, and yield them with their total size in bytes."""
    named = sandbox.tables_named(query)
    there = parts(context, sync)
    source = source_of(context, sync)
    # The query may read all columns and rows, even if the caller does not need all of its result.
    whole = Need(rows=need.rows, check=need.check)
    tables: dict[str, SandboxTable] = {}
    size = 0
    with ExitStack() as stack:
        for name in sorted({name.lower() for name in named}):
            part = there.get(name)
            if part is not None:
                fetched = stack.enter_context(source.fetch(part.origin, context.warehouse.scratch, whole))
                assert isinstance(fetched.scan, Scan)  # noqa: S101 - only file sources support reports
                tables[name] = SandboxTable(fetched.scan, part.selection)
                size += fetched.size
        yield tables, size
