"""ELT syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import EltSyncState
from datapipe_local.common.errors import BadRequestError, ConflictError
from datapipe_local.connectors.sources import SOURCES
from datapipe_local.services import connections, elt_tables, jobs, orchestrations
from datapipe_local.services.checks import check_cron, check_id, check_json, check_schema_name
from datapipe_local.storage.ids import new_id
from datapipe_local.storage.records import EltStream, EltStreamRun, EltSync, Job, JobKind, Json
from datapipe_local.storage.table import Order, Page

if TYPE_CHECKING:
    import datetime as dt

    from datapipe_local.services.context import Context

#: Setting and default of the maximum number of syncs per connection.
LIMIT_SETTING = "syncs_per_connection"
DEFAULT_LIMIT = 10

#: SQL that selects the last finished run of a stream that callers may see.
_LATEST = "finished_at IS NOT NULL AND {} ORDER BY started_at DESC LIMIT 1"


class StreamState(NamedTuple):
    """Run state of a stream: its pending job, its active run and its last finished run."""

    name: str
    job: Job | None
    active: EltStreamRun | None
    latest: EltStreamRun | None


def page(context: Context, *, after: str | None, limit: int, connection_id: str | None = None) -> Page[EltSync]:
    """Return a page of syncs by creation date, optionally of one source connection."""
    return context.store.elt_syncs.page(Order(), after=after, limit=limit, filters={"connection_id = ?": connection_id})


def get(context: Context, sync_id: str) -> EltSync:
    """
    Return a sync.

    :raises NotFoundError: if the sync does not exist.
    """
    return context.store.elt_syncs.existing(sync_id)


def streams(context: Context, sync_id: str) -> list[EltStream]:
    """Return all streams of a sync, by creation date."""
    return context.store.elt_streams.all("WHERE elt_sync_id = ? ORDER BY created_at, seq", sync_id)


def enable(context: Context, sync_id: str, *, enabled: bool) -> None:
    """
    Enable or disable a sync.

    :raises NotFoundError: if the sync does not exist.
    """
    _change(context, sync_id, enabled=enabled)


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
    Create a sync without streams.

    :param context: Service context.
    :param connection_id: Source connection.
    :param destination_schema_name: Schema of the sync's tables, unique among syncs.
    :param sync_interval: Cron expression.
    :param settings: Value of ``elt_settings``.
    :param start_date: Earliest date to load, for sources that support it.
    :raises BadRequestError: if a value is invalid.
    :raises NotFoundError: if the connection does not exist.
    :raises ConflictError: if the connection has reached its maximum number of syncs.
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
    Update a sync. ``None`` keeps the current value.

    :raises NotFoundError: if the sync does not exist.
    :raises BadRequestError: if a value is invalid.
    """
    changes: dict[str, Any] = {}
    if settings is not None:
        changes["settings"] = check_json("elt_settings", settings)
    if sync_interval is not None:
        changes["sync_interval"] = check_cron("sync_interval", sync_interval)
    return _change(context, sync_id, **changes)


def attach(context: Context, sync_id: str, orchestration_id: str) -> EltSync:
    """
    Attach a sync to an orchestration, which then replaces its own schedule.

    :raises NotFoundError: if the sync or the orchestration does not exist.
    """
    with context.store.transaction():
        get(context, sync_id)
        orchestrations.get(context, orchestration_id)
        return _change(context, sync_id, orchestration_workflow_id=orchestration_id)


def detach(context: Context, sync_id: str) -> EltSync:
    """
    Detach a sync from its orchestration. It then runs on its own schedule, or daily without one.

    Streams with their own schedule keep it.

    :raises NotFoundError: if the sync does not exist.
    """
    return _change(context, sync_id, orchestration_workflow_id=None)


def delete(context: Context, sync_id: str, *, with_tables: bool) -> None:
    """
    Delete a sync with its streams and runs, and cancel active loads.

    :param context: Service context.
    :param sync_id: Sync.
    :param with_tables: Also drop the tables of the sync.
    :raises NotFoundError: if the sync does not exist.
    """
    with context.store.transaction():
        get(context, sync_id)
        canceled = [jobs.cancel(context, JobKind.ELT_STREAM_RUN, stream.id) for stream in streams(context, sync_id)]
        if with_tables:
            elt_tables.mark_for_removal(context, sync_id)
        context.store.database.run("DELETE FROM elt_syncs WHERE id = ?", sync_id)
    for job in canceled:
        if job is not None:
            context.warehouse.interrupt_job(job.seq)
    context.wake.set()
    elt_tables.drop_marked_tables(context)


