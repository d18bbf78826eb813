"""What transforms are to be: creating them, changing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.transforms import Materialization, TransformStatus
from datapipe_local.ids import new_id
from datapipe_local.service import orchestrations, publishing, templates, transform_triggers, transforms
from datapipe_local.service.checks import check_id
from datapipe_local.service.version_control import refuse_if_managed
from datapipe_local.store.records import Transform, TransformVersion

if TYPE_CHECKING:
    from datapipe_local.service.context import Context


def create(
    context: Context,
    *,
    name: str,
    sql_template: str,
    folder_path: str = "",
    materialization: Materialization = Materialization.VIEW,
    documentation: str | None = None,
    cron_expression: str | None = None,
    publish: bool = False,
) -> Transform:
    """
    Create a transform: as a draft, or published, or, if it cannot be published, not at all.

    :param context: The service.
    :param name: Its name.
    :param sql_template: Its SQL.
    :param folder_path: Its folder; none if empty.
    :param materialization: A view or a table.
    :param documentation: What it is, for people.
    :param cron_expression: Its schedule; for a published table.
    :param publish: Publish it.
    :raises BadRequestError: a value is not allowed, it cannot be published as it is, or version control manages
        transforms.
    """
    refuse_if_managed(context, "Creating a transform")
    _check(name=name, folder_path=folder_path, sql_template=sql_template)
    if cron_expression is not None:
        # Before anything stands in the warehouse.
        transform_triggers.check_schedule(name, cron_expression, materialization if publish else None)
    with context.publishing, context.store.transaction():
        transform = _insert(
            context,
            new_id(),
            sql_template=sql_template,
            name=name,
            folder_path=folder_path,
            materialization=materialization,
            documentation=documentation,
        )
        if publish:
            transform = publishing.publish_as(context, transform.id)
        if cron_expression is not None:
            transform = transform_triggers.schedule(context, transform.id, cron_expression)
    context.wake.set()
    return transform


def update(context: Context, transform_id: str, changes: dict[str, Any], *, publish: bool = False) -> Transform:
    """
    Change a transform. What is published stays as it is until it is published again.

    With ``publish``, it is published again if it is published and its SQL or its materialization is another than what
    is published. Either all of that is done or nothing.

    :param context: The service.
    :param transform_id: The transform.
    :param changes: ``name``, ``folder_path``, ``sql_template``, ``materialization``, ``documentation``, and
        ``cron_expression``, which may be None; what is not in it stays.
    :param publish: Publish it again if that is needed.
    :raises NotFoundError: there is no such transform.
    :raises BadRequestError: a value is not allowed, it cannot be published as it is, or version control manages
        transforms.
    """
    refuse_if_managed(context, "Changing a transform")
    with context.publishing, context.store.transaction():
        transform = transforms.get(context, transform_id)
        known = transforms.definition(transform)
        wanted = known._replace(**{field: changes[field] for field in known._fields if field in changes})
        latest = transforms.version(context, transform, transform.latest_version_id)
        sql_template = changes.get("sql_template", latest.sql_template)
        _check(name=wanted.name, folder_path=wanted.folder_path, sql_template=sql_template)
        fields: dict[str, Any] = {"latest_version_id": _version(context, transform, sql_template)}
        if "documentation" in changes:
            fields["documentation"] = changes["documentation"]
        _update(context, transform, wanted, fields)
        transform = transforms.get(context, transform_id)
        publish = publish and _is_outdated(context, transform)
        cron_expression = changes.get("cron_expression")
        if cron_expression is not None:
            # As above.
            becomes = wanted.materialization if publish else transforms.published_as(transform)
            transform_triggers.check_schedule(wanted.name, cron_expression, becomes)
        if publish:
            transform = publishing.publish_as(context, transform_id)
        if "cron_expression" in changes:
            transform = transform_triggers.schedule(context, transform_id, cron_expression)
    context.wake.set()
    return transform


def put(
    context: Context,
    transform_id: str,
    *,
    name: str,
    folder_path: str,
    sql_template: str,
    materialization: Materialization,
    documentation: str | None,
    orchestration_workflow_id: str | None,
) -> None:
    """
    Create a draft, or change a transform, as a seed says; also where version control manages transforms.

    What was published stays as it is until it is published again. A transform that was deleted comes back as a draft.

    :raises BadRequestError: a value is not allowed.
    :raises NotFoundError: the orchestration does not exist.
    """
    check_id("id", transform_id)
    _check(name=name, folder_path=folder_path, sql_template=sql_template)
    if orchestration_workflow_id is not None:
        orchestrations.get(context, orchestration_workflow_id)
    known = context.store.transforms.get(transform_id)
    if known is None:
        transform = _insert(
            context,
            transform_id,
            sql_template=sql_template,
            name=name,
            folder_path=folder_path,
            materialization=materialization,
            documentation=documentation,
        )
    else:
        if known.deleted_at is not None:
            _revive(context, known)
        transform = transforms.get(context, transform_id)
        fields = {"latest_version_id": _version(context, transform, sql_template), "documentation": documentation}
        _update(context, transform, transforms.Definition(name, folder_path, materialization), fields)
        transform = transforms.get(context, transform_id)
    transform_triggers.set_triggers(
        context,
        transform,
        cron_expression=transform.cron_expression,
        orchestration_workflow_id=orchestration_workflow_id,
    )


def _check(*, name: str, folder_path: str, sql_template: str) -> None:
    publishing.check_names(name, folder_path)
    templates.check("sql_template", sql_template)


def _insert(context: Context, transform_id: str, *, sql_template: str, **fields: Any) -> Transform:
    now = context.clock.now()
    first = TransformVersion(id=new_id(), transform_id=transform_id, sql_template=sql_template, created_at=now)
    transform = Transform(
        id=transform_id,
        status=TransformStatus.DRAFT,
        latest_version_id=first.id,
        created_at=now,
        updated_at=now,
        **fields,
    )
    context.store.transforms.insert(transform)
    context.store.transform_versions.insert(first)
    return transform


def _version(context: Context, transform: Transform, sql_template: str) -> str:
    """Give the version with that SQL: the newest, or, if it has another, a new one."""
    latest = transforms.version(context, transform, transform.latest_version_id)
    if latest.sql_template != sql_template:
        latest = TransformVersion(
            id=new_id(), transform_id=transform.id, sql_template=sql_template, created_at=context.clock.now()
        )
        context.store.transform_versions.insert(latest)
    return latest.id


def _update(context: Context, transform: Transform, wanted: transforms.Definition, fields: dict[str, Any]) -> None:
    if transform.published_version_id is None:
        fields |= wanted._asdict()
    else:
        # What is published is called and is as it was published.
        for field, value in wanted._asdict().items():
            fields[f"next_{field}"] = None if value == getattr(transform, field) else value
    context.store.transforms.update(transform.id, **fields, updated_at=context.clock.now())


def _is_outdated(context: Context, transform: Transform) -> bool:
    if transform.published_version_id is None:
        return False
    if transform.next_materialization is not None:
        return True
    published, latest = (
        transforms.version(context, transform, version_id).sql_template
        for version_id in (transform.published_version_id, transform.latest_version_id)
    )
    return published != latest


def _revive(context: Context, transform: Transform) -> None:
    context.store.transforms.update(
        transform.id,
        deleted_at=None,
        status=TransformStatus.DRAFT,
        published_version_id=None,
        materialization_status=None,
        materialization_error=None,
        next_name=None,
        next_folder_path=None,
        next_materialization=None,
    )
