"""Rebuild triggers of transforms: an orchestration, a schedule or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import orchestrations, transforms
from datapipe_local.services.checks import check_cron

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Transform


def attach(context: Context, transform_id: str, orchestration_id: str) -> Transform:
    """
    Attach a transform to an orchestration. Its own schedule is inactive until it is detached.

    :raises NotFoundError: if the transform or the orchestration does not exist.
    :raises BadRequestError: if the transform is not published.
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
    Detach a transform from its orchestration. Idempotent.

    :param context: Service context.
    :param transform_id: Transform.
    :param cron_expression: New schedule, by default the previous one.
    :raises NotFoundError: if the transform does not exist.
    :raises BadRequestError: if the schedule is invalid, or the transform is not a published table.
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


def schedule(
    context: Context, transform_id: str, cron_expression: str | None, *, before_publication: bool = False
) -> Transform:
    """
    Set or remove the schedule of a transform.

    :param context: Service context.
    :param transform_id: Transform.
    :param cron_expression: Schedule, None for none.
    :param before_publication: Accept a schedule for a draft or a view. It takes effect when the transform is published
        as a table.
    :raises NotFoundError: if the transform does not exist.
    :raises BadRequestError: if the schedule is invalid, or the transform is not a published table.
    """
    with context.store.transaction():
        transform = transforms.get(context, transform_id)
        if cron_expression is not None and before_publication:
            check_cron("cron_expression", cron_expression)
        elif cron_expression is not None:
            check_schedule(transform.name, cron_expression, transforms.published_as(transform))
        return set_triggers(
            context,
            transform,
            cron_expression=cron_expression,
            orchestration_workflow_id=transform.orchestration_workflow_id,
        )


def check_schedule(name: str, cron_expression: str, published_as: Materialization | None) -> None:
    """
    Validate the schedule of a transform.

    :param name: Name of the transform.
    :param cron_expression: Schedule.
    :param published_as: Published materialization, None for a draft.
    :raises BadRequestError: if the schedule is invalid, or the transform is not a published table.
    """
    check_cron("cron_expression", cron_expression)
    if published_as != Materialization.TABLE:
        kind = "a draft" if published_as is None else "a view"
        raise BadRequestError(
            f"cron_expression: the transform {name!r} is {kind}, and only a published table has a schedule:"
            " publish it as a table.",
            error_code="not_a_published_table",
        )


def set_triggers(
    context: Context, transform: Transform, *, cron_expression: str | None, orchestration_workflow_id: str | None
) -> Transform:
    """
    Store the rebuild triggers of a transform.

    :param context: Service context.
    :param transform: Transform.
    :param cron_expression: Schedule.
    :param orchestration_workflow_id: Attached orchestration, which takes precedence over the schedule.
    """
    context.store.transforms.update(
        transform.id,
        cron_expression=cron_expression,
        orchestration_workflow_id=orchestration_workflow_id,
        rebuild_trigger=_trigger(cron_expression, orchestration_workflow_id),
        updated_at=context.clock.now(),
    )
    return transforms.get(context, transform.id)


def remove_schedule_of_view(context: Context, transform: Transform) -> None:
    """Remove the schedule of a transform that has become a view."""
    if transform.materialization == Materialization.VIEW and transform.cron_expression is not None:
        set_triggers(
            context, transform, cron_expression=None, orchestration_workflow_id=transform.orchestration_workflow_id
        )


def _trigger(cron_expression: str | None, orchestration_workflow_id: str | None) -> str:
    if orchestration_workflow_id is not None:
        return "orchestration"
    return "none" if cron_expression is None else "schedule"
