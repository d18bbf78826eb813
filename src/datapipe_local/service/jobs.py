"""What the service owes: jobs come with a request and go with their result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.errors import ConflictError
from datapipe_local.store.records import ItemState, Job, JobKind

if TYPE_CHECKING:
    from datapipe_local.clock import Timestamp
    from datapipe_local.service.context import Context


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
    Promise work. The caller wakes the engine once that is committed.

    :param context: The service.
    :param kind: What kind of work.
    :param subject_id: On what.
    :param due_at: When it begins.
    :param begun: There is no run to begin, only work to do.
    :param orchestration_item: For which item of which orchestration run.
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
    """Give what is owed, if anything is."""
    return context.store.jobs.first("WHERE kind = ? AND subject_id = ?", kind, subject_id)


def refuse_if_any(context: Context, kind: JobKind, subject_id: str, subject: str) -> None:
    """
    Refuse a second run at a time.

    :raises ConflictError: a run is going, which it names, or scheduled, which has no id yet.
    """
    job = get(context, kind, subject_id)
    if job is None:
        return
    if job.run_id is None:
        raise ConflictError(f"A run of {subject} is already scheduled.", error_code="run_already_scheduled")
    raise ConflictError(
        f"{subject[0].upper()}{subject[1:]} is already running.",
        error_code="run_already_active",
        active_run_id=job.run_id,
    )


def begin(context: Context, job: Job, run_id: str, work_at: Timestamp) -> None:
    """Note that a job's run has begun and when its work is due."""
    context.store.database.run(
        "UPDATE jobs SET run_id = ?, begun = 1, due_at = ? WHERE seq = ?", run_id, work_at, job.seq
    )


def is_owed(context: Context, job: Job) -> bool:
    """Tell whether a job is still to be done: what it was for may have been deleted while it was going on."""
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


def withdraw(context: Context, kind: JobKind, subject_id: str) -> Job | None:
    """
    Owe nothing any more on something that is deleted. Orchestration runs see for themselves that it is gone.

    :return: What was owed: once that is committed, the warehouse can break it off.
    """
    job = get(context, kind, subject_id)
    if job is not None:
        context.store.database.run("DELETE FROM jobs WHERE seq = ?", job.seq)
    return job


def go_on(context: Context, job: Job) -> None:
    """Note that a job's run is over and another one is to follow, at once."""
    context.store.database.run(
        "UPDATE jobs SET run_id = NULL, begun = 0, due_at = ? WHERE seq = ?", context.clock.now(), job.seq
    )


def end(context: Context, job: Job, *, failed: bool) -> None:
    """Note that a job is done, also with the orchestration run that wanted it."""
    context.store.database.run("DELETE FROM jobs WHERE seq = ?", job.seq)
    if job.orchestration_run_id is not None:
        context.store.database.run(
            "UPDATE orchestration_items SET state = ? WHERE run_id = ? AND position = ?",
            ItemState.FAILED if failed else ItemState.COMPLETED,
            job.orchestration_run_id,
            job.orchestration_position,
        )
