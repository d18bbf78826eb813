"""Runs of orchestrations: what is attached, in stages, after what it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRunStatus
from datapipe_local.clock import later
from datapipe_local.service import elt_syncs, jobs, transforms
from datapipe_local.service.references import Catalogue
from datapipe_local.store.records import ItemState, JobKind, OrchestrationItem

if TYPE_CHECKING:
    from datapipe_local.clock import Timestamp
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import OrchestrationRun

_OVER = frozenset({ItemState.COMPLETED, ItemState.FAILED, ItemState.CANCELED})
#: The stages, in order: sources are loaded, then transforms built, then destinations written.
_STAGES = (JobKind.ELT_STREAM_RUN, JobKind.MATERIALIZATION, JobKind.REVERSE_ETL_SYNC_RUN)


class _Plan(NamedTuple):
    """An item before it has a position: what, and which others it needs."""

    kind: JobKind
    subject_id: str
    needs: frozenset[tuple[JobKind, str]]


def advance(context: Context) -> Timestamp | None:
    """
    Take each orchestration run as far as it goes now. Runs of one orchestration follow one another.

    Only the engine's dispatcher calls this, again whenever a job has ended.

    :param context: The service.
    :return: When time alone lets a run go further; ``None`` if it does not.
    """
    moments = []
    seen = set()
    for run in context.store.orchestration_runs.all("WHERE finished_at IS NULL ORDER BY due_at, seq"):
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
    items = _go_on(context, run.id)
    if any(item.state not in _OVER for item in items):
        return None
    over_at = later(run.started_at or now, context.minimum_duration_of(run.orchestration_id))
    if over_at > now:
        return over_at
    told_to_fail = context.script.outcome(run.orchestration_id, run.id).error is not None
    failed = told_to_fail or any(item.state != ItemState.COMPLETED for item in items)
    context.store.orchestration_runs.update(
        run.id,
        status=OrchestrationRunStatus.FAILED if failed else OrchestrationRunStatus.COMPLETED,
        finished_at=now,
    )
    # Its successor, if it was waiting for this one, can start at once.
    return now


def _start(context: Context, run: OrchestrationRun, now: Timestamp) -> None:
    plans = _plan(context, run.orchestration_id)
    position_of = {(plan.kind, plan.subject_id): position for position, plan in enumerate(plans)}
    for (kind, subject_id), position in position_of.items():
        needs = plans[position].needs
        context.store.orchestration_items.insert(
            OrchestrationItem(
                run_id=run.id,
                position=position,
                stage=_STAGES.index(kind),
                job_kind=kind,
                subject_id=subject_id,
                # What it needs and is not attached here stays as it is.
                depends_on=sorted(position_of[need] for need in needs if need in position_of),
                state=ItemState.WAITING,
            )
        )
    context.store.orchestration_runs.update(run.id, status=OrchestrationRunStatus.RUNNING, started_at=now)


def _plan(context: Context, orchestration_id: str) -> list[_Plan]:
    """Give what is attached and can run: of enabled syncs, published transforms, activated reverse ETL syncs."""
    store, catalogue = context.store, Catalogue(context)
    attached = "WHERE orchestration_workflow_id = ?"
    plans = [
        _Plan(JobKind.ELT_STREAM_RUN, stream.id, frozenset())
        for sync in store.elt_syncs.all(f"{attached} AND enabled ORDER BY created_at, seq", orchestration_id)
        for stream in elt_syncs.streams(context, sync.id)
    ]
    plans += [
        _Plan(JobKind.MATERIALIZATION, transform.id, _needs(context, catalogue, transform.id))
        for transform in store.transforms.all(
            f"{attached} AND published_version_id IS NOT NULL ORDER BY created_at, seq", orchestration_id
        )
    ]
    for reverse in store.reverse_etl_syncs.all(f"{attached} AND enabled ORDER BY created_at, seq", orchestration_id):
        source = transforms.get(context, reverse.source_id)
        if source.published_version_id is not None:
            needs = _needs(context, catalogue, source.id) | {(JobKind.MATERIALIZATION, source.id)}
            plans.append(_Plan(JobKind.REVERSE_ETL_SYNC_RUN, reverse.id, needs))
    return plans


def _needs(context: Context, catalogue: Catalogue, transform_id: str) -> frozenset[tuple[JobKind, str]]:
    transform = transforms.get(context, transform_id)
    template = transforms.version(context, transform, str(transform.published_version_id)).sql_template
    near_and_far = catalogue.dependencies(template)
    return frozenset(
        {(JobKind.ELT_STREAM_RUN, stream_id) for stream_id in near_and_far.stream_ids}
        | {(JobKind.MATERIALIZATION, needed_id) for needed_id in near_and_far.transform_ids}
    )


def _go_on(context: Context, run_id: str) -> list[OrchestrationItem]:
    """Begin the items that can begin, cancel those that cannot any more, and give all as they are then."""
    while True:
        items = context.store.orchestration_items.all("WHERE run_id = ? ORDER BY position", run_id)
        changes = {item.position: change for item in items if (change := _change(context, items, item)) is not None}
        if not changes:
            return items
        for item in items:
            if item.position in changes:
                if changes[item.position] == ItemState.GOING:
                    kind = JobKind(item.job_kind)
                    jobs.add(
                        context,
                        kind,
                        item.subject_id,
                        context.clock.now(),
                        orchestration_item=(run_id, item.position),
                    )
                context.store.database.run(
                    "UPDATE orchestration_items SET state = ? WHERE run_id = ? AND position = ?",
                    changes[item.position],
                    run_id,
                    item.position,
                )


def _change(context: Context, items: list[OrchestrationItem], item: OrchestrationItem) -> ItemState | None:
    if item.state != ItemState.WAITING:
        return None
    needed = [items[position].state for position in item.depends_on]
    if any(state in {ItemState.FAILED, ItemState.CANCELED} for state in needed):
        return ItemState.CANCELED
    earlier_over = all(other.state in _OVER for other in items if other.stage < item.stage)
    if not earlier_over or any(state != ItemState.COMPLETED for state in needed):
        return None
    # Somebody else's run of the same: this one's follows it.
    if jobs.get(context, JobKind(item.job_kind), item.subject_id) is not None:
        return None
    return ItemState.GOING
