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
    """``QueryPreviewCreateResponseDto``: ID of the query, and the SQL as executed."""

    query_execution_id: str
    dw_sql: str


class QueryPreviewStatus(Answer):
    """``QueryPreviewStatusResponseDto``; ``error`` is the reason for a failure."""

    status: Annotated[QueryPreviewState | str, OPEN_ENUM]
    error: str | None = None


class QueryPreviewResult(Answer):
    """``QueryPreviewResultResponseDto``: the first rows and the total number of rows."""

    rows: tuple[FreeObject, ...]
    num_rows_total: Number


class QueryPreviewRequest(Body):
    """``QueryPreviewCreateRequestDto``."""

    sql_template: str
