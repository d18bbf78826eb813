"""Orchestrations and their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRunStatus
from datapipe_local.clock import later
from datapipe_local.errors import NotFoundError
from datapipe_local.ids import new_id
from datapipe_local.service.checks import check_cron, check_id
from datapipe_local.store.records import Orchestration, OrchestrationRun
from datapipe_local.store.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.service.context import Context


def page(context: Context, *, after: str | None, limit: int) -> Page[Orchestration]:
    """Give a part of the list, by name."""
    return context.store.orchestrations.page(Order("name COLLATE NOCASE"), after=after, limit=limit)


def get(context: Context, orchestration_id: str) -> Orchestration:
    """
    Give an orchestration.

    :raises NotFoundError: there is none with this id.
    """
    orchestration = context.store.orchestrations.get(orchestration_id)
    if orchestration is None:
        raise NotFoundError("orchestration", orchestration_id)
    return orchestration


def page_of_runs(
    context: Context, *, after: str | None, limit: int, orchestration_id: str | None = None
) -> Page[OrchestrationRun]:
    """
    Give a part of the list of runs, the newest due date first; of one orchestration if its id is given.

    :raises NotFoundError: there is no such orchestration.
    """
    if orchestration_id is not None:
        get(context, orchestration_id)
    return context.store.orchestration_runs.page(
        Order("due_at", descending=True),
        after=after,
        limit=limit,
        filters={"orchestration_id = ?": orchestration_id, f"? AND {context.script.visible}": True},
    )


def get_run(context: Context, run_id: str) -> OrchestrationRun:
    """
    Give a run.

    :raises NotFoundError: there is none with this id.
    """
    run = context.store.orchestration_runs.first(f"WHERE id = ? AND {context.script.visible}", run_id)
    if run is None:
        raise NotFoundError("orchestration run", run_id)
    return run


def request_run(context: Context, orchestration_id: str) -> OrchestrationRun:
    """
    Schedule a run.

    The interface knows no conflict here: each request makes a run of its own, and the runs of one orchestration
    follow one another.

    :raises NotFoundError: there is no such orchestration.
    """
    with context.store.transaction():
        get(context, orchestration_id)
        run = OrchestrationRun(
            id=new_id(),
            orchestration_id=orchestration_id,
            status=OrchestrationRunStatus.NOT_STARTED,
            due_at=later(context.clock.now(), context.scheduling_delay_of(orchestration_id)),
        )
        context.store.orchestration_runs.insert(run)
    context.wake.set()
    return run


def put(context: Context, orchestration_id: str, *, name: str, cron_schedule: str) -> None:
    """
    Create an orchestration, or change it.

    :raises BadRequestError: a value is not allowed.
    """
    check_id("id", orchestration_id)
    check_cron("cron_schedule", cron_schedule)
    now = context.clock.now()
    if context.store.orchestrations.get(orchestration_id) is None:
        context.store.orchestrations.insert(
            Orchestration(id=orchestration_id, name=name, cron_schedule=cron_schedule, created_at=now, updated_at=now)
        )
    else:
        context.store.orchestrations.update(orchestration_id, name=name, cron_schedule=cron_schedule, updated_at=now)
