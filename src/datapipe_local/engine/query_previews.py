"""Query preview jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.query_previews import QueryPreviewState
from datapipe_local.common.errors import RunError
from datapipe_local.services import jobs, query_previews
from datapipe_local.warehouse import previews
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from datapipe_local.engine.stop import Stop
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Job
    from datapipe_local.warehouse.previews import Preview


class QueryPreviewer:
    """
    Executor of query previews. A preview that is interrupted by the end of the process is not repeated.

    :param context: The service.
    :param seconds: The time limit of a query, in seconds.
    """

    def __init__(self, context: Context, *, seconds: float = previews.SECONDS) -> None:
        self._context = context
        self._seconds = seconds

    def begin(self, job: Job) -> None:
        """Do nothing: previews are due at once."""

    def work(self, job: Job, stop: Stop) -> Preview:
        """
        Run the query.

        :raises RunError: the query fails.
        """
        stop.check()
        query = query_previews.get(self._context, job.subject_id).dw_sql
        try:
            return previews.preview(self._context.warehouse, query, seconds=self._seconds)
        except WarehouseError as error:
            raise RunError(str(error)) from error

    def finish(self, job: Job, result: Preview | None, error: str | None) -> None:
        """Store the rows or the error."""
        store = self._context.store
        with store.transaction():
            if not jobs.is_pending(self._context, job):
                return
            if result is not None and error is None:
                store.query_previews.update(
                    job.subject_id, status=QueryPreviewState.DONE, rows=result.rows, num_rows_total=result.total
                )
            else:
                store.query_previews.update(job.subject_id, status=QueryPreviewState.FAILED, error=error)
            jobs.end(self._context, job, failed=error is not None)
