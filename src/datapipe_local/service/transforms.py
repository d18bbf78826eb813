"""Transforms: what there is to know of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.errors import NotFoundError
from datapipe_local.service import transform_sql
from datapipe_local.store.table import Order, Page
from datapipe_local.warehouse import Column, Place, WarehouseError

if TYPE_CHECKING:
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import Transform, TransformVersion


class Definition(NamedTuple):
    """What a transform is going to be when it is published next, beside its SQL."""

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
    """Give a part of the list, by creation date; ``name`` is a part of the name, in any case."""
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
    Give a transform.

    :raises NotFoundError: there is none with this id, or none any more.
    """
    transform = context.store.transforms.get(transform_id)
    if transform is None or transform.deleted_at is not None:
        raise NotFoundError("transform", transform_id)
    return transform


def definition(transform: Transform) -> Definition:
    """Tell what a transform is called, where it is and what it is: as callers see it."""
    return Definition(
        transform.name if transform.next_name is None else transform.next_name,
        transform.folder_path if transform.next_folder_path is None else transform.next_folder_path,
        Materialization(transform.next_materialization or transform.materialization),
    )


def published_as(transform: Transform) -> Materialization | None:
    """Tell what a transform is published as; None for a draft."""
    return None if transform.published_version_id is None else Materialization(transform.materialization)


def version(context: Context, transform: Transform, version_id: str) -> TransformVersion:
    """
    Give a version of a transform.

    :raises NotFoundError: it has none with this id.
    """
    found = context.store.transform_versions.get(version_id)
    if found is None or found.transform_id != transform.id:
        raise NotFoundError(f"version of the transform {transform.id!r}", version_id)
    return found


def page_of_versions(
    context: Context, transform_id: str, *, after: str | None, limit: int
) -> tuple[Transform, Page[TransformVersion]]:
    """
    Give a transform and a part of the list of its versions, newest first.

    :raises NotFoundError: there is no such transform.
    """
    transform = get(context, transform_id)
    versions = context.store.transform_versions.page(
        Order(descending=True), after=after, limit=limit, filters={"transform_id = ?": transform_id}
    )
    return transform, versions


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