def _change(context: Context, sync_id: str, **changes: Any) -> EltSync:
    with context.store.transaction():
        get(context, sync_id)
        context.store.elt_syncs.update(sync_id, **changes, updated_at=context.clock.now())
        changed = get(context, sync_id)
    context.wake.set()
    return changed


def state(context: Context, sync: EltSync) -> EltSyncState:
    """
    Return the state of a sync.

    A disabled sync is paused. An enabled sync is failed if the last run of a stream failed. Otherwise it is running if
    a stream has ever had a run, even if none is active.
    """
    if not sync.enabled:
        return EltSyncState.PAUSED
    database = context.store.database
    statuses = {
        row["status"]
        for row in database.rows(
            # One index lookup per stream, independent of the length of the run history.
            "SELECT DISTINCT (SELECT status FROM elt_stream_runs"  # noqa: S608 - no user input
            f" WHERE elt_stream_id = s.id AND {_LATEST.format(context.run_overrides.visible)}) AS status"
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
    """Return the run state of each stream of a sync."""
    store, visible = context.store, context.run_overrides.visible
    of_sync = "(SELECT id FROM elt_streams WHERE elt_sync_id = ?)"
    # The number of queries does not depend on the number of streams.
    with store.transaction():
        # Clients poll this often, so read only the columns that the response needs.
        known = store.database.rows(
            "SELECT id, name FROM elt_streams WHERE elt_sync_id = ? ORDER BY created_at, seq", sync_id
        )
        pending = store.jobs.all(f"WHERE kind = ? AND subject_id IN {of_sync}", JobKind.ELT_STREAM_RUN, sync_id)
        going = store.elt_stream_runs.all(
            f"WHERE {visible} AND id IN (SELECT run_id FROM jobs WHERE kind = ? AND subject_id IN {of_sync})",  # noqa: S608 - no user input
            JobKind.ELT_STREAM_RUN,
            sync_id,
        )
        ended = store.elt_stream_runs.all(
            "WHERE seq IN (SELECT (SELECT seq FROM elt_stream_runs"  # noqa: S608 - no user input
            f" WHERE elt_stream_id = s.id AND {_LATEST.format(visible)})"
            " FROM elt_streams s WHERE s.elt_sync_id = ?)",
            sync_id,
        )
    jobs_of = {job.subject_id: job for job in pending}
    active_of, latest_of = ({run.elt_stream_id: run for run in runs} for runs in (going, ended))
    states = []
    for stream_id, name in known:
        job, active = jobs_of.get(stream_id), active_of.get(stream_id)
        if job is not None and job.run_id is not None and active is None:
            # A test has hidden the run.
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
    Create or update a sync, without the limit on the number of syncs per connection.

    :raises BadRequestError: if a value is invalid.
    :raises NotFoundError: if the connection or the orchestration does not exist.
    """
    check_id("id", sync_id)
    check_schema_name("destination_schema_name", destination_schema_name)
    if sync_interval is not None:
        check_cron("sync_interval", sync_interval)
    if orchestration_workflow_id is not None:
        orchestrations.get(context, orchestration_workflow_id)
    integration_id = connections.get(context, connection_id).integration_id
    if integration_id not in SOURCES:
        raise BadRequestError(
            f"connection_id: {connection_id!r} has the integration {integration_id!r}, which is not a source."
        )
    other = context.store.elt_syncs.first("WHERE destination_schema_name = ?", destination_schema_name)
    if other is not None and other.id != sync_id:
        raise BadRequestError(
            f"destination_schema_name: {destination_schema_name!r} belongs to the ELT sync {other.id}: give"
            " another schema.",
            error_code="name_taken",
        )
    known = context.store.elt_syncs.get(sync_id)
    if known is not None and known.destination_schema_name != destination_schema_name:
        raise BadRequestError(
            f"destination_schema_name: the schema is {known.destination_schema_name!r}, and cannot be changed."
        )
    now = context.clock.now()
    context.store.elt_syncs.save(
        EltSync(
            id=sync_id,
            connection_id=connection_id,
            destination_schema_name=destination_schema_name,
            sync_interval=sync_interval,
            enabled=enabled,
            orchestration_workflow_id=orchestration_workflow_id,
            settings=elt_settings,
            start_date=None if start_date is None else f"{start_date.isoformat()}T00:00:00.000Z",
            created_at=now,
            updated_at=now,
        )
    )
