"""Reverse ETL syncs: lookup, activation, deletion and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import active_run_conflicts, jobs, reverse_etl_sources
from datapipe_local.services.runs import Runs
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import JobKind, ReverseEtlSync, ReverseEtlSyncRun
from datapipe_local.storage.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.services.runs import Direction


#: Newest runs of a sync. The limit bounds the search for a checkpoint.
_LATEST = (
    "SELECT id, checkpoint FROM reverse_etl_sync_runs WHERE reverse_etl_sync_id = ? ORDER BY started_at DESC LIMIT 100"
)


def runs(context: Context) -> Runs[ReverseEtlSyncRun]:
    """Return the access object for reverse ETL sync runs."""
    return Runs(
        context.store.reverse_etl_sync_runs,
        "reverse_etl_sync_id",
        "/reverse_etl_sync_runs",
        "reverse ETL sync run",
        visible=context.run_overrides.visible,
    )


def page(
    context: Context, *, after: str | None, limit: int, destination_connection_id: str | None = None
) -> Page[ReverseEtlSync]:
    """Return a page of syncs by creation date, optionally of one destination connection."""
    return context.store.reverse_etl_syncs.page(
        Order(), after=after, limit=limit, filters={"destination_connection_id = ?": destination_connection_id}
    )


def get(context: Context, sync_id: str) -> ReverseEtlSync:
    """
    Return a sync.

    :raises NotFoundError: if the sync does not exist.
    """
    return context.store.reverse_etl_syncs.existing(sync_id)


def activate(context: Context, sync_id: str, *, enabled: bool) -> None:
    """
    Activate or deactivate a sync. Idempotent.

    :raises NotFoundError: if the sync does not exist.
    """
    with context.store.transaction():
        if get(context, sync_id).enabled != enabled:
            context.store.reverse_etl_syncs.update(sync_id, enabled=enabled, updated_at=context.clock.now())
    context.wake.set()


def delete(context: Context, sync_id: str) -> None:
    """
    Delete a sync with its runs and record states. Records at the destination stay.

    The interface does not refuse deletion, so an active run is canceled after its current batch.

    :raises NotFoundError: if the sync does not exist.
    """
    with context.store.transaction():
        get(context, sync_id)
        jobs.cancel(context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id)
        context.store.database.run("DELETE FROM reverse_etl_syncs WHERE id = ?", sync_id)
    # Wake the engine: an orchestration run may be waiting for this sync.
    context.wake.set()


def page_of_runs(
    context: Context, sync_id: str, *, after: str | None, limit: int, direction: Direction
) -> Page[ReverseEtlSyncRun]:
    """
    Return a page of a sync's runs by start date.

    :raises NotFoundError: if the sync does not exist.
    """
    get(context, sync_id)
    return runs(context).page(sync_id, after=after, limit=limit, direction=direction)


def checkpoint_before(context: Context, run: ReverseEtlSyncRun) -> str | None:
    """Return the latest checkpoint of the other runs of the same sync."""
    found: str | None = context.store.database.value(
        f"SELECT checkpoint FROM ({_LATEST}) WHERE id <> ? AND checkpoint IS NOT NULL",  # noqa: S608 - no user input
        run.reverse_etl_sync_id,
        run.id,
    )
    return found


def forget_checkpoints(context: Context, sync_id: str) -> None:
    """Delete the checkpoints of a sync's runs, because they do not apply to its new mode or target."""
    context.store.database.run(
        f"UPDATE reverse_etl_sync_runs SET checkpoint = NULL WHERE id IN (SELECT id FROM ({_LATEST}))",  # noqa: S608 - no user input
        sync_id,
    )


def request_run(context: Context, sync_id: str) -> str:
    """
    Request a run of a sync.

    :return: Status URL. It returns an empty page until the run is scheduled.
    :raises NotFoundError: if the sync does not exist.
    :raises BadRequestError: if the sync is deactivated, or its source is not in the warehouse.
    :raises ConflictError: if a run is already active or scheduled.
    """
    with context.store.transaction():
        sync = get(context, sync_id)
        if not sync.enabled:
            raise BadRequestError(
                f"The reverse ETL sync {sync_id!r} is deactivated: activate it first.", error_code="not_eligible"
            )
        source = reverse_etl_sources.of(context, sync)
        if source.place is None:
            raise BadRequestError(
                f"The source of the reverse ETL sync {sync_id!r}, {source.title}, {source.obstacle}.",
                error_code="not_eligible",
            )
        active_run_conflicts.raise_if_run_active(
            context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id, f"the reverse ETL sync {sync_id!r}"
        )
        status_url = runs(context).status_url(sync_id)
        due_at = later(context.clock.now(), context.scheduling_delay_of(sync_id))
        jobs.add(context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id, due_at)
    context.wake.set()
    return status_url
