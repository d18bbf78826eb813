"""Requests that `datapipe apply` sends for a new or changed reverse ETL sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.endpoints import reverse_etl_syncs as endpoints
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.pipelines.workspace.units import check_possible, succeeded
from airflow_provider_datapipe.resources import reverse_etl_syncs
from airflow_provider_datapipe.resources.comparable import NOT_SHOWN, UNKNOWN, schedule_of_sync
from airflow_provider_datapipe.resources.differences import Differences
from airflow_provider_datapipe.runs.task_state import NoTaskState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSync
    from airflow_provider_datapipe.pipelines.plan import Item, ReportItem
    from airflow_provider_datapipe.pipelines.workspace.models import ReverseEtlSyncEntry
    from airflow_provider_datapipe.pipelines.workspace.units import ApplyState, Attached, Work

_FIXED = "it can't be changed after the sync is created"


def compare(
    entry: ReverseEtlSyncEntry,
    current: ReverseEtlSync,
    *,
    source_id: str | None,
    connection_id: str | None,
    orchestration: tuple[str | None, str | None],
) -> Differences:
    """
    Compare a reverse ETL sync.

    :param source_id: ID of the source of the entry.
    :param connection_id: ID of the connection of the entry.
    :param orchestration: names of the current and the desired orchestration.
    """
    found = Differences()
    known = {current.source_id, current.transform_id, f"raw.{current.source_id}"}
    if source_id not in known:
        found.refuse("source_id", current.source_id, source_id, _FIXED)
    found.refuse("destination_connection", current.destination_connection_id, connection_id, _FIXED)
    found.compare("object_type_id", current.object_type_id, entry.object_type_id)
    if entry.operation is not None:
        reverse_etl_syncs.compare_operation(found, current.operation, entry.operation)
    if entry.sets_orchestration:
        # The schedule consists of both fields: an omitted one means none.
        shown = schedule_of_sync(current)
        old_name, new_name = orchestration
        if entry.sync_interval is None and new_name is None:
            old = NOT_SHOWN if shown is UNKNOWN else shown
            found.refuse("sync_interval", old, None, "sync_interval or orchestration is required")
        elif entry.sync_interval is not None or shown is not UNKNOWN:
            found.compare_schedule("sync_interval", shown, entry.sync_interval)
        found.compare("orchestration", old_name, new_name)
    if entry.settings is not None:
        found.compare_settings(getattr(current, "settings", None), entry.settings)
    if entry.enabled is not None:
        found.compare("enabled", current.enabled, entry.enabled)
    return found


def change(
    entry: ReverseEtlSyncEntry,
    item: Item,
    *,
    known: str | None,
    source_id: str | None,
    connection_id: str | None,
    attached: Attached,
    differences: Differences,
) -> Work:
    """
    Return the flow that creates or updates a reverse ETL sync.

    :param known: its ID; None to create it.
    :param source_id: ID of its source.
    :param connection_id: ID of its destination.
    :param attached: its orchestration.
    """

    async def work(state: ApplyState) -> Sequence[ReportItem]:
        sets_enabled = entry.enabled is not None
        # Stored state is not necessary if the file sets enabled.
        earlier = reverse_etl_syncs.DeactivatedSyncs(NoTaskState() if sets_enabled else state.task_state)
        wanted = reverse_etl_syncs.Definition(
            object_type_id=entry.object_type_id,
            operation=None if entry.operation is None else entry.operation.model_dump(mode="json", exclude_unset=True),
            sync_interval=entry.sync_interval,
            orchestration_id=state.id_of(attached.id, attached.key),
            settings=entry.settings,
        )
        if known is None:
            made = await reverse_etl_syncs.create(
                source_id=source_id,
                transform_name=None,
                folder_path=None,
                destination_connection_id=connection_id,
                destination_connection_label=None,
                wanted=wanted,
                if_exists="keep",
                deactivated=earlier,
                wait_for_run=state.wait_for_run,
            )
            if entry.enabled is False:
                await send(endpoints.deactivate(str(made["id"])))
        elif all(each.field == "enabled" for each in differences.changes):
            await send(endpoints.activate(known) if entry.enabled else endpoints.deactivate(known))
        else:
            state.deactivated = earlier
            await reverse_etl_syncs.update(
                known, wanted, enabled=entry.enabled, deactivated=earlier, wait_for_run=state.wait_for_run
            )
        check_possible(differences)
        return [succeeded(item)]

    return work
