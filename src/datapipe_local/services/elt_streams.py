"""ELT streams and their runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import active_run_conflicts, elt_stream_options, elt_syncs, jobs, references
from datapipe_local.services.checks import check_cron, check_id, check_name
from datapipe_local.services.runs import Runs
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import EltStream, EltStreamRun, JobKind, Json
from datapipe_local.storage.table import Order, Page
from datapipe_local.warehouse.loading.table_loader import TableLoader, TableShape
from datapipe_local.warehouse.warehouse import Place

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.services.runs import Direction

#: The run list covers three months.
_SECONDS_OF_HISTORY = 92 * 24 * 3600


def runs(context: Context) -> Runs[EltStreamRun]:
    """Return the access object for stream runs."""
    return Runs(
        context.store.elt_stream_runs,
        "elt_stream_id",
        "/elt_stream_runs",
        "ELT stream run",
        visible=context.run_overrides.visible,
    )


def page(context: Context, *, after: str | None, limit: int, elt_sync_id: str | None = None) -> Page[EltStream]:
    """Return a page of streams by creation date, optionally of one sync."""
    return context.store.elt_streams.page(Order(), after=after, limit=limit, filters={"elt_sync_id = ?": elt_sync_id})


def get(context: Context, stream_id: str) -> EltStream:
    """
    Return a stream.

    :raises NotFoundError: if the stream does not exist.
    """
    return context.store.elt_streams.existing(stream_id)


def table_shape(context: Context, stream_id: str) -> TableShape | None:
    """
    Return the columns of a stream's table and the rows of its last load.

    :return: None if the stream has no table.
    :raises NotFoundError: if the stream does not exist.
    :raises WarehouseError: if the warehouse is closing.
    """
    stream = get(context, stream_id)
    sync = elt_syncs.get(context, stream.elt_sync_id)
    return TableLoader(context.warehouse).shape(Place(sync.destination_schema_name, stream.name))


def page_of_runs(
    context: Context, stream_id: str, *, after: str | None, limit: int, direction: Direction
) -> Page[EltStreamRun]:
    """
    Return a page of a stream's runs of the last three months, by start date.

    :raises NotFoundError: if the stream does not exist.
    """
    get(context, stream_id)
    since = later(context.clock.now(), -_SECONDS_OF_HISTORY)
    return runs(context).page(stream_id, after=after, limit=limit, direction=direction, since=since)


def request_run(context: Context, stream_id: str) -> str:
    """
    Request a run of a stream.

    :return: Status URL. It returns an empty page until the run is scheduled.
    :raises NotFoundError: if the stream does not exist.
    :raises BadRequestError: if its sync is disabled.
    :raises ConflictError: if a run is already active or scheduled.
    """
    with context.store.transaction():
        stream = get(context, stream_id)
        _refuse_if_disabled(context, stream)
        active_run_conflicts.raise_if_run_active(
            context, JobKind.ELT_STREAM_RUN, stream_id, f"the ELT stream {stream_id!r}"
        )
        status_url = runs(context).status_url(stream_id)
        due_at = later(context.clock.now(), context.scheduling_delay_of(stream_id))
        jobs.add(context, JobKind.ELT_STREAM_RUN, stream_id, due_at)
    context.wake.set()
    return status_url


def request_full_refresh(context: Context, stream_id: str, *, reset_history_table: bool = False) -> None:
    """
    Request that the next run loads everything. This does not start a run.

    :param context: Service context.
    :param stream_id: Stream.
    :param reset_history_table: Also recreate the history table.
    :raises NotFoundError: if the stream does not exist.
    :raises BadRequestError: if its sync is disabled, or the stream is protected from full syncs.
    """
    with context.store.transaction():
        stream = get(context, stream_id)
        _refuse_if_disabled(context, stream)
        if stream.protected_from_full_sync:
            raise BadRequestError(
                f"The ELT stream {stream_id!r} is protected from full refreshes: set `protected_from_full_sync`"
                " to false first.",
                error_code="protected_from_full_sync",
            )
        context.store.elt_streams.update(
            stream_id,
            full_refresh_requested=True,
            history_reset_requested=stream.history_reset_requested or reset_history_table,
            updated_at=context.clock.now(),
        )


def cancel_full_refresh(context: Context, stream_id: str) -> None:
    """
    Cancel the request of :func:`request_full_refresh`.

    :raises NotFoundError: if the stream does not exist.
    """
    with context.store.transaction():
        get(context, stream_id)
        context.store.elt_streams.update(
            stream_id, full_refresh_requested=False, history_reset_requested=False, updated_at=context.clock.now()
        )


def set_sync_interval(context: Context, stream_id: str, sync_interval: str | None) -> EltStream:
    """
    Set or remove the stream's own schedule, which replaces the orchestration or schedule of its sync.

    :param context: Service context.
    :param stream_id: Stream.
    :param sync_interval: Cron expression. With ``None`` the stream runs with its sync.
    :raises NotFoundError: if the stream does not exist.
    :raises BadRequestError: if the cron expression is invalid.
    """
    with context.store.transaction():
        get(context, stream_id)
        if sync_interval is not None:
            check_cron("sync_interval", sync_interval)
        context.store.elt_streams.update(stream_id, sync_interval=sync_interval, updated_at=context.clock.now())
    context.wake.set()
    return get(context, stream_id)


def delete(context: Context, stream_id: str) -> None:
    """
    Delete a stream and its runs, and cancel an active load. The table stays.

    :raises NotFoundError: if the stream does not exist.
    """
    with context.store.transaction():
        get(context, stream_id)
        job = jobs.cancel(context, JobKind.ELT_STREAM_RUN, stream_id)
        context.store.database.run("DELETE FROM elt_streams WHERE id = ?", stream_id)
    if job is not None:
        context.warehouse.interrupt_job(job.seq)
    context.wake.set()


def put(
    context: Context, stream_id: str, *, elt_sync_id: str, name: str, origin: Json, options: Json | None = None
) -> None:
    """
    Create a stream, or update its origin and options.

    :param context: Service context.
    :param stream_id: ID of the stream.
    :param elt_sync_id: Sync of the stream.
    :param name: Name of the stream and its table.
    :param origin: Location in the source, already validated against the source of the sync.
    :param options: Load options, as column values of the store.
    :raises BadRequestError: if a value is invalid.
    """
    check_id("id", stream_id)
    check_name("name", name)
    if options and options.get("sync_interval") is not None:
        check_cron("sync_interval", options["sync_interval"])
    place = Place(elt_syncs.get(context, elt_sync_id).destination_schema_name, name)
    owner = references.transform_at(context, place)
    if owner is not None:
        raise BadRequestError(f"name: {place} is the place of the transform {owner.name!r}.")
    owner = references.transform_among_substreams(context, place)
    if owner is not None:
        raise BadRequestError(f"name: the transform {owner.name!r} has the name of a substream of {place}.")
    now = context.clock.now()
    known = context.store.elt_streams.get(stream_id)
    elt_stream_options.check(context, elt_sync_id, place, {**(asdict(known) if known else {}), **(options or {})})
    if known is None:
        twin = context.store.elt_streams.first("WHERE elt_sync_id = ? AND name = ?", elt_sync_id, name)
        if twin is not None:
            raise BadRequestError(f"name: the sync has a stream {name!r} already, {twin.id}.")
        context.store.elt_streams.insert(
            EltStream(
                id=stream_id,
                elt_sync_id=elt_sync_id,
                name=name,
                origin=origin,
                created_at=now,
                updated_at=now,
                **(options or {}),
            )
        )
    elif (known.elt_sync_id, known.name) != (elt_sync_id, name):
        raise BadRequestError(f"id: {stream_id!r} is the stream {known.name!r} of {known.elt_sync_id!r}.")
    else:
        changes: dict[str, Any] = {**(options or {}), "origin": origin, "updated_at": now}
        context.store.elt_streams.update(stream_id, **changes)


def _refuse_if_disabled(context: Context, stream: EltStream) -> None:
    if not elt_syncs.get(context, stream.elt_sync_id).enabled:
        raise BadRequestError(
            f"The ELT sync {stream.elt_sync_id!r} of the stream is disabled: enable it first.",
            error_code="sync_not_running",
        )
