"""Transforms, their versions and their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.common.errors import NotFoundError
from datapipe_local.services import transform_sql
from datapipe_local.storage.table import Order, Page
from datapipe_local.warehouse.warehouse import Column, Place, WarehouseError

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Transform, TransformVersion


class Definition(NamedTuple):
    """Definition of a transform's next publication, except for its SQL."""

    name: str
    folder_path: str
    materialization: Materialization


def page(
    context: Context,
    *,
    after: str | None,
    limit: int,
    status: str | None = None,
    name: str | None = None,
    folder_path: str | None = None,
) -> Page[Transform]:
    """Return a page of transforms by creation date. ``name`` filters by a case-insensitive substring."""
    return context.store.transforms.page(
        Order(),
        after=after,
        limit=limit,
        filters={
            "deleted_at IS NULL AND ?": True,
            "status = ?": status,
            "instr(lower(coalesce(next_name, name)), lower(?))": name,
            "coalesce(next_folder_path, folder_path) = ?": folder_path,
        },
    )


def get(context: Context, transform_id: str) -> Transform:
    """
    Return a transform.

    :raises NotFoundError: if the transform does not exist or was deleted.
    """
    transform = context.store.transforms.get(transform_id)
    if transform is None or transform.deleted_at is not None:
        raise NotFoundError("transform", transform_id)
    return transform


def definition(transform: Transform) -> Definition:
    """Return the current definition of a transform, including unpublished changes."""
    return Definition(
        transform.name if transform.next_name is None else transform.next_name,
        transform.folder_path if transform.next_folder_path is None else transform.next_folder_path,
        Materialization(transform.next_materialization or transform.materialization),
    )


def published_as(transform: Transform) -> Materialization | None:
    """Return the published materialization of a transform, or None for a draft."""
    return None if transform.published_version_id is None else Materialization(transform.materialization)


def version(context: Context, transform: Transform, version_id: str) -> TransformVersion:
    """
    Return a version of a transform.

    :raises NotFoundError: if the transform has no such version.
    """
    found = context.store.transform_versions.get(version_id)
    if found is None or found.transform_id != transform.id:
        raise NotFoundError(f"version of the transform {transform.id!r}", version_id)
    return found


def page_of_versions(
    context: Context, transform_id: str, *, after: str | None, limit: int
) -> tuple[Transform, Page[TransformVersion]]:
    """
    Return a transform and a page of its versions, newest first.

    :raises NotFoundError: if the transform does not exist.
    """
    transform = get(context, transform_id)
    versions = context.store.transform_versions.page(
        Order(descending=True), after=after, limit=limit, filters={"transform_id = ?": transform_id}
    )
    return transform, versions


def place_in_warehouse(transform: Transform) -> Place | None:
    """Return the location of a transform's object in the warehouse, or None."""
    if transform.object_schema is None or transform.object_name is None:
        return None
    return Place(transform.object_schema, transform.object_name)


def columns(context: Context, transform_id: str) -> list[Column]:
    """
    Return the columns of the published object, or of the SQL of a draft.

    :raises NotFoundError: if the transform does not exist.
    :raises BadRequestError: if the SQL of the draft fails, or the warehouse cannot read the published object.
    """
    transform = get(context, transform_id)
    place = place_in_warehouse(transform)
    if place is not None:
        query = f"FROM {place.sql}"
    else:
        template = version(context, transform, transform.latest_version_id).sql_template
        name, folder_path, _ = definition(transform)
        query = transform_sql.query_of(context, template, transform, name=name, folder_path=folder_path)
    try:
        return context.warehouse.columns(query)
    except WarehouseError as error:
        raise transform_sql.refusal(error) from error
