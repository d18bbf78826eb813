"""Changes of ELT streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_datapipe.api.endpoints import elt_streams
from airflow_provider_datapipe.api.models.common import UNSET
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.flows import Flow, send
from airflow_provider_datapipe.resources.base import Change, IfMissing, change, deletion
from airflow_provider_datapipe.resources.comparable import UNKNOWN, not_verified, schedule_of_stream
from airflow_provider_datapipe.resources.template_values import flag
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.names import find_stream
from airflow_provider_datapipe.runs.targets import by_id, elt_sync_target, required

KIND = "elt_stream"


async def target(
    *, stream_id: str | None, stream_name: str | None, sync_id: str | None, destination_schema_name: str | None
) -> RunTarget:
    """Find a stream by its ID, or by its name and the ID or the schema of its sync."""
    if stream_name is None:
        return await by_id("stream_id", stream_id)
    wanted = required("stream_name", stream_name)
    sync = await elt_sync_target(sync_id, destination_schema_name)
    found = await find_stream(sync.resource_id, wanted)
    return RunTarget(found.id, found.name, sync_id=sync.resource_id)


async def request_full_refresh(finding: Flow[RunTarget], *, reset_history_table: Any) -> Change:
    """Request that the next run is a full refresh. The service does not show whether one was requested already."""
    reset = flag("reset_history_table", reset_history_table)
    stream = await _stream(finding)
    await send(elt_streams.request_full_refresh(stream.id, reset_history_table=True if reset else UNSET))
    return change(KIND, stream.id, action="full_refresh_requested", name=stream.name)


async def cancel_full_refresh(finding: Flow[RunTarget]) -> Change:
    """Cancel the request for a full refresh. The service does not show whether there is one."""
    stream = await _stream(finding)
    await send(elt_streams.cancel_full_refresh(stream.id))
    return change(KIND, stream.id, action="full_refresh_canceled", name=stream.name)


async def set_interval(finding: Flow[RunTarget], sync_interval: str | None) -> Change:
    """Set the stream's own schedule."""
    interval = required("sync_interval", sync_interval)
    before = await _stream(finding)
    after = await send(elt_streams.set_sync_interval(before.id, sync_interval=interval))
    # A service may omit the interval: then report a change.
    changed = after.sync_interval is None or before.sync_interval != after.sync_interval
    return change(
        KIND,
        after.id,
        action="sync_interval_set",
        changed=changed,
        name=after.name,
        after=after,
        warnings=_not_verified(after),
    )


async def clear_interval(finding: Flow[RunTarget]) -> Change:
    """Remove the stream's own schedule, so that it follows its sync or the orchestration of the sync."""
    before = await _stream(finding)
    await send(elt_streams.clear_sync_interval(before.id))
    after = await send(elt_streams.get(before.id))
    return change(
        KIND,
        after.id,
        action="sync_interval_cleared",
        changed=schedule_of_stream(before) is not None,
        name=after.name,
        after=after,
        warnings=_not_verified(after),
    )


async def delete(finding: Flow[RunTarget], if_missing: IfMissing) -> Change:
    """Delete a stream."""
    return await deletion(KIND, finding, elt_streams.get, elt_streams.delete, if_missing)


def stream_named(streams: Iterable[EltStream], name: str) -> EltStream | None:
    """Return the stream with a name. If none matches exactly, ignore case."""
    known = list(streams)
    exact = [stream for stream in known if stream.name == name]
    alike = [stream for stream in known if stream.name.casefold() == name.casefold()]
    return next(iter(exact or alike), None)


def _not_verified(stream: EltStream) -> list[str]:
    is_shown = schedule_of_stream(stream) is not UNKNOWN
    return [] if is_shown else [not_verified("sync_interval of streams", f"stream {stream.name}")]


async def _stream(finding: Flow[RunTarget]) -> EltStream:
    found = await finding
    return await send(elt_streams.get(found.resource_id))
