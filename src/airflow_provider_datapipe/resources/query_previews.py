"""Queries whose rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import query_previews
from airflow_provider_datapipe.api.errors import one_line
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.batch import Batch
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.models import RunTarget
from airflow_provider_datapipe.runs.results import exception_for
from airflow_provider_datapipe.runs.targets import required

KIND = "query_preview"
#: Maximum length of a query's name, which is the beginning of its SQL.
_LONGEST_NAME = 60


class QueryResult(TypedDict):
    """
    Rows of a query, as JSON.

    :ivar query_execution_id: ID of the query.
    :ivar rows: the first rows, as mappings from column name to value.
    :ivar num_rows_total: number of all rows.
    :ivar is_complete: True if ``rows`` contains all rows.
    """

    query_execution_id: str
    rows: list[dict[str, Any]]
    num_rows_total: float
    is_complete: bool


async def begin(queries: Mapping[str, str]) -> Batch:
    """
    Start queries.

    :param queries: SQL of each query, by purpose.
    :raises InvalidRequestError: if a reference is unknown.
    """
    batch = Batch(KIND)
    query_ids = {}
    for purpose, given in queries.items():
        sql = required(purpose, given)
        name = one_line(sql, longest=_LONGEST_NAME)
        target = RunTarget(name, name, {"sql_template": sql})
        # A query only reads, so the request can be repeated.
        answer = await send(KINDS[KIND].request(target).repeatable())
        state = KINDS[KIND].accepted(target, answer)
        batch.waiting.append(state.reference)
        query_ids[purpose] = state.reference.run_id
    batch.note["queries"] = query_ids
    return batch


async def read_rows(batch: Batch, max_rows: int | None) -> dict[str, QueryResult]:
    """
    Read the rows of all queries of a batch that succeeded.

    :param max_rows: the most rows of each query; None for all rows that the service returns.
    :returns: the rows by the purpose of each query.
    """
    done = {str(end.reference.run_id) for end in batch.ended if exception_for(end) is None}
    results = {}
    # Equal queries may share an ID.
    for purpose, query_id in batch.note["queries"].items():
        if query_id in done:
            result = await send(query_previews.result(query_id))
            rows = list(result.rows[:max_rows])
            results[purpose] = QueryResult(
                query_execution_id=query_id,
                rows=rows,
                num_rows_total=result.num_rows_total,
                is_complete=len(rows) >= result.num_rows_total,
            )
    return results
