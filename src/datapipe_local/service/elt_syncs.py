"""ELT syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import EltSyncState
from datapipe_local.errors import BadRequestError, ConflictError, NotFoundError
from datapipe_local.ids import new_id
from datapipe_local.service import connections, elt_tables, jobs, orchestrations
from datapipe_local.service.checks import check_cron, check_id, check_json, check_schema_name
from datapipe_local.sources import SOURCES
from datapipe_local.store.records import EltStream, EltStreamRun, EltSync, Job, JobKind, Json
from datapipe_local.store.table import Order, Page

if TYPE_CHECKING:
    import datetime as dt

    from datapipe_local.service.context import Context

#: The setting that bounds how many syncs a connection has, and how many it has without it.
LIMIT_SETTING = "syncs_per_connection"
DEFAULT_LIMIT = 10


#: Of the runs of one stream, the one that ended last among those that callers may see.
_LATEST = "finished_at IS NOT NULL AND {} ORDER BY started_at DESC LIMIT 1"


class StreamState(NamedTuple):
    """What is known of the runs of one stream: what is owed or going, and what ended last."""

    name: str
    job: Job | None
    active: EltStreamRun | None
    latest: EltStreamRun | None


def page(context: Context, *, after: str | None, limit: int, connection_id: str | None = None) -> Page[EltSync]:
    """Give a part of the list, by creation date; of one source connection if its id is given."""
    return context.store.elt_syncs.page(Order(), after=after, limit=limit, filters={"connection_id = ?": connection_id})


def get(context: Context, sync_id: str) -> EltSync:
    """
    Give a sync.

    :raises NotFoundError: there is none with this id.
    """
    sync = context.store.elt_syncs.get(sync_id)
    if sync is None:
        raise NotFoundError("ELT sync", sync_id)
    return sync


def streams(context: Context, sync_id: str) -> list[EltStream]:
    """Give all streams of a sync."""
    return context.store.elt_streams.all("WHERE elt_sync_id = ? ORDER BY created_at, seq", sync_id)


def enable(context: Context, sync_id: str, *, enabled: bool) -> None:
    """
    Have a sync run on its schedule, or not.

    :raises NotFoundError: there is none with this id.
    """
    with context.store.transaction():
        get(context, sync_id)
        context.store.elt_syncs.update(sync_id, enabled=enabled, updated_at=context.clock.now())
    context.wake.set()


def create(
    context: Context,
    *,
    connection_id: str,
    destination_schema_name: str,
    sync_interval: str,
    settings: Json,
    start_date: dt.date | None,
) -> EltSync:
    """
    Create a sync, which has no streams yet.

    :param context: The service.
    :param connection_id: Where it reads.
    :param destination_schema_name: Where its tables are to stand: no other sync's schema.
    :param sync_interval: Its schedule.
    :param settings: What the interface calls ``elt_settings``.
    :param start_date: From when on it reads, where a source knows that.
    :raises BadRequestError: a value is not allowed.
    :raises NotFoundError: there is no such connection.
    :raises ConflictError: the connection has as many syncs as it can have.
    """
    check_json("elt_settings", settings)
    sync_id = new_id()
    with context.store.transaction():
        connections.get(context, connection_id)
        limit = context.store.setting(LIMIT_SETTING, DEFAULT_LIMIT)
        there = context.store.database.value("SELECT count(*) FROM elt_syncs WHERE connection_id = ?", connection_id)
        if there >= limit:
            raise ConflictError(
                f"connection_id: the connection has reached its maximum of {limit} ELT syncs: delete one first.",
                error_code="sync_limit_reached",
            )
        put(
            context,
            sync_id,
            connection_id=connection_id,
            destination_schema_name=destination_schema_name,
            sync_interval=sync_interval,
            enabled=True,
            orchestration_workflow_id=None,
            elt_settings=settings,
            start_date=start_date,
        )
    context.wake.set()
    return get(context, sync_id)


def update(
    context: Context, sync_id: str, *, settings: Json | None = None, sync_interval: str | None = None
) -> EltSync:
    """
    Change a sync; what is ``None`` stays as it is.

    :raises NotFoundError: there is none with this id.
    :raises BadRequestError: a value is not allowed.
    """
    changes: dict[str, Any] = {}
    if settings is not None:
        changes["settings"] = check_json("elt_settings", settings)
    if sync_interval is not None:
        changes["sync_interval"] = check_cron("sync_interval", sync_interval)
    return _change(context, sync_id, **changes)


def attach(context: Context, sync_id: str, orchestration_id: str) -> EltSync:
    """
    Have a sync run as a part of an orchestration, instead of on its own schedule.

    :raises NotFoundError: the sync or the orchestration does not exist.
    """
    with context.store.transaction():
        get(context, sync_id)
        orchestrations.get(context, orchestration_id)
        return _change(context, sync_id, orchestration_workflow_id=orchestration_id)


def detach(context: Context, sync_id: str) -> EltSync:
    """
    Have a sync run on its own schedule again, daily if it has none. Streams with a schedule of their own run on that.

    :raises NotFoundError: there is none with this id.
    """
    return _change(context, sync_id, orchestration_workflow_id=None)


def delete(context: Context, sync_id: str, *, with_tables: bool) -> None:
    """
    Delete a sync, its streams and their runs. What is being loaded is thrown away.

    :param context: The service.
    :param sync_id: Which.
    :param with_tables: Drop the tables that it has made, too.
    :raises NotFoundError: there is none with this id.
    """
    with context.store.transaction():
        get(context, sync_id)
        owed = [jobs.withdraw(context, JobKind.ELT_STREAM_RUN, stream.id) for stream in streams(context, sync_id)]
        if with_tables:
            elt_tables.doom(context, sync_id)
        context.store.database.run("DELETE FROM elt_syncs WHERE id = ?", sync_id)
    for job in owed:
        if job is not None:
            context.warehouse.break_off(job.seq)
    context.wake.set()
    elt_tables.drop_doomed(context)


def _change(context: Context, sync_id: str, **changes: Any) -> EltSync:
    with context.store.transaction():
        get(context, sync_id)
        context.store.elt_syncs.update(sync_id, **changes, updated_at=context.clock.now())
    context.wake.set()
    return get(context, sync_id)


def state(context: Context, sync: EltSync) -> EltSyncState:
    """Tell where a sync stands: a sync that is enabled runs, whether or not a stream of it does at this moment."""
    if not sync.enabled:
        return EltSyncState.PAUSED
    database = context.store.database
    statuses = {
        row["status"]
        for row in database.rows(
            # Of each stream one look at the end of its history, however long that is.
            "SELECT DISTINCT (SELECT status FROM elt_stream_runs"  # noqa: S608 - our own words
            f" WHERE elt_stream_id = s.id AND {_LATEST.format(context.script.visible)}) AS status"
            " FROM elt_streams s WHERE s.elt_sync_id = ?",
            sync.id,
        )
    } - {None}
    if EltStreamRunStatus.FAILED in statuses:
        return EltSyncState.FAILED
    ever_started = statuses or database.value(
        "SELECT 1 FROM elt_streams s JOIN elt_stream_runs r ON r.elt_stream_id = s.id WHERE s.elt_sync_id = ? LIMIT 1",
        sync.id,
    )
    return EltSyncState.RUNNING if ever_started else EltSyncState.NOT_STARTED


def stream_states(context: Context, sync_id: str) -> list[StreamState]:
    """Tell what is known of the runs of each stream of a sync."""
    store, visible = context.store, context.script.visible
    of_sync = "(SELECT id FROM elt_streams WHERE elt_sync_id = ?)"
    # As many questions for a thousand streams as for one.
    with store.transaction():
        # Of the streams themselves no more than is told: it is asked all the time.
        known = store.database.rows(
            "SELECT id, name FROM elt_streams WHERE elt_sync_id = ? ORDER BY created_at, seq", sync_id
        )
        owed = store.jobs.all(f"WHERE kind = ? AND subject_id IN {of_sync}", JobKind.ELT_STREAM_RUN, sync_id)
        going = store.elt_stream_runs.all(
            f"WHERE {visible} AND id IN (SELECT run_id FROM jobs WHERE kind = ? AND subject_id IN {of_sync})",  # noqa: S608 - as above
            JobKind.ELT_STREAM_RUN,
            sync_id,
        )
        ended = store.elt_stream_runs.all(
            "WHERE seq IN (SELECT (SELECT seq FROM elt_stream_runs"  # noqa: S608 - our own words
            f" WHERE elt_stream_id = s.id AND {_LATEST.format(visible)})"
            " FROM elt_streams s WHERE s.elt_sync_id = ?)",
            sync_id,
        )
    jobs_of = {job.subject_id: job for job in owed}
    active_of, latest_of = ({run.elt_stream_id: run for run in runs} for runs in (going, ended))
    states = []
    for stream_id, name in known:
        job, active = jobs_of.get(stream_id), active_of.get(stream_id)
        if job is not None and job.run_id is not None and active is None:
            # Its run is not to be seen.
            job = None
        states.append(StreamState(name, job, active, latest_of.get(stream_id)))
    return states


def put(
    context: Context,
    sync_id: str,
    *,
    connection_id: str,
    destination_schema_name: str,
    sync_interval: str | None,
    enabled: bool,
    orchestration_workflow_id: str | None,
    elt_settings: Json,
    start_date: dt.date | None,
) -> None:
    """
    Create a sync, or change it. How many syncs its connection has does not matter here.

    :raises BadRequestError: a value is not allowed.
    :raises NotFoundError: the connection or the orchestration does not exist.
    """
    check_id("id", sync_id)
    check_schema_name("destination_schema_name", destination_schema_name)
    if sync_interval is not None:
        check_cron("sync_interval", sync_interval)
    if orchestration_workflow_id is not None:
        orchestrations.get(context, orchestration_workflow_id)
    integration_id = connections.get(context, connection_id).integration_id
    if integration_id not in SOURCES:
        raise BadRequestError(f"connection_id: {connection_id!r} is one of {integration_id!r}, which is no source.")
    other = context.store.elt_syncs.first("WHERE destination_schema_name = ?", destination_schema_name)
    if other is not None and other.id != sync_id:
        raise BadRequestError(
            f"destination_schema_name: {destination_schema_name!r} is the ELT sync {other.id}'s: give another.",
            error_code="name_taken",
        )
    now = context.clock.now()
    begin = None if start_date is None else f"{start_date.isoformat()}T00:00:00.000Z"
    known = context.store.elt_syncs.get(sync_id)
    if known is None:
        context.store.elt_syncs.insert(
            EltSync(
                id=sync_id,
                connection_id=connection_id,
                destination_schema_name=destination_schema_name,
                sync_interval=sync_interval,
                enabled=enabled,
                orchestration_workflow_id=orchestration_workflow_id,
                settings=elt_settings,
                start_date=begin,
                created_at=now,
                updated_at=now,
            )
        )
        return
    if known.destination_schema_name != destination_schema_name:
        raise BadRequestError(
            f"destination_schema_name: the data is in {known.destination_schema_name!r}, which stays the name."
        )
    context.store.elt_syncs.update(
        sync_id,
        connection_id=connection_id,
        sync_interval=sync_interval,
        enabled=enabled,
        orchestration_workflow_id=orchestration_workflow_id,
        settings=elt_settings,
        start_date=begin,
        updated_at=now,
    )
