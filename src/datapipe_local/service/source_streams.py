"""What the source of a sync offers, and what of it becomes streams."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from datapipe_local.errors import BadRequestError, RunError
from datapipe_local.ids import new_id
from datapipe_local.loading.substreams import names as substream_names
from datapipe_local.names import numbered
from datapipe_local.service import elt_streams, elt_syncs, readings
from datapipe_local.sources.base import SourceError
from datapipe_local.store.records import Json
from datapipe_local.store.table import Page, Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from datapipe_local.service.context import Context
    from datapipe_local.store.records import EltStream, EltSync

#: The fields that name columns of the source.
_COLUMNS = ("excluded_columns", "hashed_columns")
_POINTER = "incremental_pointer_id"
_SUBSTREAMS = "excluded_substreams"
# What the cursors of the list say of whose they are.
_LIST = "available_source_streams"


@dataclass(frozen=True)
class Available:
    """
    A stream that a sync can have.

    :param name: Its name.
    :param origin: What it reads.
    :param is_selectable: It can be added.
    :param preselect: It is one that most want.
    :param retired: Its sync has it, and its source has it no more.
    :param key: The columns that tell its rows apart, as far as the source knows.
    :param substreams: Its lists of records.
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
    A stream to add, or to change if the sync has it.

    :param name: Its name.
    :param options: What was said of it, as the interface spells it; what was not said stays, or is as usual.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


def available(context: Context, sync_id: str) -> list[Available]:
    """
    Give all streams that a sync has or can have, by name.

    :raises NotFoundError: there is no such sync.
    :raises BadRequestError: its source cannot be asked.
    """
    sync = elt_syncs.get(context, sync_id)
    source = readings.source_of(context, sync)
    try:
        offers = source.offers()
    except SourceError as error:
        raise BadRequestError(f"The source cannot be asked: {error}", error_code="source_unavailable") from error
    streams = elt_syncs.streams(context, sync_id)
    reports = context.store.custom_reports.all("WHERE elt_sync_id = ?", sync_id)
    found = []
    for stream in streams:
        is_there = readings.is_there(context, source, stream)
        substreams = readings.substreams(context, source, stream.origin) if is_there else ()
        found.append(Available(stream.name, stream.origin, retired=not is_there, substreams=substreams))
    taken = {stream.name.lower() for stream in streams}
    for report in reports:
        if report.source_stream_name.lower() not in taken:
            found.append(Available(report.source_stream_name, readings.report_origin(report.id), preselect=False))
            taken.add(report.source_stream_name.lower())
    for offer in offers:
        if not any(readings.is_part_of(offer.origin, stream.origin) for stream in streams):
            name = free_name(offer.name, taken)
            found.append(
                Available(
                    name,
                    offer.origin,
                    is_selectable=offer.is_selectable,
                    preselect=offer.is_selectable,
                    key=offer.key,
                    substreams=readings.substreams(context, source, offer.origin) if offer.is_selectable else (),
                )
            )
            taken.add(name.lower())
    return sorted(found, key=_place)


def page(context: Context, sync_id: str, *, after: str | None, limit: int) -> Page[Available]:
    """
    Give a part of the list of :func:`available`.

    :raises NotFoundError: there is no such sync.
    :raises BadRequestError: its source cannot be asked; or the cursor is not one.
    """
    last = None if after is None else Position.parse(after, _LIST).value
    left = [one for one in available(context, sync_id) if last is None or _place(one) > last]
    more = len(left) > limit
    return Page(left[:limit], Position(_LIST, _place(left[limit - 1]), 0).as_cursor() if more else None)


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Give a name that is not taken: the one that is wanted, or that with a number behind it."""
    return next(name for name in _candidates(wanted) if name.lower() not in taken)


def add(context: Context, sync_id: str, wanted: Sequence[Wanted]) -> list[EltStream]:
    """
    Add streams to a sync, and change those that it has: all of them or none.

    :param context: The service.
    :param sync_id: The sync.
    :param wanted: The streams.
    :return: Those that were added.
    :raises NotFoundError: there is no such sync.
    :raises BadRequestError: one cannot be had, or not so; the message names it.
    """
    sync = elt_syncs.get(context, sync_id)
    names = [one.name.lower() for one in wanted]
    offered = {one.name.lower(): one for one in available(context, sync_id)} if wanted else {}
    for index, one in enumerate(wanted):
        if one.name.lower() in names[:index]:
            raise _refused(index, "name", f"{one.name[:100]!r} stands here twice: give each stream once.")
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
    # Names of tables are looked up among transforms, too.
    with context.publishing, context.store.transaction():
        for index, one in enumerate(wanted):
            stream = _stream(context, sync_id, one, offered[one.name.lower()], index)
            if stream is not None:
                added.append(stream)
    context.wake.set()
    return added


def _place(one: Available) -> str:
    """Tell where a stream stands in the list: no two have the same name, however they are written."""
    return one.name.lower()


def _stream(context: Context, sync_id: str, one: Wanted, offer: Available, index: int) -> EltStream | None:
    """Add a stream and give it, or change the one that is there."""
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
    """See to it that all that is said of a stream can be done."""
    substreams = one.options.get(_SUBSTREAMS, ())
    named = {field: list(one.options.get(field, ())) for field in _COLUMNS}
    if _POINTER in one.options:
        named[_POINTER] = [one.options[_POINTER]]
    if not any(named.values()) and not substreams:
        return
    try:
        typed = readings.columns(context, sync, offer.origin)
    except RunError as error:
        raise _refused(index, next((field for field in named if named[field]), _SUBSTREAMS), f"{error}") from error
    columns = {column.name.lower() for column in typed}
    known = context.store.elt_streams.first("WHERE elt_sync_id = ? AND name = ?", sync.id, one.name)
    is_protected = known is not None and bool(readings.selection_of(known).protected)
    lists = {name.lower() for name in substream_names(typed)}
    for substream in substreams:
        if substream.lower() not in lists:
            raise _refused(index, _SUBSTREAMS, f"the stream has no substream {substream[:100]!r}: leave it out.")
    for column_field, names in named.items():
        for name in names:
            if name.lower() not in columns:
                # Without a header, the names are values: not shown if the stream protects columns already.
                remedy = "restore the header" if is_protected else f"give one of {', '.join(sorted(columns))[:500]}"
                raise _refused(
                    index,
                    column_field,
                    f"the source has no column {name[:100]!r}: {remedy}.",
                    error_code="unknown_column",
                )
    excluded, hashed = ({name.lower() for name in named[field]} for field in _COLUMNS)
    if excluded & hashed:
        raise _refused(index, "hashed_columns", f"{min(excluded & hashed)!r} is excluded, too: leave out one of both.")
    if excluded >= columns:
        raise _refused(index, "excluded_columns", "no column would be left: exclude fewer.")


def _refused(index: int, name: str, message: str, *, error_code: str | None = None) -> BadRequestError:
    return BadRequestError(f"source_streams.{index}.{name}: {message}", error_code=error_code)


def _candidates(wanted: str) -> Iterator[str]:
    yield wanted
    number = 2
    while True:
        yield numbered(wanted, number)
        number += 1
