"""Persistent queue of pending work: a request adds a job, and its result removes it. A resource has at most one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.storage.records import ItemState, Job, JobKind

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp


def add(
    context: Context,
    kind: JobKind,
    subject_id: str,
    due_at: Timestamp,
    *,
    begun: bool = False,
    orchestration_item: tuple[str, int] | None = None,
) -> None:
    """
    Add a job. The caller wakes the engine after the commit.

    :param context: Service context.
    :param kind: Kind of work.
    :param subject_id: Resource to work on.
    :param due_at: Time at which the job starts.
    :param begun: The job has no run to start, only work to do.
    :param orchestration_item: Run ID and position of the orchestration item that the job belongs to.
    """
    run_id, position = orchestration_item or (None, None)
    context.store.database.run(
        "INSERT INTO jobs (kind, subject_id, due_at, begun, orchestration_run_id, orchestration_position)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        kind,
        subject_id,
        due_at,
        begun,
        run_id,
        position,
    )


def get(context: Context, kind: JobKind, subject_id: str) -> Job | None:
    """Return the job of a resource, or None."""
    return context.store.jobs.first("WHERE kind = ? AND subject_id = ?", kind, subject_id)


def begin(context: Context, job: Job, run_id: str | None, work_at: Timestamp) -> None:
    """Record that a job has started, with the ID of its run, if it has one, and when its work is due."""
    context.store.database.run(
        "UPDATE jobs SET run_id = ?, begun = 1, due_at = ? WHERE seq = ?", run_id, work_at, job.seq
    )


def is_pending(context: Context, job: Job) -> bool:
    """Return True if the job still exists. It does not if its resource was deleted during the work."""
    return bool(
        context.store.database.value(
            "SELECT 1 FROM jobs WHERE seq = ? AND kind = ? AND subject_id = ? AND due_at = ? AND run_id IS ?",
            job.seq,
            job.kind,
            job.subject_id,
            job.due_at,
            job.run_id,
        )
    )


def cancel(context: Context, kind: JobKind, subject_id: str) -> Job | None:
    """
    Delete the job of a resource that is deleted. Orchestration runs detect the deletion on their own.

    :return: The deleted job. After the commit, the caller can cancel its work in the warehouse.
    """
    job = get(context, kind, subject_id)
    if job is not None:
        context.store.database.run("DELETE FROM jobs WHERE seq = ?", job.seq)
    return job


def requeue(context: Context, job: Job) -> None:
    """Record that the run of a job has ended, and that the next run starts immediately."""
    context.store.database.run(
        "UPDATE jobs SET run_id = NULL, begun = 0, due_at = ? WHERE seq = ?", context.clock.now(), job.seq
    )


def end(context: Context, job: Job, *, failed: bool) -> None:
    """Delete a finished job, and record its result in its orchestration run."""
    context.store.database.run("DELETE FROM jobs WHERE seq = ?", job.seq)
    if job.orchestration_run_id is not None:
        context.store.database.run(
            "UPDATE orchestration_items SET state = ? WHERE run_id = ? AND position = ?",
            ItemState.FAILED if failed else ItemState.COMPLETED,
            job.orchestration_run_id,
            job.orchestration_position,
        )
