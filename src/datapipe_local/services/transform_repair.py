"""Repair of the warehouse after publications that the store did not record."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.common.errors import ServiceError
from datapipe_local.services import transform_publication, transforms
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Transform
    from datapipe_local.warehouse.warehouse import Place

log = logging.getLogger(__name__)


def repair(context: Context) -> None:
    """
    Restore the objects of the published transforms as the store describes them.

    They differ after a publication whose view was created, but not recorded: the process was killed, or another entry
    of the seed was refused. If the warehouse fails, the next start repairs it.
    """
    with context.publishing:
        published = context.store.transforms.all("WHERE published_version_id IS NOT NULL AND deleted_at IS NULL")
        try:
            comments = {_key(place): comment for place, comment in context.warehouse.view_comments()}
            _drop_unrecorded_views(context, published, comments)
            _create_views(context, published, comments)
            _rebuild_tables(context, published)
        except WarehouseError as error:
            log.warning("The views of the transforms are repaired at the next start: %s", error)


def _key(place: Place | None) -> Place | None:
    """Return a place for comparisons, which ignore case."""
    return place and place._replace(schema=place.schema.lower(), name=place.name.lower())


def _drop_unrecorded_views(context: Context, published: list[Transform], comments: Mapping[Place | None, str]) -> None:
    recorded = {
        _key(transforms.place_in_warehouse(transform))
        for transform in published
        if transform.object_kind == Materialization.VIEW
    }
    for place, comment in comments.items():
        if place is not None and place not in recorded and transform_publication.is_mark(comment):
            context.warehouse.drop(place)


def _create_views(context: Context, published: list[Transform], comments: Mapping[Place | None, str]) -> None:
    missing = [
        transform
        for transform in published
        if transform.materialization == Materialization.VIEW
        and comments.get(_key(transforms.place_in_warehouse(transform)))
        != transform_publication.mark(transform.id, transform.publication)
    ]
    while missing:
        errors = [(transform, _create_view(context, transform)) for transform in missing]
        left = [transform for transform, error in errors if error is not None]
        if len(left) == len(missing):
            for transform, error in errors:
                log.warning("The view of the transform %s cannot be restored: %s", transform.id, error)
            return
        # They may read views that exist only now.
        missing = left


def _create_view(context: Context, transform: Transform) -> Exception | None:
    try:
        transform_publication.recreate_view(context, transform)
    except (ServiceError, WarehouseError) as error:
        return error
    return None


def _rebuild_tables(context: Context, published: list[Transform]) -> None:
    for transform in published:
        place = transforms.place_in_warehouse(transform)
        is_table = Materialization.TABLE == transform.object_kind == transform.materialization
        if not is_table or place is None or context.warehouse.has(place):
            continue
        with context.store.transaction():
            transform_publication.start_build(context, transform.id, context.clock.now())
        context.wake.set()
