"""Requests that `datapipe apply` sends for a new or changed ELT sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.endpoints import elt_syncs as endpoints
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.pipelines.workspace.units import check_possible, succeeded
from airflow_provider_datapipe.resources import elt_syncs
from airflow_provider_datapipe.resources.comparable import schedule_of_sync
from airflow_provider_datapipe.resources.differences import Differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.pipelines.plan import Item, ReportItem
    from airflow_provider_datapipe.pipelines.workspace.models import EltSyncEntry
    from airflow_provider_datapipe.pipelines.workspace.units import ApplyState, Attached, Key, Work

_FIXED = "it can't be changed after the sync is created"


def compare(
    entry: EltSyncEntry, current: EltSync, *, connection_id: str | None, orchestration: tuple[str | None, str | None]
) -> Differences:
    """
    Compare an ELT sync.

    :param connection_id: ID of the connection of the entry.
    :param orchestration: names of the current and the desired orchestration.
    """
    found = Differences()
    found.refuse("connection", current.source_connection_id, connection_id, _FIXED)
    if entry.is_set("destination_schema_name"):
        found.refuse("destination_schema_name", current.destination_schema_name, entry.destination_schema_name, _FIXED)
    if entry.is_set("sync_interval"):
        if entry.sync_interval is None:
            found.refuse("sync_interval", current.sync_interval, None, "it can't be removed: set another value")
        else:
            found.compare_schedule("sync_interval", schedule_of_sync(current), entry.sync_interval)
    if entry.sets_orchestration:
        found.compare("orchestration", *orchestration)
    if entry.start_date is not None:
        shown = None if current.start_date is None else current.start_date.date().isoformat()
        found.refuse("start_date", shown, entry.start_date.isoformat(), _FIXED)
    if entry.settings is not None:
        found.compare_settings(current.config, entry.settings)
    if entry.enabled is not None:
        found.compare("enabled", current.enabled, entry.enabled)
    return found


def change(
    entry: EltSyncEntry,
    item: Item,
    key: Key,
    *,
    known: str | None,
    connection_id: str | None,
    attached: Attached,
    differences: Differences,
) -> Work:
    """
    Return the flow that creates or updates an ELT sync.

    :param known: its ID; None to create it.
    :param connection_id: ID of its connection.
    :param attached: its orchestration.
    """

    async def work(state: ApplyState) -> Sequence[ReportItem]:
        orchestration_id = state.id_of(attached.id, attached.key)
        if known is None:
            made = await elt_syncs.create(
                connection_id,
                None,
                entry.destination_schema_name,
                sync_interval=entry.sync_interval,
                elt_settings=entry.settings,
                data_start_date=entry.start_date,
                if_exists="keep",
            )
            sync_id = state.ids[key] = str(made["id"])
            is_attached, is_switched = orchestration_id is not None, entry.enabled is False
        else:
            sync_id = known
            is_attached, is_switched = "orchestration" in differences, "enabled" in differences
            await elt_syncs.send_differences(known, differences, entry.sync_interval, entry.settings)
        if is_attached:
            if orchestration_id is None:
                await send(endpoints.detach_orchestration(sync_id))
            else:
                await send(endpoints.attach_orchestration(sync_id, orchestration_workflow_id=orchestration_id))
        if is_switched:
            await send(endpoints.enable(sync_id) if entry.enabled else endpoints.disable(sync_id))
        check_possible(differences)
        return [succeeded(item)]

    return work
