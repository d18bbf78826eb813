"""Effective schedules of streams, transforms, syncs and orchestrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.services import jobs, orchestrations, reverse_etl_sources, reverse_etl_syncs
from datapipe_local.storage.records import JobKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp
    from datapipe_local.storage.database import Database

#: Default schedule of ELT syncs.
DAILY = "0 0 * * *"
#: Kind of the schedules that create orchestration runs. The other kinds are job kinds.
ORCHESTRATION = "orchestration"
_BUSY = "its last run is still active"

#: Query for everything that has a schedule: ``kind``, ``subject_id``, ``cron_expression``.
EFFECTIVE = f"""
    SELECT '{JobKind.ELT_STREAM_RUN}' AS kind, s.id AS subject_id,
        coalesce(s.sync_interval, y.sync_interval, '{DAILY}') AS cron_expression
    FROM elt_streams s JOIN elt_syncs y ON y.id = s.elt_sync_id
    WHERE y.enabled AND (s.sync_interval IS NOT NULL OR y.orchestration_workflow_id IS NULL)
    UNION ALL
    SELECT '{JobKind.MATERIALIZATION}', id, cron_expression FROM transforms
    WHERE deleted_at IS NULL AND published_version_id IS NOT NULL AND materialization = '{Materialization.TABLE}'
        AND cron_expression IS NOT NULL AND orchestration_workflow_id IS NULL
    UNION ALL
    SELECT '{JobKind.REVERSE_ETL_SYNC_RUN}', id, sync_interval FROM reverse_etl_syncs
    WHERE enabled AND sync_interval IS NOT NULL AND orchestration_workflow_id IS NULL
    UNION ALL
    SELECT '{ORCHESTRATION}', id, cron_schedule FROM orchestrations
"""  # noqa: S608 - no user input
# Columns that the query reads. Other changes do not affect schedules.
_READ = {
    "elt_syncs": ("enabled", "orchestration_workflow_id", "sync_interval"),
    "elt_streams": ("elt_sync_id", "sync_interval"),
    "transforms": (
        "deleted_at",
        "published_version_id",
        "materialization",
        "cron_expression",
        "orchestration_workflow_id",
    ),
    "reverse_etl_syncs": ("enabled", "sync_interval", "orchestration_workflow_id"),
    "orchestrations": ("cron_schedule",),
}


class Scheduled(NamedTuple):
    """Resource with a schedule."""

    kind: str
    subject_id: str
    cron_expression: str


def effective(context: Context) -> list[Scheduled]:
    """Return all resources with a schedule."""
    return [Scheduled(*row) for row in context.store.database.rows(EFFECTIVE)]


def watch(database: Database, changed: Callable[[], None]) -> None:
    """
    Call a function when the result of :func:`effective` may have changed.

    :param database: Database to watch.
    :param changed: Function to call within the transaction of the change, which may still roll back. It must not use
        the database.
    """
    database.define("schedules_changed", 0, changed)
    for table, columns in _READ.items():
        really = " OR ".join(f"OLD.{column} IS NOT NEW.{column}" for column in columns)
        for name, event, condition in (
            ("added", "INSERT", "TRUE"),
            ("updated", f"UPDATE OF {', '.join(columns)}", really),
            ("removed", "DELETE", "TRUE"),
        ):
            database.script(
                f"CREATE TEMP TRIGGER IF NOT EXISTS schedules_{name}_{table} AFTER {event} ON main.{table}"
                f" WHEN {condition} BEGIN SELECT schedules_changed(); END;"
            )


def start(context: Context, scheduled: Scheduled, due_at: Timestamp) -> str | None:
    """
    Start a scheduled run unless something prevents it.

    :param context: Service context.
    :param scheduled: Resource.
    :param due_at: Time at which the run was due.
    :return: Reason why the run cannot start, or None if it was started.
    """
    if scheduled.kind == ORCHESTRATION:
        return None if orchestrations.start_scheduled(context, scheduled.subject_id, due_at) else _BUSY
    kind = JobKind(scheduled.kind)
    if kind == JobKind.REVERSE_ETL_SYNC_RUN:
        source = reverse_etl_sources.of(context, reverse_etl_syncs.get(context, scheduled.subject_id))
        if source.place is None:
            return f"its source, {source.title}, {source.obstacle}"
    if jobs.get(context, kind, scheduled.subject_id) is not None:
        return _BUSY
    jobs.add(context, kind, scheduled.subject_id, context.clock.now())
    return None
