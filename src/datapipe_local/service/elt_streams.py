"""ELT streams and their runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from datapipe_local.clock import later
from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.service import elt_syncs, jobs, references, stream_options
from datapipe_local.service.checks import check_cron, check_id, check_name
from datapipe_local.service.runs import Runs
from datapipe_local.store.records import EltStream, EltStreamRun, JobKind, Json
from datapipe_local.store.table import Order, Page
from datapipe_local.warehouse import Place

if TYPE_CHECKING:
    from datapipe_local.service.context import Context
    from datapipe_local.service.runs import Direction

#: The list of runs goes back three months.
_SECONDS_OF_HISTORY = 92 * 24 * 3600


def runs(context: Context) -> Runs[EltStreamRun]:
    """Give the runs of streams."""
    return Runs(
        context.store.elt_stream_runs,
        "elt_stream_id",
        "/elt_stream_runs",
        "ELT stream run",
        visible=context.script.visible,
    )


def page(context: Context, *, after: str | None, limit: int, elt_sync_id: str | None = None) -> Page[EltStream]:
    """Give a part of the list, by creation date; of one sync if its id is given."""
    return context.store.elt_streams.page(Order(), after=after, limit=limit, filters={"elt_sync_id = ?": elt_sync_id})


def get(context: Context, stream_id: str) -> EltStream:
    """
    Give a stream.

    :raises NotFoundError: there is none with this id.
    """
    stream = context.store.elt_streams.get(stream_id)
    if stream is None:
        raise NotFoundError("ELT stream", stream_id)
    return stream


def page_of_runs(
    context: Context, stream_id: str, *, after: str | None, limit: int, direction: Direction
) -> Page[EltStreamRun]:
    """
    Give a part of the list of a stream's runs of the last three months, by start date.

    :raises NotFoundError: there is no such stream.
    """
    get(context, stream_id)
    since = later(context.clock.now(), -_SECONDS_OF_HISTORY)
    return runs(context).page(stream_id, after=after, limit=limit, direction=direction, since=since)


def request_run(context: Context, stream_id: str) -> str:
    """
    Ask for a run, now.

    :return: The status URL: its page stays empty until the run is scheduled.
    :raises NotFoundError: there is no such stream.
    :raises BadRequestError: its sync is disabled.
    :raises ConflictError: it is running or scheduled already.
    """
    with context.store.transaction():
        stream = get(context, stream_id)
        _refuse_if_disabled(context, stream)
        jobs.refuse_if_any(context, JobKind.ELT_STREAM_RUN, stream_id, f"the ELT stream {stream_id!r}")
        status_url = runs(context).status_url(stream_id)
        jobs.add(
            context,
            JobKind.ELT_STREAM_RUN,
            stream_id,
            later(context.clock.now(), context.scheduling_delay_of(stream_id)),
        )
    context.wake.set()
    return status_url


def request_full_refresh(context: Context, stream_id: str, *, reset_history_table: bool = False) -> None:
    """
    Have the next run load everything. It starts none.

    :param context: The service.
    :param stream_id: Which.
    :param reset_history_table: It begins the history table anew, too.
    :raises NotFoundError: there is no such stream.
    :raises BadRequestError: its sync is disabled, or it is protected.
    """
    with context.store.transaction():
        stream = get(context, stream_id)
        _refuse_if_disabled(context, stream)
        if stream.protected_from_full_sync:
            raise BadRequestError(
                f"The ELT stream {stream_id!r} is protected from full refreshes: have `protected_from_full_sync`"
                " false first.",
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
    Take :func:`request_full_refresh` back.

    :raises NotFoundError: there is no such stream.
    """
    with context.store.transaction():
        get(context, stream_id)
        context.store.elt_streams.update(
            stream_id, full_refresh_requested=False, history_reset_requested=False, updated_at=context.clock.now()
        )


def set_sync_interval(context: Context, stream_id: str, sync_interval: str | None) -> EltStream:
    """
    Have a stream run on a schedule of its own, outside of its sync's orchestration or schedule.

    :param context: The service.
    :param stream_id: Which.
    :param sync_interval: The schedule; ``None`` has it run as its sync does.
    :raises NotFoundError: there is no such stream.
    :raises BadRequestError: that is no cron expression.
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
    Delete a stream and its runs. Its table stays; what is being loaded is thrown away.

    :raises NotFoundError: there is no such stream.
    """
    with context.store.transaction():
        get(context, stream_id)
        owed = jobs.withdraw(context, JobKind.ELT_STREAM_RUN, stream_id)
        context.store.database.run("DELETE FROM elt_streams WHERE id = ?", stream_id)
    if owed is not None:
        context.warehouse.break_off(owed.seq)
    context.wake.set()


def put(
    context: Context, stream_id: str, *, elt_sync_id: str, name: str, origin: Json, options: Json | None = None
) -> None:
    """
    Create a stream, or change what it reads.

    :param context: The service.
    :param stream_id: Its id.
    :param elt_sync_id: Its sync.
    :param name: Its name, which its table gets.
    :param origin: What it reads, already known to fit the sync's source.
    :param options: How it is loaded, as columns of the store.
    :raises BadRequestError: a value is not allowed.
    """
    check_id("id", stream_id)
    check_name("name", name)
    if options and options.get("sync_interval") is not None:
        check_cron("sync_interval", options["sync_interval"])
    place = Place(elt_syncs.get(context, elt_sync_id).destination_schema_name, name)
    owner = references.transform_at(context, place)
    if owner is not None:
        raise BadRequestError(f"name: {place} is the place of the transform {owner.name!r}.")
    now = context.clock.now()
    known = context.store.elt_streams.get(stream_id)
    stream_options.check(context, elt_sync_id, place, {**(asdict(known) if known else {}), **(options or {})})
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
