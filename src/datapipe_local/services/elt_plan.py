"""Decision between a full and an incremental load of an ELT stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import FullSyncTrigger, OperationMode
from datapipe_local.services import elt_streams

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import EltStream


class Plan(NamedTuple):
    """
    Load plan of a run.

    :param mode: Load mode.
    :param trigger: Reason for a full load, ``NONE`` if there is no trigger.
    """

    mode: OperationMode
    trigger: FullSyncTrigger


def plan(context: Context, stream: EltStream) -> Plan:
    """
    Return the load plan of a run that starts now.

    A stream without an incremental pointer always loads in full, also with the trigger ``NONE``. A stream that is
    protected from full syncs has no trigger after its first load. All runs of a load in slices have the same trigger.
    """
    mode = OperationMode.FULL
    if stream.incremental_pointer_id is not None:
        mode = OperationMode.INCREMENTAL if stream.incremental_primary_key_name else OperationMode.APPEND
    trigger = _trigger(context, stream)
    return Plan(mode if trigger == FullSyncTrigger.NONE else OperationMode.FULL, trigger)


def _trigger(context: Context, stream: EltStream) -> FullSyncTrigger:
    last = elt_streams.runs(context).last(stream.id) if stream.rows_so_far else None
    if last is not None:
        return FullSyncTrigger(last.full_sync_trigger)
    if not stream.loaded:
        return FullSyncTrigger.USER if stream.full_refresh_requested else FullSyncTrigger.INITIAL_SYNC
    if stream.protected_from_full_sync:
        return FullSyncTrigger.NONE
    return _requested_trigger(context, stream)


def _requested_trigger(context: Context, stream: EltStream) -> FullSyncTrigger:
    if stream.full_refresh_requested:
        return FullSyncTrigger.USER
    if stream.full_sync_always:
        return FullSyncTrigger.ALWAYS_FULL
    is_due = stream.full_sync_at_midnight and not _has_been_full_today(context, stream)
    return FullSyncTrigger.MIDNIGHT if is_due else FullSyncTrigger.NONE


def _has_been_full_today(context: Context, stream: EltStream) -> bool:
    midnight = f"{context.clock.now()[:10]}T00:00:00.000Z"
    return bool(
        context.store.database.value(
            "SELECT 1 FROM elt_stream_runs WHERE elt_stream_id = ? AND started_at >= ? AND status = ?"
            " AND operation_mode = ? LIMIT 1",
            stream.id,
            midnight,
            EltStreamRunStatus.COMPLETED,
            OperationMode.FULL,
        )
    )
