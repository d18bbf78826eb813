"""Requests that `datapipe apply` sends for new or changed streams of an ELT sync."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.endpoints import elt_streams as endpoints
from airflow_provider_datapipe.api.errors import DatapipeError, InvalidInputError, InvalidRequestError
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.pipelines.workspace.models import declared_fields
from airflow_provider_datapipe.pipelines.workspace.units import check_possible, failed, succeeded
from airflow_provider_datapipe.resources import elt_syncs
from airflow_provider_datapipe.resources.comparable import schedule_of_stream
from airflow_provider_datapipe.resources.differences import Differences
from airflow_provider_datapipe.resources.elt_streams import stream_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_datapipe.api.models.elt_streams import EltStream
    from airflow_provider_datapipe.pipelines.plan import Item, ReportItem
    from airflow_provider_datapipe.pipelines.workspace.models import StreamEntry
    from airflow_provider_datapipe.pipelines.workspace.units import ApplyState, Key, Work

#: Options that are sent with a stream, in the order in which they are shown.
STREAM_OPTIONS = (
    "incremental_pointer_id",
    "full_sync_always",
    "full_sync_at_midnight",
    "protected_from_full_sync",
    "excluded_substreams",
    "enabled_history_table",
)
#: Options that are sent with a stream, and that no service shows.
HIDDEN_STREAM_OPTIONS = ("excluded_columns", "hashed_columns")
_IN_ANY_ORDER = frozenset({"excluded_substreams"})


def compare(entry: StreamEntry, current: EltStream) -> Differences:
    """Compare a stream of an ELT sync."""
    found = Differences(hidden=entry.is_set(*HIDDEN_STREAM_OPTIONS))
    old_values = current.model_dump(mode="json", include=set(STREAM_OPTIONS))
    for name, new in declared_fields(entry, STREAM_OPTIONS).items():
        old = old_values[name]
        if name in _IN_ANY_ORDER and sorted(old) == sorted(new):
            continue
        if new is None:
            found.refuse(name, old, None, "it can't be removed: set another value, or delete the stream")
        else:
            found.compare(name, old, new)
    if entry.is_set("sync_interval"):
        found.compare_schedule("sync_interval", schedule_of_stream(current), entry.sync_interval)
    return found


@dataclass(frozen=True, slots=True)
class StreamWork:
    """
    A stream to create or update.

    :param known: the existing stream; None to create it.
    """

    entry: StreamEntry
    item: Item
    known: EltStream | None
    differences: Differences

    @property
    def options(self) -> dict[str, Any] | None:
        """Options to send with the name of the stream; None if no request is necessary."""
        declared = declared_fields(self.entry, (*STREAM_OPTIONS, *HIDDEN_STREAM_OPTIONS))
        if self.known is None:
            return {name: value for name, value in declared.items() if value is not None}
        sent = {
            name: value
            for name, value in declared.items()
            if value is not None and (name in self.differences or name in HIDDEN_STREAM_OPTIONS)
        }
        # The field has a default, which a service may apply if it is omitted.
        return {"enabled_history_table": self.known.enabled_history_table, **sent} if sent else None

    @property
    def has_interval(self) -> bool:
        """True if its own schedule has to be set or removed."""
        if self.known is None:
            return self.entry.sync_interval is not None
        return "sync_interval" in self.differences


def change(sync_id: str | None, sync_key: Key, streams: Sequence[StreamWork]) -> Work:
    """
    Return the flow that adds and updates streams of a sync, in one request unless the service refuses it.

    :param sync_id: ID of the sync; None if it is created by another unit.
    :param sync_key: key of the sync.
    :param streams: the streams.
    """

    async def work(state: ApplyState) -> Sequence[ReportItem]:
        of_sync = str(state.id_of(sync_id, sync_key))
        errors: dict[int, Exception] = {}
        sent = {index: each.options for index, each in enumerate(streams)}
        requested = [
            (
                index,
                {
                    "name": streams[index].entry.name if (known := streams[index].known) is None else known.name,
                    **options,
                },
            )
            for index, options in sent.items()
            if options is not None
        ]
        await _add(of_sync, requested, errors)
        new_streams: list[EltStream] = []
        if any(each.known is None and each.has_interval for each in streams):
            new_streams = await list_all(endpoints.list_(elt_sync_id=of_sync))
        for index, each in enumerate(streams):
            if index in errors:
                continue
            try:
                if each.has_interval:
                    await _set_interval(each, new_streams)
                check_possible(each.differences)
            except DatapipeError as error:
                errors[index] = error
        return [
            failed(each.item, errors[index]) if index in errors else succeeded(each.item)
            for index, each in enumerate(streams)
        ]

    return work


async def _add(sync_id: str, requested: Sequence[tuple[int, dict[str, Any]]], errors: dict[int, Exception]) -> None:
    """Add streams. If the service refuses the request as a whole, split it to find the invalid streams."""
    if not requested:
        return
    try:
        await elt_syncs.send_streams(sync_id, [each for _, each in requested])
    except (InvalidRequestError, InvalidInputError) as error:
        if len(requested) == 1:
            errors[requested[0][0]] = error
            return
        middle = len(requested) // 2
        await _add(sync_id, requested[:middle], errors)
        await _add(sync_id, requested[middle:], errors)
    except DatapipeError as error:
        errors.update((index, error) for index, _ in requested)


async def _set_interval(each: StreamWork, new_streams: Sequence[EltStream]) -> None:
    stream = each.known or stream_named(new_streams, each.entry.name)
    if stream is None:
        raise InvalidInputError("the service does not list the new stream")
    if each.entry.sync_interval is None:
        await send(endpoints.clear_sync_interval(stream.id))
    else:
        await send(endpoints.set_sync_interval(stream.id, sync_interval=each.entry.sync_interval))
