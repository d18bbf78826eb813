"""Runs of orchestrations: what is attached, each part as soon as what it depends on is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRunStatus
from datapipe_local.clock import later
from datapipe_local.engine.plan import is_there, plan
from datapipe_local.service import jobs
from datapipe_local.store.records import ItemState, JobKind, OrchestrationItem

if TYPE_CHECKING:
    from datapipe_local.clock import Timestamp
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import OrchestrationRun

_NOT_DONE = frozenset({ItemState.FAILED, ItemState.CANCELED})
_OVER = _NOT_DONE | {ItemState.COMPLETED}


def advance(context: Context) -> Timestamp | None:
    """
    Take each orchestration run as far as it goes now. Runs of one orchestration follow one another.

    Only the engine's dispatcher calls this, again whenever a job has ended.

    :param context: The service.
    :return: When time alone lets a run go further; ``None`` if it does not.
    """
    moments = []
    seen = set()
    # One that has started goes first, also if the clock was turned back since.
    for run in context.store.orchestration_runs.all(
        "WHERE finished_at IS NULL ORDER BY started_at IS NULL, due_at, seq"
    ):
        if run.orchestration_id in seen:
            continue
        seen.add(run.orchestration_id)
        with context.store.transaction():
            moment = _advance(context, run)
        if moment is not None:
            moments.append(moment)
    return min(moments, default=None)


def _advance(context: Context, run: OrchestrationRun) -> Timestamp | None:
    now = context.clock.now()
    if run.started_at is None:
        if run.due_at > now:
            return run.due_at
        _start(context, run, now)
    states = _go_on(context, run.id)
    if not all(state in _OVER for state in states):
        return None
    over_at = later(run.started_at or now, context.minimum_duration_of(run.orchestration_id))
    if over_at > now:
        return over_at
    told_to_fail = context.script.outcome(run.orchestration_id, run.id).error is not None
    context.store.orchestration_runs.update(
        run.id,
        status=OrchestrationRunStatus.FAILED if told_to_fail else _status(states),
        finished_at=now,
    )
    # Its successor, if it was waiting for this one, can start at once.
    return now


def _status(states: list[ItemState]) -> OrchestrationRunStatus:
    if ItemState.FAILED in states:
        return OrchestrationRunStatus.FAILED
    return OrchestrationRunStatus.CANCELED if ItemState.CANCELED in states else OrchestrationRunStatus.COMPLETED


def _start(context: Context, run: OrchestrationRun, now: Timestamp) -> None:
    planned = plan(context, run.orchestration_id)
    position_of = {item.subject: position for position, item in enumerate(planned)}
    for (kind, subject_id), needs in planned:
        context.store.orchestration_items.insert(
            OrchestrationItem(
                run_id=run.id,
                position=position_of[kind, subject_id],
                job_kind=kind,
                subject_id=subject_id,
                # What it needs and is not attached here stays as it is.
                depends_on=sorted(position_of[need] for need in needs if need in position_of),
                state=ItemState.WAITING,
            )
        )
    context.store.orchestration_runs.update(run.id, status=OrchestrationRunStatus.RUNNING, started_at=now)


def _go_on(context: Context, run_id: str) -> list[ItemState]:
    """Begin the items that can begin, cancel those that cannot any more, and give the states of all."""
    items = context.store.orchestration_items.all("WHERE run_id = ? ORDER BY position", run_id)
    states = [ItemState(item.state) for item in items]
    owed = context.store.jobs.all()
    busy = {(job.kind, job.subject_id) for job in owed}
    own = {job.orchestration_position for job in owed if job.orchestration_run_id == run_id}
    # Once is enough: what an item needs stands before it.
    for item in items:
        state = states[item.position]
        if state == ItemState.GOING and item.position not in own:
            # Who ends a job notes its item's state with it. So this one was deleted, with what it was for.
            state = ItemState.CANCELED
        elif state == ItemState.WAITING:
            needed = {states[position] for position in item.depends_on}
            # Somebody else's run of the same: this one's follows it.
            is_busy = (item.job_kind, item.subject_id) in busy
            if needed & _NOT_DONE:
                state = ItemState.CANCELED
            elif needed <= {ItemState.COMPLETED} and not is_busy:
                state = _begin(context, item)
        if state != states[item.position]:
            states[item.position] = state
            context.store.database.run(
                "UPDATE orchestration_items SET state = ? WHERE run_id = ? AND position = ?",
                state,
                run_id,
                item.position,
            )
    return states


def _begin(context: Context, item: OrchestrationItem) -> ItemState:
    kind = JobKind(item.job_kind)
    if not is_there(context, (kind, item.subject_id)):
        return ItemState.CANCELED
    jobs.add(context, kind, item.subject_id, context.clock.now(), orchestration_item=(item.run_id, item.position))
    return ItemState.GOING
