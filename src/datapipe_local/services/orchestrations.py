"""Orchestrations and their runs."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRunStatus
from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.common.errors import BadRequestError, NotFoundError
from datapipe_local.services.checks import check_cron, check_id
from datapipe_local.storage.clock import later
from datapipe_local.storage.ids import new_id
from datapipe_local.storage.records import Orchestration, OrchestrationRun
from datapipe_local.storage.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.clock import Timestamp

LONGEST_NAME = 255
#: Unicode categories that names must not contain: control characters, surrogates, line and paragraph separators.
_NO_TEXT = frozenset({"Cc", "Cs", "Zl", "Zp"})


def page(context: Context, *, after: str | None, limit: int) -> Page[Orchestration]:
    """Return a page of orchestrations by name."""
    return context.store.orchestrations.page(Order("name COLLATE NOCASE"), after=after, limit=limit)


def get(context: Context, orchestration_id: str) -> Orchestration:
    """
    Return an orchestration.

    :raises NotFoundError: if the orchestration does not exist.
    """
    return context.store.orchestrations.existing(orchestration_id)


def page_of_runs(
    context: Context, *, after: str | None, limit: int, orchestration_id: str | None = None
) -> Page[OrchestrationRun]:
    """
    Return a page of runs, latest due date first, optionally of one orchestration.

    :raises NotFoundError: if the orchestration does not exist.
    """
    if orchestration_id is not None:
        get(context, orchestration_id)
    return context.store.orchestration_runs.page(
        Order("due_at", descending=True),
        after=after,
        limit=limit,
        filters={"orchestration_id = ?": orchestration_id, f"? AND {context.run_overrides.visible}": True},
    )


def get_run(context: Context, run_id: str) -> OrchestrationRun:
    """
    Return a run.

    :raises NotFoundError: if the run does not exist.
    """
    run = context.store.orchestration_runs.first(f"WHERE id = ? AND {context.run_overrides.visible}", run_id)
    if run is None:
        raise NotFoundError("orchestration run", run_id)
    return run


def request_run(context: Context, orchestration_id: str) -> OrchestrationRun:
    """
    Schedule a run.

    There is no conflict with other runs: each request creates a run, and the runs of an orchestration execute one after
    the other.

    :raises NotFoundError: if the orchestration does not exist.
    """
    with context.store.transaction():
        get(context, orchestration_id)
        due_at = later(context.clock.now(), context.scheduling_delay_of(orchestration_id))
        run = _add_run(context, orchestration_id, due_at)
    context.wake.set()
    return run


def start_scheduled(context: Context, orchestration_id: str, due_at: Timestamp) -> bool:
    """
    Create a scheduled run unless another run of the orchestration is unfinished.

    :return: True if the run was created.
    """
    with context.store.transaction():
        unfinished = context.store.orchestration_runs.first(
            "WHERE orchestration_id = ? AND finished_at IS NULL", orchestration_id
        )
        if unfinished is None:
            _add_run(context, orchestration_id, due_at)
    return unfinished is None


def create(context: Context, *, name: str, cron_schedule: str) -> Orchestration:
    """
    Create an orchestration. Names do not have to be unique.

    :raises BadRequestError: if a value is invalid.
    """
    orchestration_id = new_id()
    put(context, orchestration_id, name=name, cron_schedule=cron_schedule)
    return get(context, orchestration_id)


def update(
    context: Context, orchestration_id: str, *, name: str | None = None, cron_schedule: str | None = None
) -> Orchestration:
    """
    Update an orchestration. ``None`` keeps the current value.

    :raises NotFoundError: if the orchestration does not exist.
    :raises BadRequestError: if a value is invalid.
    """
    with context.store.transaction():
        known = get(context, orchestration_id)
        put(
            context,
            orchestration_id,
            name=known.name if name is None else name,
            cron_schedule=known.cron_schedule if cron_schedule is None else cron_schedule,
        )
        return get(context, orchestration_id)


def delete(context: Context, orchestration_id: str, *, cron_schedule: str) -> None:
    """
    Delete an orchestration with its runs, and give the attached resources their own schedule.

    The interface does not define the effect on an active run. Here, items that have started continue, and the others do
    not start. Attached views and drafts cannot have a schedule and get none.

    :param context: Service context.
    :param orchestration_id: Orchestration.
    :param cron_schedule: Cron expression for the attached resources.
    :raises BadRequestError: if the cron expression is invalid.
    :raises NotFoundError: if the orchestration does not exist.
    """
    check_cron("cron_schedule", cron_schedule)
    with context.store.transaction():
        get(context, orchestration_id)
        now, database = context.clock.now(), context.store.database
        for table in ("elt_syncs", "reverse_etl_syncs"):
            database.run(
                f"UPDATE {table} SET orchestration_workflow_id = NULL, sync_interval = ?, updated_at = ?"  # noqa: S608 - no user input
                " WHERE orchestration_workflow_id = ?",
                cron_schedule,
                now,
                orchestration_id,
            )
        is_built = f"published_version_id IS NOT NULL AND materialization = '{Materialization.TABLE}'"
        database.run(
            "UPDATE transforms SET orchestration_workflow_id = NULL, updated_at = ?,"  # noqa: S608 - no user input
            f" cron_expression = iif({is_built}, ?, NULL), rebuild_trigger = iif({is_built}, 'schedule', 'none')"
            " WHERE orchestration_workflow_id = ?",
            now,
            cron_schedule,
            orchestration_id,
        )
        database.run("DELETE FROM orchestrations WHERE id = ?", orchestration_id)
    context.wake.set()


def put(context: Context, orchestration_id: str, *, name: str, cron_schedule: str) -> None:
    """
    Create or update an orchestration.

    :raises BadRequestError: if a value is invalid.
    """
    check_id("id", orchestration_id)
    _check_name(name)
    check_cron("cron_schedule", cron_schedule)
    now = context.clock.now()
    with context.store.transaction():
        context.store.orchestrations.save(
            Orchestration(id=orchestration_id, name=name, cron_schedule=cron_schedule, created_at=now, updated_at=now)
        )


def _add_run(context: Context, orchestration_id: str, due_at: Timestamp) -> OrchestrationRun:
    run = OrchestrationRun(
        id=new_id(), orchestration_id=orchestration_id, status=OrchestrationRunStatus.NOT_STARTED, due_at=due_at
    )
    context.store.orchestration_runs.insert(run)
    return run


def _check_name(name: str) -> None:
    # The name is a single line because lists show it and sort by it.
    if not name.strip() or len(name) > LONGEST_NAME or any(unicodedata.category(sign) in _NO_TEXT for sign in name):
        raise BadRequestError(
            f"name: {name[:100]!r} is not a valid name: give one line of text, at most {LONGEST_NAME} characters."
        )
