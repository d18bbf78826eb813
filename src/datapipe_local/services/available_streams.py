"""Streams that the source of a sync offers, and their addition to the sync."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from datapipe_local.common.errors import BadRequestError, RunError
from datapipe_local.common.names import free_name
from datapipe_local.connectors.sources.base import SourceError
from datapipe_local.services import elt_stream_sources, elt_streams, elt_syncs
from datapipe_local.storage.ids import new_id
from datapipe_local.storage.records import Json
from datapipe_local.storage.table import Page, Position
from datapipe_local.warehouse.loading.substreams import names as substream_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import EltStream, EltSync

#: Options that contain source column names.
_COLUMNS = ("excluded_columns", "hashed_columns")
_POINTER = "incremental_pointer_id"
_SUBSTREAMS = "excluded_substreams"
# Name of the list in its cursors.
_LIST = "available_source_streams"


@dataclass(frozen=True)
class Available:
    """
    Stream that a sync has or can add.

    :param name: Name of the stream.
    :param origin: Location in the source.
    :param is_selectable: True if the stream can be added.
    :param preselect: True if clients should select the stream by default.
    :param retired: True if the sync has the stream but the source no longer does.
    :param key: Primary key columns, if the source knows them.
    :param substreams: Names of its lists of records.
    """

    name: str
    origin: Json
    is_selectable: bool = True
    preselect: bool = True
    retired: bool = False
    key: tuple[str, ...] = ()
    substreams: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """
    Stream to add to a sync or to update.

    :param name: Name of the stream.
    :param options: Given options, as in the interface. Missing options keep their current or default value.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


def available(context: Context, sync_id: str) -> list[Available]:
    """
    Return all streams that a sync has or can add, by name.

    :raises NotFoundError: if the sync does not exist.
    :raises BadRequestError: if the source is not available.
    """
    sync = elt_syncs.get(context, sync_id)
    source = elt_stream_sources.source_of(context, sync)
    try:
        offers = source.offers()
    except SourceError as error:
        raise BadRequestError(
            f"The streams of the source cannot be listed: {error}", error_code="source_unavailable"
        ) from error
    streams = elt_syncs.streams(context, sync_id)
    reports = context.store.custom_reports.all("WHERE elt_sync_id = ?", sync_id)
    found = []
    for stream in streams:
        is_there = elt_stream_sources.is_there(context, source, stream)
        substreams = elt_stream_sources.substreams(context, source, stream.origin) if is_there else ()
        found.append(Available(stream.name, stream.origin, retired=not is_there, substreams=substreams))
    taken = {stream.name.lower() for stream in streams}
    for report in reports:
        if report.source_stream_name.lower() not in taken:
            found.append(
                Available(report.source_stream_name, elt_stream_sources.report_origin(report.id), preselect=False)
            )
            taken.add(report.source_stream_name.lower())
    for offer in offers:
        if not any(elt_stream_sources.is_part_of(offer.origin, stream.origin) for stream in streams):
            name = free_name(taken, offer.name)
            found.append(
                Available(
                    name,
                    offer.origin,
                    is_selectable=offer.is_selectable,
                    preselect=offer.is_selectable,
                    key=offer.key,
                    substreams=elt_stream_sources.substreams(context, source, offer.origin)
                    if offer.is_selectable
                    else (),
                )
            )
            taken.add(name.lower())
    return sorted(found, key=_place)


def page(context: Context, sync_id: str, *, after: str | None, limit: int) -> Page[Available]:
    """
    Return a page of :func:`available`.

    :raises NotFoundError: if the sync does not exist.
    :raises BadRequestError: if the source is not available, or the cursor is invalid.
    """
    last = None if after is None else Position.parse(after, _LIST).value
    left = [one for one in available(context, sync_id) if last is None or _place(one) > last]
    more = len(left) > limit
    return Page(left[:limit], Position(_LIST, _place(left[limit - 1]), 0).as_cursor() if more else None)


