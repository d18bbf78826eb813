"""Transforms: drafts, publishing, what stands in the warehouse for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.transforms import (
    Materialization,
    MaterializationStatus,
    TransformStatus,
)
from datapipe_local.clock import later
from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.ids import new_id
from datapipe_local.service import jobs, orchestrations
from datapipe_local.service.checks import check_id, check_name
from datapipe_local.service.references import Catalogue, place_of, tag_of, transform_at
from datapipe_local.store.records import JobKind, Transform, TransformVersion
from datapipe_local.store.table import Order, Page
from datapipe_local.warehouse import Column, Place, WarehouseError

if TYPE_CHECKING:
    from datapipe_local.service.context import Context


def page(
    context: Context,
    *,
    after: str | None,
    limit: int,
    status: str | None = None,
    name: str | None = None,
    folder_path: str | None = None,
) -> Page[Transform]:
    """Give a part of the list, by creation date; ``name`` is a part of the name, in any case."""
    return context.store.transforms.page(
        Order(),
        after=after,
        limit=limit,
        filters={
            "status = ?": status,
            "instr(lower(name), lower(?))": name,
            "folder_path = ?": folder_path,
        },
    )


def get(context: Context, transform_id: str) -> Transform:
    """
    Give a transform.

    :raises NotFoundError: there is none with this id.
    """
    transform = context.store.transforms.get(transform_id)
    if transform is None:
        raise NotFoundError("transform", transform_id)
    return transform


def version(context: Context, transform: Transform, version_id: str) -> TransformVersion:
    """
    Give a version of a transform.

    :raises NotFoundError: it has none with this id.
    """
    found = context.store.transform_versions.get(version_id)
    if found is None or found.transform_id != transform.id:
        raise NotFoundError(f"version of the transform {transform.id!r}", version_id)
    return found


def stands_at(transform: Transform) -> Place | None:
    """Give the place of what stands in the warehouse for a transform, if anything does."""
    if transform.object_schema is None or transform.object_name is None:
        return None
    return Place(transform.object_schema, transform.object_name)


def columns(context: Context, transform_id: str) -> list[Column]:
    """
    Tell the columns: of what was published, or of the SQL of a draft.

    :raises NotFoundError: there is no such transform.
    :raises BadRequestError: the SQL of the draft fails, or the warehouse no longer has what it names.
    """
    transform = get(context, transform_id)
    place = stands_at(transform)
    try:
        if place is not None:
            return context.warehouse.columns(f"FROM {place.sql}")
        return context.warehouse.columns(_checked_query(context, transform, transform.latest_version_id))
    except WarehouseError as error:
        raise _invalid(error) from error


def publish(
    context: Context,
    transform_id: str,
    *,
    version_id: str | None = None,
    name: str | None = None,
    folder_path: str | None = None,
    materialization: Materialization | None = None,
) -> Transform:
    """
    Make a version of a transform stand in the warehouse: a view at once, a table in the background.

    The interface does not say what becomes of overrides afterwards, nor of publishing while a table is being
    built. Here overrides become the transform's own values; and the newest publication counts: a build that is
    going on for an older one is finished for nothing and never seen, then the newer one is built.

    What stood there before stays, and can be queried, until the new one is complete.

    :param context: The service.
    :param transform_id: The transform.
    :param version_id: The version; the newest if not given.
    :param name: Another name from now on.
    :param folder_path: Another folder from now on.
    :param materialization: A view or a table from now on.
    :raises NotFoundError: there is no such transform or version.
    :raises BadRequestError: a name is not allowed or taken, a reference is unknown or leads back to this
        transform, others need it under its present name, or DuckDB refuses a view's SQL.
    """
    with context.publishing:
        transform = get(context, transform_id)
        return _publish(
            context,
            transform,
            version_id=version(context, transform, version_id or transform.latest_version_id).id,
            name=transform.name if name is None else name,
            folder_path=transform.folder_path if folder_path is None else folder_path,
            materialization=materialization or Materialization(transform.materialization),
        )


def rematerialize(context: Context, transform_id: str) -> Transform:
    """
    Build what was published again, unchanged.

    :raises NotFoundError: there is no such transform.
    :raises BadRequestError: it was never published, or its view can no longer be created.
    """
    with context.publishing:
        transform = get(context, transform_id)
        if transform.published_version_id is None:
            raise BadRequestError(
                f"The transform {transform_id!r} is not published: publish it first.",
                error_code="transform_not_published",
            )
        return _publish(
            context,
            transform,
            version_id=transform.published_version_id,
            name=transform.name,
            folder_path=transform.folder_path,
            materialization=Materialization(transform.materialization),
        )


def published_query(context: Context, transform: Transform) -> str:
    """
    Give the SQL of a published transform, as of now.

    :raises BadRequestError: something that it names is gone.
    """
    return _checked_query(context, transform, str(transform.published_version_id))


def note_object(context: Context, transform: Transform) -> None:
    """Note that a transform now stands in the warehouse as it was published."""
    place = place_of(transform.folder_path, transform.name)
    context.store.transforms.update(
        transform.id,
        object_tag=tag_of(transform.folder_path, transform.name),
        object_kind=transform.materialization,
        object_schema=place.schema,
        object_name=place.name,
    )


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
    Create a draft, or change a transform. What was published stays as it is until it is published again.

    :raises BadRequestError: a value is not allowed.
    :raises NotFoundError: the orchestration does not exist.
    """
    check_id("id", transform_id)
    _check_names(name, folder_path)
    if orchestration_workflow_id is not None:
        orchestrations.get(context, orchestration_workflow_id)
    now = context.clock.now()
    known = context.store.transforms.get(transform_id)
    fields = {
        "name": name,
        "folder_path": folder_path,
        "materialization": materialization,
        "documentation": documentation,
        "orchestration_workflow_id": orchestration_workflow_id,
        "updated_at": now,
    }
    if known is not None:
        latest = version(context, known, known.latest_version_id)
        if latest.sql_template != sql_template:
            latest = TransformVersion(id=new_id(), transform_id=transform_id, sql_template=sql_template, created_at=now)
            context.store.transform_versions.insert(latest)
        if known.published_version_id is not None:
            # A published transform is renamed, and turned into the other kind, by publishing it.
            for field in ("name", "folder_path", "materialization"):
                del fields[field]
        context.store.transforms.update(transform_id, latest_version_id=latest.id, **fields)
        return
    first = TransformVersion(id=new_id(), transform_id=transform_id, sql_template=sql_template, created_at=now)
    context.store.transforms.insert(
        Transform(
            id=transform_id,
            name=name,
            folder_path=folder_path,
            status=TransformStatus.DRAFT,
            materialization=materialization,
            documentation=documentation,
            latest_version_id=first.id,
            orchestration_workflow_id=orchestration_workflow_id,
            created_at=now,
            updated_at=now,
        )
    )
    context.store.transform_versions.insert(first)


