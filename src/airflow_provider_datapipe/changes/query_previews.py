"""Running queries to look at their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import query_previews
from airflow_provider_datapipe.api.errors import one_line
from airflow_provider_datapipe.api.request import Repeat
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.reference import Target
from airflow_provider_datapipe.runs.steps import Steps, ask
from airflow_provider_datapipe.runs.targets import required
from airflow_provider_datapipe.runs.verdict import error_of

KIND = "query_preview"
#: How much of its SQL names a query.
_LONGEST_NAME = 60


class QueryResult(TypedDict):
    """
    The rows of a query, as JSON.

    :ivar query_execution_id: id of the query.
    :ivar rows: its first rows, each by the names of the columns.
    :ivar num_rows_total: how many rows there are.
    :ivar is_complete: whether ``rows`` are all of them.
    """

    query_execution_id: str
    rows: list[dict[str, Any]]
    num_rows_total: float
    is_complete: bool


def begin(queries: Mapping[str, str]) -> Steps[Batch]:
    """
    Have queries run.

    :param queries: SQL by what each is for.
    :raises InvalidRequestError: a reference is unknown.
    """
    batch = Batch(KIND)
    begun = {}
    for purpose, given in queries.items():
        sql = required(purpose, given)
        name = one_line(sql, longest=_LONGEST_NAME)
        target = Target(name, name, {"sql_template": sql})
        request = KINDS[KIND].request(target)
        # It only reads: nothing is lost if it runs twice.
        repeatable = replace(request, endpoint=replace(request.endpoint, repeat=Repeat.IDEMPOTENT))
        seen = KINDS[KIND].accepted(target, (yield from ask(repeatable)))
        batch.waiting.append(seen.reference)
        begun[purpose] = seen.reference.run_id
    batch.note["queries"] = begun
    return batch


def read_rows(batch: Batch, max_rows: int | None) -> Steps[dict[str, QueryResult]]:
    """
    Read the rows of all queries of a batch that are done.

    :param max_rows: the most rows of each; None for all that the service gives.
    :returns: the rows by what each query was for.
    """
    done = {str(end.reference.run_id) for end in batch.ended if error_of(end) is None}
    results = {}
    # Equal queries may have one id.
    for purpose, query_id in batch.note["queries"].items():
        if query_id in done:
            result = yield from ask(query_previews.result(query_id))
            rows = list(result.rows[:max_rows])
            results[purpose] = QueryResult(
                query_execution_id=query_id,
                rows=rows,
                num_rows_total=result.num_rows_total,
                is_complete=len(rows) >= result.num_rows_total,
            )
    return results