def add(context: Context, sync_id: str, wanted: Sequence[Wanted]) -> list[EltStream]:
    """
    Add streams to a sync, and update those that it already has. All changes succeed or none.

    :param context: Service context.
    :param sync_id: Sync.
    :param wanted: Streams.
    :return: Added streams.
    :raises NotFoundError: if the sync does not exist.
    :raises BadRequestError: if a stream or an option is not possible. The message contains its name.
    """
    sync = elt_syncs.get(context, sync_id)
    names = [one.name.lower() for one in wanted]
    offered = {one.name.lower(): one for one in available(context, sync_id)} if wanted else {}
    for index, one in enumerate(wanted):
        if one.name.lower() in names[:index]:
            raise _refused(index, "name", f"{one.name[:100]!r} occurs twice: give each stream once.")
        if one.name.lower() not in offered or not offered[one.name.lower()].is_selectable:
            near = difflib.get_close_matches(one.name.lower()[:100], offered, n=3)
            hint = f" (did you mean {' or '.join(offered[name].name for name in near)}?)" if near else ""
            raise _refused(
                index,
                "name",
                f"the source offers no stream {one.name[:100]!r}{hint}: see available_source_streams.",
                error_code="unknown_stream",
            )
        _check(context, sync, index, one, offered[one.name.lower()])
    added = []
    # This lock is needed because table names are checked against transforms.
    with context.publishing, context.store.transaction():
        for index, one in enumerate(wanted):
            stream = _stream(context, sync_id, one, offered[one.name.lower()], index)
            if stream is not None:
                added.append(stream)
    context.wake.set()
    return added


def _place(one: Available) -> str:
    """Return the sort key of a stream: its name, which is unique regardless of case."""
    return one.name.lower()


def _stream(context: Context, sync_id: str, one: Wanted, offer: Available, index: int) -> EltStream | None:
    """Add a stream and return it, or update an existing stream and return None."""
    options = dict(one.options)
    known = context.store.elt_streams.first("WHERE elt_sync_id = ? AND name = ?", sync_id, one.name)
    stream_id = new_id() if known is None else known.id
    origin = offer.origin if known is None else known.origin
    if known is None and offer.key:
        options["incremental_primary_key_name"] = list(offer.key)
    try:
        elt_streams.put(context, stream_id, elt_sync_id=sync_id, name=offer.name, origin=origin, options=options)
    except BadRequestError as error:
        raise BadRequestError(f"source_streams.{index}.{error.message}", error_code=error.error_code) from error
    return elt_streams.get(context, stream_id) if known is None else None


def _check(context: Context, sync: EltSync, index: int, one: Wanted, offer: Available) -> None:
    """Raise if an option of a stream does not match its source."""
    substreams = one.options.get(_SUBSTREAMS, ())
    named = {field: list(one.options.get(field, ())) for field in _COLUMNS}
    if _POINTER in one.options:
        named[_POINTER] = [one.options[_POINTER]]
    if not any(named.values()) and not substreams:
        return
    try:
        typed = elt_stream_sources.columns(context, sync, offer.origin)
    except RunError as error:
        raise _refused(index, next((field for field in named if named[field]), _SUBSTREAMS), f"{error}") from error
    columns = {column.name.lower() for column in typed}
    known = context.store.elt_streams.first("WHERE elt_sync_id = ? AND name = ?", sync.id, one.name)
    is_protected = known is not None and bool(elt_stream_sources.selection_of(known).protected)
    lists = {name.lower() for name in substream_names(typed)}
    for substream in substreams:
        if substream.lower() not in lists:
            raise _refused(index, _SUBSTREAMS, f"the stream has no substream {substream[:100]!r}: remove it.")
    for column_field, names in named.items():
        for name in names:
            if name.lower() not in columns:
                # In a file without a header, column names are data. Do not show them if the stream protects columns.
                remedy = "restore the header" if is_protected else f"give one of {', '.join(sorted(columns))[:500]}"
                raise _refused(
                    index,
                    column_field,
                    f"the source has no column {name[:100]!r}: {remedy}.",
                    error_code="unknown_column",
                )
    excluded, hashed = ({name.lower() for name in named[field]} for field in _COLUMNS)
    if excluded & hashed:
        raise _refused(
            index, "hashed_columns", f"{min(excluded & hashed)!r} is also excluded: remove it from one of the lists."
        )
    if excluded >= columns:
        raise _refused(index, "excluded_columns", "no column would be left: exclude fewer columns.")


def _refused(index: int, name: str, message: str, *, error_code: str | None = None) -> BadRequestError:
    return BadRequestError(f"source_streams.{index}.{name}: {message}", error_code=error_code)
