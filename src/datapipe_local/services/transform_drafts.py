"""Creation and update of transforms, one by one and in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_datapipe.api.models.transforms import Materialization, TransformStatus
from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import orchestrations, templates, transform_publication, transform_triggers, transforms
from datapipe_local.services.checks import check_id, check_text
from datapipe_local.services.version_control import refuse_if_managed
from datapipe_local.storage.ids import new_id
from datapipe_local.storage.records import Transform, TransformVersion

if TYPE_CHECKING:
    from datapipe_local.services.context import Context


class BulkResult(NamedTuple):
    """
    Result of one item of a bulk request.

    :param name: Name of the transform.
    :param transform_id: ID, if the transform was created.
    :param error: Error message, if it was not.
    """

    name: str
    transform_id: str | None = None
    error: str | None = None


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
    Create a transform as a draft or published. If publishing fails, nothing is created.

    :param context: Service context.
    :param name: Name.
    :param sql_template: SQL template.
    :param folder_path: Folder, empty for none.
    :param materialization: View or table.
    :param documentation: Description for users.
    :param cron_expression: Schedule, only for a published table.
    :param publish: Publish the transform.
    :raises BadRequestError: if a value is invalid, publishing fails, or version control manages transforms.
    """
    refuse_if_managed(context, "Creating a transform")
    _check(name=name, folder_path=folder_path, sql_template=sql_template, documentation=documentation)
    if cron_expression is not None:
        # Validate before publishing changes the warehouse.
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
            transform = transform_publication.publish(context, transform.id)
        if cron_expression is not None:
            transform = transform_triggers.schedule(context, transform.id, cron_expression)
    context.wake.set()
    return transform


def create_one(context: Context, fields: dict[str, Any]) -> BulkResult:
    """
    Create one transform of a bulk request. A refusal does not affect the others.

    :param context: Service context.
    :param fields: Arguments of :func:`create`.
    """
    name = str(fields["name"])
    try:
        return BulkResult(name, create(context, **fields).id)
    except BadRequestError as error:
        return BulkResult(name, error=error.message)


def update(context: Context, transform_id: str, changes: dict[str, Any], *, publish: bool = False) -> Transform:
    """
    Update a transform. The published version stays until the transform is published again.

    With ``publish``, republish a published transform if its SQL or materialization has changed since. All changes
    succeed or none.

    :param context: Service context.
    :param transform_id: Transform.
    :param changes: New values of ``name``, ``folder_path``, ``sql_template``, ``materialization``, ``documentation``
        and ``cron_expression``. A ``cron_expression`` of None removes the schedule. Missing keys keep their value.
    :param publish: Republish if necessary.
    :raises NotFoundError: if the transform does not exist.
    :raises BadRequestError: if a value is invalid, publishing fails, or version control manages transforms.
    """
    refuse_if_managed(context, "Changing a transform")
    with context.publishing, context.store.transaction():
        transform = transforms.get(context, transform_id)
        known = transforms.definition(transform)
        wanted = known._replace(**{field: changes[field] for field in known._fields if field in changes})
        latest = transforms.version(context, transform, transform.latest_version_id)
        sql_template = changes.get("sql_template", latest.sql_template)
        _check(
            name=wanted.name,
            folder_path=wanted.folder_path,
            sql_template=sql_template,
            documentation=changes.get("documentation"),
        )
        fields: dict[str, Any] = {"latest_version_id": _version(context, transform, sql_template)}
        if "documentation" in changes:
            fields["documentation"] = changes["documentation"]
        _update(context, transform, wanted, fields)
        transform = transforms.get(context, transform_id)
        publish = publish and _is_outdated(context, transform)
        cron_expression = changes.get("cron_expression")
        if cron_expression is not None:
            # Validate before publishing changes the warehouse.
            becomes = wanted.materialization if publish else transforms.published_as(transform)
            transform_triggers.check_schedule(wanted.name, cron_expression, becomes)
        if publish:
            transform = transform_publication.publish(context, transform_id)
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
    Create a draft, or update a transform, from a seed. This also works if version control manages transforms.

    A published version stays until the transform is published again. A deleted transform is restored as a draft.

    :raises BadRequestError: if a value is invalid.
    :raises NotFoundError: if the orchestration does not exist.
    """
    check_id("id", transform_id)
    _check(name=name, folder_path=folder_path, sql_template=sql_template, documentation=documentation)
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
            _recreate(context, known)
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


def _check(*, name: str, folder_path: str, sql_template: str, documentation: str | None) -> None:
    transform_publication.check_names(name, folder_path)
    templates.check("sql_template", sql_template)
    if documentation is not None:
        check_text("documentation", documentation)


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
    """Return the ID of the latest version, or of a new version if the SQL is different."""
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
        # The current name, folder and materialization apply until the next publication.
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


def _recreate(context: Context, transform: Transform) -> None:
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
