"""Changes of ELT syncs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from airflow_provider_datapipe.api.endpoints import elt_streams, elt_syncs
from airflow_provider_datapipe.api.models.common import UNSET
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.elt_syncs import AddedSourceStreams, EltSync
from airflow_provider_datapipe.flows import list_all, send
from airflow_provider_datapipe.resources.base import (
    Change,
    IfExists,
    IfMissing,
    change,
    check_if_exists,
    deletion,
    drop_none,
    existing,
    get_or_create,
    or_none,
)
from airflow_provider_datapipe.resources.comparable import UNKNOWN, not_compared, not_verified, schedule_of_sync
from airflow_provider_datapipe.resources.differences import Differences, same_json
from airflow_provider_datapipe.resources.elt_streams import stream_named
from airflow_provider_datapipe.resources.template_values import flag, mapping, named
from airflow_provider_datapipe.runs.names import find_elt_sync
from airflow_provider_datapipe.runs.targets import connection_target, elt_sync_target, orchestration_target, required

KIND = "elt_sync"
_SYNC_INTERVAL = "sync_interval of an ELT sync that is attached to an orchestration"
_SET_INTERVAL = "To set it, use EltSyncUpdateOperator."


async def create(
    connection_id: str | None,
    connection_label: str | None,
    destination_schema_name: str | None,
    *,
    sync_interval: str | None,
    elt_settings: Any,
    data_start_date: str | dt.date | None,
    if_exists: IfExists,
) -> Change:
    """
    Create a sync, which is identified by its connection and its schema.

    :raises ResourceExistsError: if the sync exists, and ``if_exists`` is ``fail``.
    :raises ConflictError: if the connection has the maximum number of syncs.
    """
    check_if_exists(if_exists)
    schema = required("destination_schema_name", destination_schema_name)
    interval = required("sync_interval", sync_interval)
    settings = None if elt_settings is None else mapping("elt_settings", elt_settings)
    first_day = required("data_start_date", data_start_date) if isinstance(data_start_date, str) else data_start_date
    connection = await connection_target(connection_id, connection_label)
    found, is_new = await get_or_create(
        lambda: or_none(find_elt_sync(schema, connection.resource_id)),
        elt_syncs.create(
            connection_id=connection.resource_id,
            destination_schema_name=schema,
            sync_interval=interval,
            elt_settings=UNSET if settings is None else settings,
            start_date=UNSET if first_day is None else first_day,
        ),
    )
    if is_new:
        return _changed(found, action="created")
    existing(found, f"an ELT sync of connection {connection.name} that fills {schema!r}", if_exists)
    if if_exists == "keep":
        return _changed(found, action="created", changed=False)
    return await _update_differences(found.id, interval, settings)


async def _update_differences(sync_id: str, interval: str, settings: dict[str, Any] | None) -> Change:
    """Send the fields that differ, and an unknown schedule only together with them."""
    before = await _sync(sync_id, None)
    found = Differences()
    found.compare_schedule("sync_interval", schedule_of_sync(before), interval)
    if settings is not None:
        found.compare_settings(before.config, settings)
    found.add_unknown()
    after = await send_differences(sync_id, found, interval, settings)
    if after is not None:
        return _changed(after, action="updated")
    warnings = [not_compared(_SYNC_INTERVAL, [_name(before)], _SET_INTERVAL)] if found.unknown else []
    return _changed(before, action="updated", changed=False, warnings=warnings)


async def send_differences(
    sync_id: str, found: Differences, sync_interval: str | None, elt_settings: dict[str, Any] | None
) -> EltSync | None:
    """
    Send the schedule and the settings if they differ. Return the sync after the change, None if nothing was sent.

    :param sync_interval: the desired schedule; None for the current one.
    :param elt_settings: all desired settings; None for the current ones.
    """
    differing: dict[str, Any] = {}
    if sync_interval is not None and "sync_interval" in found:
        differing["sync_interval"] = sync_interval
    if "settings" in found:
        differing["elt_settings"] = elt_settings
    if not differing:
        return None
    return await send(elt_syncs.update(sync_id, **differing))


async def update(
    sync_id: str | None, destination_schema_name: str | None, *, sync_interval: str | None, elt_settings: Any
) -> Change:
    """
    Update a sync. Fields that are None stay unchanged.

    :raises ValueError: if there is nothing to change.
    """
    given: dict[str, Any] = drop_none(sync_interval=sync_interval)
    if elt_settings is not None:
        given["elt_settings"] = mapping("elt_settings", elt_settings)
    if not given:
        raise ValueError("nothing to change: set sync_interval or elt_settings")
    before = await _sync(sync_id, destination_schema_name)
    after = await send(elt_syncs.update(before.id, **given))
    # A service may omit both fields: then report a change.
    shown, shown_before = (
        {"sync_interval": each.sync_interval, "elt_settings": each.config} for each in (after, before)
    )
    changed = any(shown[field] is None for field in given) or not same_json(shown_before, shown)
    is_hidden = "sync_interval" in given and schedule_of_sync(after) is UNKNOWN
    warnings = [not_verified(_SYNC_INTERVAL, _name(after))] if is_hidden else []
    return _changed(after, action="updated", changed=changed, warnings=warnings)


async def enable(sync_id: str | None, destination_schema_name: str | None) -> Change:
    """Enable a sync."""
    return await _switch(sync_id, destination_schema_name, on=True)


async def disable(sync_id: str | None, destination_schema_name: str | None) -> Change:
    """Disable a sync."""
    return await _switch(sync_id, destination_schema_name, on=False)


async def _switch(sync_id: str | None, destination_schema_name: str | None, *, on: bool) -> Change:
    before = await _sync(sync_id, destination_schema_name)
    await send(elt_syncs.enable(before.id) if on else elt_syncs.disable(before.id))
    after = await send(elt_syncs.get(before.id))
    return _changed(after, action="enabled" if on else "disabled", changed=before.enabled != on)


async def delete(
    sync_id: str | None, destination_schema_name: str | None, *, remove_data_references: Any, if_missing: IfMissing
) -> Change:
    """Delete a sync with its streams. Its tables are deleted only if ``remove_data_references`` is True."""
    with_tables = flag("remove_data_references", remove_data_references)
    return await deletion(
        KIND,
        elt_sync_target(sync_id, destination_schema_name),
        elt_syncs.get,
        lambda resource_id: elt_syncs.delete(resource_id, remove_data_references=True if with_tables else None),
        if_missing,
    )


async def add_streams(sync_id: str | None, destination_schema_name: str | None, source_streams: Any) -> Change:
    """
    Add streams to a sync, and update the streams that exist already.

    The details of the result list the added, updated and unchanged streams, and the IDs of all of them.
    """
    wanted = named("source_streams", source_streams)
    if not wanted:
        raise ValueError("source_streams is empty: name at least one stream")
    target = await elt_sync_target(sync_id, destination_schema_name)
    of_sync = elt_streams.list_(elt_sync_id=target.resource_id)
    before = {stream.id: stream for stream in await list_all(of_sync)}
    # The response to a repeated request lacks the new streams.
    answer = await send_streams(target.resource_id, wanted)
    after = [*await list_all(of_sync), *answer.source_streams]
    name = None if target.name == target.resource_id else target.name
    result = change(KIND, target.resource_id, action="source_streams_updated", name=name)
    sorted_in, stream_ids = _sorted_in(wanted, before, after)
    if sorted_in["added"]:
        result["action"] = "source_streams_added"
    elif not sorted_in["updated"]:
        result["action"], result["changed"] = "none", False
    result["details"] = sorted_in | {"stream_ids": stream_ids}
    return result


async def send_streams(sync_id: str, source_streams: list[dict[str, Any]]) -> AddedSourceStreams:
    """Add or update streams, in one request. They are identified by name, so the request can be repeated."""
    return await send(elt_syncs.add_source_streams(sync_id, source_streams=source_streams).repeatable())


async def attach(
    sync_id: str | None,
    destination_schema_name: str | None,
    orchestration_id: str | None,
    orchestration_name: str | None,
) -> Change:
    """Attach a sync to an orchestration."""
    orchestration = await orchestration_target(orchestration_id, orchestration_name)
    before = await _sync(sync_id, destination_schema_name)
    after = await send(elt_syncs.attach_orchestration(before.id, orchestration_workflow_id=orchestration.resource_id))
    changed = before.orchestration_workflow_id != orchestration.resource_id
    return _changed(after, action="attached", changed=changed)


async def detach(sync_id: str | None, destination_schema_name: str | None) -> Change:
    """Detach a sync from its orchestration, so that it runs on its own schedule."""
    before = await _sync(sync_id, destination_schema_name)
    after = await send(elt_syncs.detach_orchestration(before.id))
    return _changed(after, action="detached", changed=before.orchestration_workflow_id is not None)


async def _sync(sync_id: str | None, destination_schema_name: str | None) -> EltSync:
    target = await elt_sync_target(sync_id, destination_schema_name)
    # Lists may omit fields of the sync.
    return await send(elt_syncs.get(target.resource_id))


def _name(sync: EltSync) -> str:
    return sync.destination_schema_name or sync.id


def _changed(sync: EltSync, *, action: str, changed: bool = True, warnings: Sequence[str] = ()) -> Change:
    name = sync.destination_schema_name
    result = change(KIND, sync.id, action=action, changed=changed, name=name, after=sync, warnings=warnings)
    # A sync can have a thousand streams.
    del result["details"]["source_streams"]
    return result


def _sorted_in(
    wanted: list[dict[str, Any]], before: dict[str, EltStream], after: list[EltStream]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the added, updated and unchanged streams by name, and the IDs of all of them."""
    sorted_in: dict[str, list[str]] = {"added": [], "updated": [], "unchanged": []}
    stream_ids = {}
    for each in wanted:
        name = each["name"]
        stream = stream_named(after, name)
        if stream is not None:
            stream_ids[name] = stream.id
        if stream is None or (earlier := before.get(stream.id)) is None:
            sorted_in["added"].append(name)
        else:
            sorted_in["updated" if _differs(earlier, stream, each) else "unchanged"].append(name)
    return sorted_in, stream_ids


def _differs(before: EltStream, after: EltStream, given: dict[str, Any]) -> bool:
    """Return True if a stream has changed, or may have changed in fields that the service does not show."""
    is_hidden = not given.keys() <= EltStream.model_fields.keys()
    same = before.model_copy(update={"updated_at": after.updated_at})
    return is_hidden or same != after
