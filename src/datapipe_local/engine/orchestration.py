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
    if states - _OVER:
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


def _status(states: set[ItemState]) -> OrchestrationRunStatus:
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


def _go_on(context: Context, run_id: str) -> set[ItemState]:
    """Begin the items that can begin, cancel those that cannot any more, and tell how items stand then."""
    database = context.store.database
    # Who ends a job notes its item's state with it: a job that is gone was deleted, with what it was for.
    database.run(
        "UPDATE orchestration_items AS i SET state = ? WHERE i.run_id = ? AND i.state = ?"
        " AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.kind = i.job_kind AND j.subject_id = i.subject_id"
        " AND j.orchestration_run_id = i.run_id AND j.orchestration_position = i.position)",
        ItemState.CANCELED,
        run_id,
        ItemState.GOING,
    )
    # A run can have very many items; those that are going or over need no second look.
    waiting = context.store.orchestration_items.all(
        "WHERE run_id = ? AND state = ? ORDER BY position", run_id, ItemState.WAITING
    )
    if waiting:
        rows = database.rows("SELECT position, state FROM orchestration_items WHERE run_id = ?", run_id)
        states = {row["position"]: ItemState(row["state"]) for row in rows}
        # Once is enough: what an item needs stands before it.
        for item in waiting:
            state = _next_state(context, item, {states[position] for position in item.depends_on})
            if state != ItemState.WAITING:
                states[item.position] = state
                database.run(
                    "UPDATE orchestration_items SET state = ? WHERE run_id = ? AND position = ?",
                    state,
                    run_id,
                    item.position,
                )
    return {
        ItemState(row["state"])
        for row in database.rows("SELECT DISTINCT state FROM orchestration_items WHERE run_id = ?", run_id)
    }


def _next_state(context: Context, item: OrchestrationItem, needed: set[ItemState]) -> ItemState:
    """Tell what becomes of an item that waits; if it begins, owe its work."""
    if needed & _NOT_DONE:
        return ItemState.CANCELED
    kind = JobKind(item.job_kind)
    # Somebody else's run of the same: this one's follows it.
    if needed - {ItemState.COMPLETED} or jobs.get(context, kind, item.subject_id) is not None:
        return ItemState.WAITING
    if not is_there(context, (kind, item.subject_id)):
        return ItemState.CANCELED
    jobs.add(context, kind, item.subject_id, context.clock.now(), orchestration_item=(item.run_id, item.position))
    return ItemState.GOING
