"""Reverse ETL syncs: having them, running them, giving them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.clock import later
from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.service import jobs, reverse_etl_sources
from datapipe_local.service.runs import Runs
from datapipe_local.store.records import JobKind, ReverseEtlSync, ReverseEtlSyncRun
from datapipe_local.store.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.service.context import Context
    from datapipe_local.service.runs import Direction


#: Newest first, and not a hundred thousand. Whoever fails more often than that in a row has begun anew.
_LATEST = (
    "SELECT id, checkpoint FROM reverse_etl_sync_runs WHERE reverse_etl_sync_id = ? ORDER BY started_at DESC LIMIT 100"
)


def runs(context: Context) -> Runs[ReverseEtlSyncRun]:
    """Give the runs of reverse ETL syncs."""
    return Runs(
        context.store.reverse_etl_sync_runs,
        "reverse_etl_sync_id",
        "/reverse_etl_sync_runs",
        "reverse ETL sync run",
        visible=context.script.visible,
    )


def page(
    context: Context, *, after: str | None, limit: int, destination_connection_id: str | None = None
) -> Page[ReverseEtlSync]:
    """Give a part of the list, by creation date; of one destination connection if its id is given."""
    return context.store.reverse_etl_syncs.page(
        Order(), after=after, limit=limit, filters={"destination_connection_id = ?": destination_connection_id}
    )


def get(context: Context, sync_id: str) -> ReverseEtlSync:
    """
    Give a sync.

    :raises NotFoundError: there is none with this id.
    """
    sync = context.store.reverse_etl_syncs.get(sync_id)
    if sync is None:
        raise NotFoundError("reverse ETL sync", sync_id)
    return sync


def activate(context: Context, sync_id: str, *, enabled: bool) -> None:
    """
    Have a sync run on its schedule, or not. To ask for what is so already changes nothing.

    :raises NotFoundError: there is none with this id.
    """
    with context.store.transaction():
        if get(context, sync_id).enabled != enabled:
            context.store.reverse_etl_syncs.update(sync_id, enabled=enabled, updated_at=context.clock.now())
    context.wake.set()


def delete(context: Context, sync_id: str) -> None:
    """
    Remove a sync with its runs and all that is known of its records. What it has written stays.

    The interface refuses it to nobody, so that a run that is going is broken off, after what is under way.

    :raises NotFoundError: there is none with this id.
    """
    with context.store.transaction():
        get(context, sync_id)
        jobs.withdraw(context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id)
        context.store.database.run("DELETE FROM reverse_etl_syncs WHERE id = ?", sync_id)
    # An orchestration run may have waited for it.
    context.wake.set()


def page_of_runs(
    context: Context, sync_id: str, *, after: str | None, limit: int, direction: Direction
) -> Page[ReverseEtlSyncRun]:
    """
    Give a part of the list of a sync's runs, by start date.

    :raises NotFoundError: there is no such sync.
    """
    get(context, sync_id)
    return runs(context).page(sync_id, after=after, limit=limit, direction=direction)


def checkpoint_before(context: Context, run: ReverseEtlSyncRun) -> str | None:
    """Give what was noted last of an earlier run of the same sync."""
    found: str | None = context.store.database.value(
        f"SELECT checkpoint FROM ({_LATEST}) WHERE id <> ? AND checkpoint IS NOT NULL",  # noqa: S608 - our own
        run.reverse_etl_sync_id,
        run.id,
    )
    return found


def forget_checkpoints(context: Context, sync_id: str) -> None:
    """Forget how far its runs got: that was told of another way to write."""
    context.store.database.run(
        f"UPDATE reverse_etl_sync_runs SET checkpoint = NULL WHERE id IN (SELECT id FROM ({_LATEST}))",  # noqa: S608 - our own
        sync_id,
    )


def request_run(context: Context, sync_id: str) -> str:
    """
    Ask for a run, now.

    :return: The status URL: its page stays empty until the run is scheduled.
    :raises NotFoundError: there is no such sync.
    :raises BadRequestError: it is deactivated, or its source is not in the warehouse.
    :raises ConflictError: it is running or scheduled already.
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
        jobs.refuse_if_any(context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id, f"the reverse ETL sync {sync_id!r}")
        status_url = runs(context).status_url(sync_id)
        due_at = later(context.clock.now(), context.scheduling_delay_of(sync_id))
        jobs.add(context, JobKind.REVERSE_ETL_SYNC_RUN, sync_id, due_at)
    context.wake.set()
    return status_url
