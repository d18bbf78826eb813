"""Custom reports: queries over the source of a sync that become streams of the sync."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.custom_reports import CustomReportErrorCode
from datapipe_local.common.errors import BadRequestError, NotFoundError, RunError
from datapipe_local.common.names import free_name, snake_case
from datapipe_local.connectors.sources import SOURCES
from datapipe_local.connectors.sources.base import SourceError
from datapipe_local.services import connections, elt_stream_sources, elt_streams, elt_syncs, elt_tables, references
from datapipe_local.services.checks import check_name, check_text, has_lone_surrogate
from datapipe_local.storage.ids import derived_id, new_id
from datapipe_local.storage.records import CustomReport, EltSync
from datapipe_local.warehouse.warehouse import Place, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from datapipe_local.services.context import Context

log = logging.getLogger(__name__)

#: Maximum number of reports per request. The service validates each query before it responds.
MOST = 100
_LONGEST_NAME = 255


class Wanted(NamedTuple):
    """Request to create a report."""

    elt_sync_id: str
    name: str
    query: str


class Result(NamedTuple):
    """Result of a report request: the stream name, or an error code and message."""

    wanted: Wanted
    source_stream_name: str | None = None
    error_code: CustomReportErrorCode | None = None
    message: str | None = None


class _RefusedError(Exception):
    def __init__(self, code: CustomReportErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def create(context: Context, wanted: Sequence[Wanted], *, add_as_source_stream: bool) -> list[Result]:
    """
    Create reports independently of each other.

    :param context: Service context.
    :param wanted: Reports to create.
    :param add_as_source_stream: Add each report to its sync as a stream. If False, the caller can add it later.
    :return: One result per report, in the order of ``wanted``.
    :raises BadRequestError: if there are more than 100 reports, or a text contains a lone surrogate.
    """
    if len(wanted) > MOST:
        raise BadRequestError(f"reports: there are {len(wanted)}: give at most {MOST}.")
    for index, one in enumerate(wanted):
        for field, text in one._asdict().items():
            if has_lone_surrogate(text):
                raise BadRequestError(
                    f"reports.{index}.{field}: it contains half a character (a lone surrogate): remove it."
                )
    return [_result(context, one, add_as_source_stream=add_as_source_stream) for one in wanted]


def put(
    context: Context,
    report_id: str,
    *,
    elt_sync_id: str,
    name: str,
    query: str,
    source_stream_name: str,
    add_as_source_stream: bool,
) -> None:
    """
    Create a report without validating its query, or update the query of an existing report.

    :raises BadRequestError: if a value is invalid.
    :raises NotFoundError: if the sync does not exist.
    """
    sync = elt_syncs.get(context, elt_sync_id)
    check_name("source_stream_name", source_stream_name)
    if not _supports_reports(context, sync):
        raise BadRequestError("elt_sync_id: the source of this sync has no reports.")
    known = context.store.custom_reports.get(report_id)
    if known is None:
        twin = context.store.custom_reports.first(
            "WHERE elt_sync_id = ? AND source_stream_name = ?", elt_sync_id, source_stream_name
        )
        if twin is not None:
            raise BadRequestError(
                f"source_stream_name: {source_stream_name!r} is the stream of the custom report {twin.id!r} already:"
                " set another name."
            )
        context.store.custom_reports.insert(
            CustomReport(
                id=report_id,
                elt_sync_id=elt_sync_id,
                name=name,
                query=query,
                source_stream_name=source_stream_name,
                created_at=context.clock.now(),
            )
        )
        if add_as_source_stream:
            elt_streams.put(
                context,
                derived_id("elt_stream", report_id),
                elt_sync_id=elt_sync_id,
                name=source_stream_name,
                origin=elt_stream_sources.report_origin(report_id),
            )
    else:
        context.store.custom_reports.update(report_id, query=query)


def _result(context: Context, wanted: Wanted, *, add_as_source_stream: bool) -> Result:
    try:
        name = _create(context, wanted, add_as_source_stream=add_as_source_stream)
    except _RefusedError as error:
        return Result(wanted, error_code=error.code, message=" ".join(str(error).split()))
    except Exception:  # one failing report must not affect the others
        log.exception("A custom report could not be created")
        return Result(
            wanted,
            error_code=CustomReportErrorCode.UNKNOWN,
            message="datapipe-local itself failed: see the service's log.",
        )
    return Result(wanted, source_stream_name=name)


def _create(context: Context, wanted: Wanted, *, add_as_source_stream: bool) -> str:
    sync = _sync(context, wanted.elt_sync_id)
    name = _checked_name(wanted.name)
    offered = _try(context, sync, wanted.query)
    with context.publishing, context.store.transaction():
        sync = _sync(context, wanted.elt_sync_id)
        stream_name = _free_name(context, sync, name, offered)
        put(
            context,
            new_id(),
            elt_sync_id=sync.id,
            name=wanted.name,
            query=wanted.query,
            source_stream_name=stream_name,
            add_as_source_stream=add_as_source_stream,
        )
    context.wake.set()
    return stream_name


def _sync(context: Context, sync_id: str) -> EltSync:
    try:
        sync = elt_syncs.get(context, sync_id)
    except NotFoundError as error:
        raise _RefusedError(CustomReportErrorCode.NOT_FOUND, f"elt_sync_id: {error.message}") from error
    if not _supports_reports(context, sync):
        raise _RefusedError(
            CustomReportErrorCode.UNSUPPORTED_INTEGRATION,
            "elt_sync_id: the source of this sync has no reports: choose a sync of files.",
        )
    return sync


def _checked_name(name: str) -> str:
    derived = snake_case(name)
    try:
        check_text("name", name)
        if derived:
            check_name("name", derived)
    except BadRequestError as error:
        raise _RefusedError(CustomReportErrorCode.UNKNOWN, error.message) from error
    if not derived or len(name) > _LONGEST_NAME:
        raise _RefusedError(
            CustomReportErrorCode.UNKNOWN,
            f"name: it cannot be converted to a stream name: use letters, at most {_LONGEST_NAME} characters.",
        )
    return derived


def _try(context: Context, sync: EltSync, query: str) -> Collection[str]:
    """Validate a query without running it, and return the names that it can refer to."""
    try:
        elt_stream_sources.query_columns(context, sync, query)
        return elt_stream_sources.parts(context, sync)
    except SourceError as error:
        code = (
            CustomReportErrorCode.CONNECTION_LOST_ACCESS
            if error.lost_access
            else CustomReportErrorCode.CONNECTION_ERROR
        )
        raise _RefusedError(code, str(error)) from error
    except RunError as error:
        raise _RefusedError(CustomReportErrorCode.CONNECTION_ERROR, str(error)) from error
    except (WarehouseError, UnicodeEncodeError) as error:
        raise _RefusedError(CustomReportErrorCode.INVALID_QUERY, f"query: {error}.") from error


def _supports_reports(context: Context, sync: EltSync) -> bool:
    return SOURCES[connections.get(context, sync.connection_id).integration_id].reports


def _free_name(context: Context, sync: EltSync, wanted: str, offered: Collection[str]) -> str:
    """Return a name that no stream, report, source stream or transform uses."""
    reports = context.store.custom_reports.all("WHERE elt_sync_id = ?", sync.id)
    taken = {report.source_stream_name.lower() for report in reports}.union(offered)
    taken |= {stream.name.lower() for stream in elt_syncs.streams(context, sync.id)}
    while True:
        name = free_name(taken, wanted)
        place = Place(sync.destination_schema_name, name)
        transform = references.transform_at(context, place) or references.transform_among_substreams(context, place)
        if transform is None and not elt_tables.is_beside_a_stream(context, sync.id, place):
            return name
        taken.add(name)
