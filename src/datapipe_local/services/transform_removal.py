"""Deletion of transforms. Callers no longer see them, but the store keeps them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from datapipe_local.services import jobs, transforms, version_control
from datapipe_local.storage.records import JobKind
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Transform

log = logging.getLogger(__name__)


def delete(context: Context, transform_id: str) -> None:
    """
    Delete a transform and its object in the warehouse, and cancel an active build.

    The interface defines no refusal if others depend on the transform. From then on, they fail with an error that names
    it: a view when it is read, a table when it is built, a reverse ETL sync when it runs.

    :raises NotFoundError: if the transform does not exist.
    :raises BadRequestError: if version control manages transforms.
    """
    version_control.refuse_if_managed(context, "Deleting a transform")
    with context.publishing:
        with context.store.transaction():
            transform = transforms.get(context, transform_id)
            now = context.clock.now()
            # Keep the record of the object until it is dropped, so that the next process can drop it after a crash.
            context.store.transforms.update(
                transform_id,
                deleted_at=now,
                updated_at=now,
                object_tag=None,
                orchestration_workflow_id=None,
                cron_expression=None,
                rebuild_trigger="none",
                materialization_status=None,
                materialization_error="The transform was deleted.",
            )
            job = jobs.cancel(context, JobKind.MATERIALIZATION, transform_id)
        if job is not None:
            context.warehouse.interrupt_job(job.seq)
        _drop(context, transform)
    context.wake.set()


def finish(context: Context) -> None:
    """Drop objects of deleted transforms that a previous process did not drop."""
    with context.publishing:
        for transform in context.store.transforms.all("WHERE deleted_at IS NOT NULL AND object_name IS NOT NULL"):
            _drop(context, transform)


def _drop(context: Context, transform: Transform) -> None:
    place = transforms.place_in_warehouse(transform)
    if place is None:
        return
    try:
        context.warehouse.drop(place)
    except WarehouseError as error:
        log.warning("%s stays until the next start: %s", place, error)
        return
    context.store.transforms.update(transform.id, object_kind=None, object_schema=None, object_name=None)
