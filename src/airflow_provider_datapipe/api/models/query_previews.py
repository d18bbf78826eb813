"""Query previews: ad hoc SQL queries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body, FreeObject, Number


class QueryPreviewState(StrEnum):
    """Status of a query preview."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


class QueryPreviewCreated(Answer):
    """
    ``QueryPreviewCreateResponseDto``: ID of the query, and the SQL as executed.

    :param query_execution_id: ID of the query, for its status and result.
    :param dw_sql: the SQL that the warehouse executes, with resolved references.
    """

    query_execution_id: str
    dw_sql: str


class QueryPreviewStatus(Answer):
    """
    ``QueryPreviewStatusResponseDto``; ``error`` is the reason for a failure.

    :param status: status of the query.
    :param error: reason for a failure.
    """

    status: Annotated[QueryPreviewState | str, OPEN_ENUM]
    error: str | None = None


class QueryPreviewResult(Answer):
    """
    ``QueryPreviewResultResponseDto``: the first rows and the total number of rows.

    :param rows: the first rows, each an object with the columns.
    :param num_rows_total: number of all rows of the result.
    """

    rows: tuple[FreeObject, ...]
    num_rows_total: Number


class QueryPreviewRequest(Body):
    """``QueryPreviewCreateRequestDto``."""

    sql_template: str
