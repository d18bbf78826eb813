"""Runs of orchestrations: each attached resource runs as soon as its dependencies are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRunStatus
from datapipe_local.engine.orchestration_plan import is_there, plan
from datapipe_local.services import jobs
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import ItemState, JobKind, OrchestrationItem

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp
    from datapipe_local.storage.records import OrchestrationRun

_NOT_DONE = frozenset({ItemState.FAILED, ItemState.CANCELED})
_OVER = _NOT_DONE | {ItemState.COMPLETED}


def advance(context: Context) -> Timestamp | None:
    """
    Advance each orchestration run as far as possible. Runs of one orchestration are sequential.

    Only the engine's dispatcher calls this, also after each job.

    :param context: The service.
    :return: The time at which a run can advance without another event; ``None`` if there is none.
    """
    moments = []
    seen = set()
    # A started run goes first, even if the clock was turned back since.
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
    states = _advance_items(context, run.id)
    if states - _OVER:
        return None
    over_at = later(run.started_at or now, context.minimum_duration_of(run.orchestration_id))
    if over_at > now:
        return over_at
    is_forced_to_fail = context.run_overrides.outcome(run.orchestration_id, run.id).error is not None
    context.store.orchestration_runs.update(
        run.id, status=OrchestrationRunStatus.FAILED if is_forced_to_fail else _status(states), finished_at=now
    )
    # The next run of the orchestration can start at once.
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
                # Dependencies that are not attached to the orchestration are ignored.
                depends_on=sorted(position_of[need] for need in needs if need in position_of),
                state=ItemState.WAITING,
            )
        )
    context.store.orchestration_runs.update(run.id, status=OrchestrationRunStatus.RUNNING, started_at=now)


def _advance_items(context: Context, run_id: str) -> set[ItemState]:
    """Start the items that can start, cancel those that cannot any more, and return the states of all items."""
    database = context.store.database
    # The end of a job sets the state of its item in the same transaction. A job that is missing was deleted.
    database.run(
        "UPDATE orchestration_items AS i SET state = ? WHERE i.run_id = ? AND i.state = ?"
        " AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.kind = i.job_kind AND j.subject_id = i.subject_id"
        " AND j.orchestration_run_id = i.run_id AND j.orchestration_position = i.position)",
        ItemState.CANCELED,
        run_id,
        ItemState.GOING,
    )
    # A run can have many items: check only those that wait.
    waiting = context.store.orchestration_items.all(
        "WHERE run_id = ? AND state = ? ORDER BY position", run_id, ItemState.WAITING
    )
    if waiting:
        rows = database.rows("SELECT position, state FROM orchestration_items WHERE run_id = ?", run_id)
        states = {row["position"]: ItemState(row["state"]) for row in rows}
        # One pass is enough: dependencies come before the items that need them.
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
    """Return the next state of a waiting item. Add its job if it starts."""
    if needed & _NOT_DONE:
        return ItemState.CANCELED
    kind = JobKind(item.job_kind)
    # A run of the resource for another request is active: the item waits for its end.
    if needed - {ItemState.COMPLETED} or jobs.get(context, kind, item.subject_id) is not None:
        return ItemState.WAITING
    if not is_there(context, (kind, item.subject_id)):
        return ItemState.CANCELED
    jobs.add(context, kind, item.subject_id, context.clock.now(), orchestration_item=(item.run_id, item.position))
    return ItemState.GOING