def _publish(
    context: Context,
    transform: Transform,
    *,
    version_id: str,
    name: str,
    folder_path: str,
    materialization: Materialization,
) -> Transform:
    _check_names(name, folder_path)
    place = place_of(folder_path, name)
    _refuse_if_taken(context, transform, place)
    _refuse_if_missed(context, transform, tag_of(folder_path, name))
    query = _checked_query(context, transform, version_id)
    if materialization == Materialization.VIEW:
        try:
            context.warehouse.create_view(place, query, instead_of=stands_at(transform))
        except WarehouseError as error:
            raise _invalid(error) from error
    with context.store.transaction():
        now = context.clock.now()
        context.store.transforms.update(
            transform.id,
            name=name,
            folder_path=folder_path,
            materialization=materialization,
            status=TransformStatus.PUBLISHED,
            published_version_id=version_id,
            publication=transform.publication + 1,
            materialization_status=None,
            materialization_error=None,
            updated_at=now,
        )
        published = get(context, transform.id)
        if materialization == Materialization.VIEW:
            note_object(context, published)
        else:
            context.store.transforms.update(transform.id, materialization_status=MaterializationStatus.RUNNING)
            if jobs.get(context, JobKind.MATERIALIZATION, transform.id) is None:
                due_at = later(now, context.minimum_duration_of(transform.id))
                jobs.add(context, JobKind.MATERIALIZATION, transform.id, due_at, begun=True)
        published = get(context, transform.id)
    context.wake.set()
    return published


def _checked_query(context: Context, transform: Transform, version_id: str) -> str:
    template = version(context, transform, version_id).sql_template
    catalogue = Catalogue(context)
    query = catalogue.resolve(template)
    if transform.id in catalogue.dependencies(template).transform_ids:
        raise BadRequestError(
            f"The transform {transform.name!r} would depend on itself: its SQL names"
            f" {_way_back(catalogue, transform, template)}.",
            error_code="cyclic_reference",
        )
    try:
        context.warehouse.check_query(query)
    except WarehouseError as error:
        raise _invalid(error) from error
    return query


def _way_back(catalogue: Catalogue, transform: Transform, template: str) -> str:
    for reference in catalogue.describe(template):
        if reference.owner_id == transform.id:
            return f"{{{{{reference.tag}}}}}, which is this transform"
        if transform.id in catalogue.dependencies(f"{{{{{reference.tag}}}}}").transform_ids:
            return f"{{{{{reference.tag}}}}}, which is computed from this transform"
    raise AssertionError("the cycle goes through a reference of the template")


def _check_names(name: str, folder_path: str) -> None:
    check_name("name", name)
    if folder_path:
        for part in folder_path.split("/"):
            check_name("folder_path", part)


def _refuse_if_taken(context: Context, transform: Transform, place: Place) -> None:
    owner = transform_at(context, place)
    if owner is not None and owner.id != transform.id:
        raise BadRequestError(
            f"name: {place} is the place of the transform {owner.id!r}: choose another name or folder.",
            error_code="name_taken",
        )
    stream_id = context.store.database.value(
        "SELECT s.id FROM elt_streams s JOIN elt_syncs y ON y.id = s.elt_sync_id"
        " WHERE y.destination_schema_name = ? AND s.name = ?",
        place.schema,
        place.name,
    )
    if stream_id is not None:
        raise BadRequestError(
            f"name: {place} is the table of the ELT stream {stream_id!r}: choose another name or folder.",
            error_code="name_taken",
        )


def _refuse_if_missed(context: Context, transform: Transform, tag: str) -> None:
    if transform.object_tag in (None, tag):
        return
    dependents = Catalogue(context).dependents(str(transform.object_tag), but=transform.id)
    if dependents:
        raise BadRequestError(
            f"name: {', '.join(sorted(repr(dependent.name) for dependent in dependents))} would lose"
            f" {{{{{transform.object_tag}}}}}: publish without another name or folder.",
            error_code="transform_in_use",
        )


def _invalid(error: WarehouseError) -> BadRequestError:
    return BadRequestError(f"The SQL fails: {error}", error_code="invalid_sql")
