"""What has a transform built again: its own schedule, an orchestration, or nothing but a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.errors import BadRequestError
from datapipe_local.service import orchestrations, transforms
from datapipe_local.service.checks import check_cron

if TYPE_CHECKING:
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import Transform


def attach(context: Context, transform_id: str, orchestration_id: str) -> Transform:
    """
    Have a transform built by the runs of an orchestration. A schedule of its own rests meanwhile.

    :raises NotFoundError: there is no such transform or orchestration.
    :raises BadRequestError: the transform is not published.
    """
    with context.store.transaction():
        transform = transforms.get(context, transform_id)
        orchestrations.get(context, orchestration_id)
        if transform.published_version_id is None:
            raise BadRequestError(
                f"The transform {transform_id!r} is not published: publish it first.",
                error_code="transform_not_published",
            )
        attached = set_triggers(
            context, transform, cron_expression=transform.cron_expression, orchestration_workflow_id=orchestration_id
        )
    context.wake.set()
    return attached


def detach(context: Context, transform_id: str, *, cron_expression: str | None = None) -> Transform:
    """
    Have the runs of an orchestration no longer build a transform. One that is attached to none stays so.

    :param context: The service.
    :param transform_id: The transform.
    :param cron_expression: Its own schedule from now on; the one that it had, if it is not given.
    :raises NotFoundError: there is no such transform.
    :raises BadRequestError: the schedule is not one, or the transform, being no published table, can have none.
    """
    with context.store.transaction():
        transform = transforms.get(context, transform_id)
        if cron_expression is not None:
            check_schedule(transform.name, cron_expression, transforms.published_as(transform))
        detached = set_triggers(
            context,
            transform,
            cron_expression=transform.cron_expression if cron_expression is None else cron_expression,
            orchestration_workflow_id=None,
        )
    context.wake.set()
    return detached


def schedule(context: Context, transform_id: str, cron_expression: str | None) -> Transform:
    """
    Give a transform a schedule of its own, or take it away.

    :raises NotFoundError: there is no such transform.
    :raises BadRequestError: the schedule is not one, or the transform, being no published table, can have none.
    """
    with context.store.transaction():
        transform = transforms.get(context, transform_id)
        if cron_expression is not None:
            check_schedule(transform.name, cron_expression, transforms.published_as(transform))
        return set_triggers(
            context,
            transform,
            cron_expression=cron_expression,
            orchestration_workflow_id=transform.orchestration_workflow_id,
        )


def schedule_once_published(context: Context, transform_id: str, cron_expression: str | None) -> Transform:
    """
    Give a draft of a table a schedule, which counts as soon as it is published as one; or take it away.

    :raises NotFoundError: there is no such transform.
    :raises BadRequestError: the schedule is not one.
    """
    with context.store.transaction():
        transform = transforms.get(context, transform_id)
        if cron_expression is not None:
            check_cron("cron_expression", cron_expression)
        return set_triggers(
            context,
            transform,
            cron_expression=cron_expression,
            orchestration_workflow_id=transform.orchestration_workflow_id,
        )


def check_schedule(name: str, cron_expression: str, published_as: Materialization | None) -> None:
    """
    See to it that a transform can have a schedule.

    :param name: The transform's name.
    :param cron_expression: The schedule.
    :param published_as: What it is published as; None for a draft.
    :raises BadRequestError: the schedule is not one, or the transform is no published table.
    """
    check_cron("cron_expression", cron_expression)
    if published_as != Materialization.TABLE:
        what = "a draft" if published_as is None else "a view"
        raise BadRequestError(
            f"cron_expression: the transform {name!r} is {what}, and only a published table has a schedule:"
            " publish it as a table.",
            error_code="not_a_published_table",
        )


def set_triggers(
    context: Context, transform: Transform, *, cron_expression: str | None, orchestration_workflow_id: str | None
) -> Transform:
    """
    Note what has a transform built again.

    :param context: The service.
    :param transform: The transform.
    :param cron_expression: Its own schedule.
    :param orchestration_workflow_id: The orchestration that it is attached to, which goes before.
    """
    context.store.transforms.update(
        transform.id,
        cron_expression=cron_expression,
        orchestration_workflow_id=orchestration_workflow_id,
        rebuild_trigger=_trigger(cron_expression, orchestration_workflow_id),
        updated_at=context.clock.now(),
    )
    return transforms.get(context, transform.id)


def lose_schedule_of_view(context: Context, transform: Transform) -> None:
    """Take away the schedule of what has become a view."""
    if transform.materialization == Materialization.VIEW and transform.cron_expression is not None:
        set_triggers(
            context,
            transform,
            cron_expression=None,
            orchestration_workflow_id=transform.orchestration_workflow_id,
        )


def _trigger(cron_expression: str | None, orchestration_workflow_id: str | None) -> str:
    if orchestration_workflow_id is not None:
        return "orchestration"
    return "none" if cron_expression is None else "schedule"
