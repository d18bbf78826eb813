"""ELT syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import EltSyncState
from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.service import connections, jobs, orchestrations
from datapipe_local.service.checks import check_cron, check_id, check_name
from datapipe_local.sources import SOURCES
from datapipe_local.store.records import EltStream, EltStreamRun, EltSync, Job, JobKind
from datapipe_local.store.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.service.context import Context


class StreamState(NamedTuple):
    """What is known of the runs of one stream: what is owed or going, and what ended last."""

    stream: EltStream
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


def state(context: Context, sync: EltSync) -> EltSyncState:
    """Tell where a sync stands: a sync that is enabled runs, whether or not a stream of it does at this moment."""
    if not sync.enabled:
        return EltSyncState.PAUSED
    latest = [known.latest for known in stream_states(context, sync.id) if known.latest is not None]
    if any(run.status == EltStreamRunStatus.FAILED for run in latest):
        return EltSyncState.FAILED
    ever_started = latest or context.store.elt_stream_runs.first("WHERE elt_sync_id = ? LIMIT 1", sync.id)
    return EltSyncState.RUNNING if ever_started else EltSyncState.NOT_STARTED


def stream_states(context: Context, sync_id: str) -> list[StreamState]:
    """Tell what is known of the runs of each stream of a sync."""
    states = []
    with context.store.transaction():
        for stream in streams(context, sync_id):
            job = jobs.get(context, JobKind.ELT_STREAM_RUN, stream.id)
            runs, visible = context.store.elt_stream_runs, context.script.visible
            active = None
            if job is not None and job.run_id is not None:
                active = runs.first(f"WHERE id = ? AND {visible}", job.run_id)
                job = None if active is None else job
            latest = runs.first(
                f"WHERE elt_stream_id = ? AND finished_at IS NOT NULL AND {visible} ORDER BY started_at DESC LIMIT 1",
                stream.id,
            )
            states.append(StreamState(stream, job, active, latest))
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
) -> None:
    """
    Create a sync, or change it.

    :raises BadRequestError: a value is not allowed.
    :raises NotFoundError: the connection or the orchestration does not exist.
    """
    check_id("id", sync_id)
    check_name("destination_schema_name", destination_schema_name)
    if sync_interval is not None:
        check_cron("sync_interval", sync_interval)
    if orchestration_workflow_id is not None:
        orchestrations.get(context, orchestration_workflow_id)
    integration_id = connections.get(context, connection_id).integration_id
    if integration_id not in SOURCES:
        raise BadRequestError(f"connection_id: {connection_id!r} is one of {integration_id!r}, which is no source.")
    other = context.store.elt_syncs.first("WHERE destination_schema_name = ?", destination_schema_name)
    if other is not None and other.id != sync_id:
        raise BadRequestError(f"destination_schema_name: {destination_schema_name!r} is the ELT sync {other.id}'s.")
    now = context.clock.now()
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
        updated_at=now,
    )
