"""Materialization jobs: builds of published transforms."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.transforms import Materialization, MaterializationStatus
from datapipe_local.common.errors import BadRequestError, NotFoundError, RunError
from datapipe_local.services import jobs, transform_publication, transforms
from datapipe_local.services.references import place_of
from datapipe_local.storage.clock import later
from datapipe_local.warehouse.statements import WarehouseStorageError
from datapipe_local.warehouse.warehouse import Unfinished, WarehouseError

if TYPE_CHECKING:
    from datapipe_local.engine.stop import Stop
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Job, Transform


class Built(NamedTuple):
    """Result of a build: the publication, and its table, if any. Views need no build."""

    publication: int
    table: Unfinished | None = None
    error: str | None = None


class Materializer:
    """
    Executor of materializations: builds tables under a temporary name and then replaces the old ones; recreates views.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def begin(self, job: Job) -> None:
        """Record that the build has started. Materializations have no run of their own."""
        with self._context.store.transaction():
            if not jobs.is_pending(self._context, job):
                return
            transform = transforms.get(self._context, job.subject_id)
            work_at = self._context.clock.now()
            if transform.materialization == Materialization.TABLE:
                work_at = later(work_at, self._context.minimum_duration_of(transform.id))
                self._context.store.transforms.update(
                    transform.id, materialization_status=MaterializationStatus.RUNNING, materialization_error=None
                )
            jobs.begin(self._context, job, None, work_at)

    def work(self, job: Job, stop: Stop) -> Built:
        """
        Build the last published version of a transform.

        An error of its SQL, or a missing table, is part of the result: the transform may have been published again in
        the meantime, and then the error does not matter.

        :raises RunError: a run override forces a failure, or the transform does not exist.
        """
        stop.check()
        with self._context.warehouse.working_on(job.seq):
            return self._work(job, stop)

    def finish(self, job: Job, result: Built | None, error: str | None) -> None:
        """Publish the built table. If the transform was published again in the meantime, keep the job."""
        with self._context.publishing:
            table = None if result is None else result.table
            if not jobs.is_pending(self._context, job):
                # The transform was deleted.
                self._discard(table)
                return
            transform = transforms.get(self._context, job.subject_id)
            if result is not None:
                error = result.error
                if result.publication != transform.publication:
                    self._discard(table)
                    return
            if table is not None:
                try:
                    self._context.warehouse.show(table, instead_of=transforms.place_in_warehouse(transform))
                except WarehouseStorageError as failure:
                    error = f"The transform {transform.name} cannot be built: {failure}, and publish it again."
                    with suppress(WarehouseStorageError):
                        self._discard(table)
            with self._context.store.transaction():
                is_table = transform.materialization == Materialization.TABLE
                status = MaterializationStatus.FAILED if error else MaterializationStatus.COMPLETED
                self._context.store.transforms.update(
                    transform.id, materialization_status=status if is_table else None, materialization_error=error
                )
                if error is None:
                    transform_publication.note_object(self._context, transform)
                jobs.end(self._context, job, failed=error is not None)

    def _work(self, job: Job, stop: Stop) -> Built:
        outcome = self._context.run_overrides.outcome(job.subject_id, job.key)
        if outcome.error is not None:
            raise RunError(outcome.error)
        try:
            transform = transforms.get(self._context, job.subject_id)
        except NotFoundError as error:
            raise RunError(str(error)) from error
        try:
            if transform.materialization == Materialization.TABLE:
                return Built(transform.publication, self._build(transform))
            with self._context.publishing:
                # Check under the lock: the transform may have been published again.
                if transforms.get(self._context, job.subject_id).publication == transform.publication:
                    transform_publication.recreate_view(self._context, transform)
                return Built(transform.publication)
        except (WarehouseError, BadRequestError, NotFoundError) as error:
            stop.check()
            return Built(transform.publication, error=f"The transform {transform.name} cannot be built: {error}")

    def _discard(self, table: Unfinished | None) -> None:
        if table is not None:
            self._context.warehouse.drop(table.built)

    def _build(self, transform: Transform) -> Unfinished:
        query = transform_publication.published_query(self._context, transform)
        place = place_of(transform.folder_path, transform.name)
        return self._context.warehouse.build(place, query, transform.publication)
