"""Requests that `datapipe apply` sends for a new or changed ELT sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.endpoints import elt_syncs as endpoints
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.pipelines.workspace.models import day_text
from airflow_provider_datapipe.pipelines.workspace.units import check_possible, done
from airflow_provider_datapipe.resources import elt_syncs
from airflow_provider_datapipe.resources.comparable import schedule_of_sync
from airflow_provider_datapipe.resources.differences import Differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_datapipe.api.models.elt_syncs import EltSync
    from airflow_provider_datapipe.pipelines.plan import Done, Item
    from airflow_provider_datapipe.pipelines.workspace.models import EltSyncEntry
    from airflow_provider_datapipe.pipelines.workspace.units import Applying, Attached, Key, Work

_FIXED = "it can't be changed once a sync is there"


def compare(
    entry: EltSyncEntry, held: EltSync, *, connection_id: str | None, orchestration: tuple[str | None, str | None]
) -> Differences:
    """
    Compare an ELT sync.

    :param connection_id: ID of the connection of the entry.
    :param orchestration: names of the current and the desired orchestration.
    """
    found = Differences()
    found.refuse("connection", held.source_connection_id, connection_id, _FIXED)
    if entry.says("destination_schema_name"):
        found.refuse("destination_schema_name", held.destination_schema_name, entry.destination_schema_name, _FIXED)
    if entry.says("sync_interval"):
        if entry.sync_interval is None:
            found.refuse("sync_interval", held.sync_interval, None, "it can't be taken away: give another")
        else:
            found.compare_schedule("sync_interval", schedule_of_sync(held), entry.sync_interval)
    if entry.says_orchestration:
        found.compare("orchestration", *orchestration)
    if entry.start_date is not None:
        shown = None if held.start_date is None else held.start_date.date()
        found.refuse("start_date", day_text(shown), day_text(entry.start_date), _FIXED)
    if entry.settings is not None:
        found.compare_settings(held.config, entry.settings)
    if entry.enabled is not None:
        found.compare("enabled", held.enabled, entry.enabled)
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

    async def work(applying: Applying) -> Sequence[Done]:
        orchestration_id = applying.id_of(attached.id, attached.key)
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
            sync_id = applying.ids[key] = str(made["id"])
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
        return [done(item)]

    return work
