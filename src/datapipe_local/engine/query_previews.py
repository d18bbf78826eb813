"""Running the queries that are tried out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.query_previews import QueryPreviewState
from datapipe_local import samples
from datapipe_local.engine.values import json_value
from datapipe_local.errors import RunError
from datapipe_local.service import jobs, query_previews
from datapipe_local.warehouse import WarehouseError

if TYPE_CHECKING:
    from datapipe_local.engine.stop import Stop
    from datapipe_local.samples import Sample
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import Job, Json

_MOST_ROWS = 1_000
_MOST_CHARACTERS = 5_000_000
_SECONDS = 30.0


class Preview(NamedTuple):
    """The first rows, and how many there are."""

    rows: list[Json]
    num_rows_total: int


class QueryPreviewer:
    """
    Runs queries to show their first rows. One that is cut off by the end of the process is not run again.

    :param context: The service.
    :param seconds: How long a query may take.
    """

    def __init__(self, context: Context, *, seconds: float = _SECONDS) -> None:
        self._context = context
        self._seconds = seconds

    def begin(self, job: Job) -> None:
        """Do nothing: it is due from the beginning."""

    def work(self, job: Job, stop: Stop) -> Preview:
        """
        Run the query.

        :raises RunError: it fails.
        """
        stop.check()
        query = query_previews.get(self._context, job.subject_id).dw_sql
        try:
            with samples.opened(self._context.warehouse, query, seconds=self._seconds) as sample:
                # One more tells whether there are more.
                rows, were_all = _shown(sample, _MOST_ROWS + 1)
                total = len(rows) if were_all and len(rows) <= _MOST_ROWS else sample.count()
        except WarehouseError as error:
            raise RunError(str(error)) from error
        except (ValueError, OverflowError, RecursionError) as error:
            raise RunError(f"A value cannot be shown: {error}. Cast it to text.") from error
        return Preview(rows[:_MOST_ROWS], total)

    def finish(self, job: Job, result: Preview | None, error: str | None) -> None:
        """Note the rows, or why there are none."""
        store = self._context.store
        with store.transaction():
            if not jobs.is_owed(self._context, job):
                return
            if result is not None and error is None:
                store.query_previews.update(
                    job.subject_id,
                    status=QueryPreviewState.DONE,
                    rows=result.rows,
                    num_rows_total=result.num_rows_total,
                )
            else:
                store.query_previews.update(job.subject_id, status=QueryPreviewState.FAILED, error=error)
            jobs.end(self._context, job, failed=error is not None)


def _shown(sample: Sample, most: int) -> tuple[list[Json], bool]:
    """Give the first rows as JSON carries them, as many as are not too large together; and whether these are all."""
    rows: list[Json] = []
    characters = 0
    for row in sample.rows(most):
        shown = {name: json_value(value) for name, value in zip(sample.columns, row, strict=True)}
        characters += len(json.dumps(shown))
        if characters > _MOST_CHARACTERS:
            return rows, False
        rows.append(shown)
    return rows, True
