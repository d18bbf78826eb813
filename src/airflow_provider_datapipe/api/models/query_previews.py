"""Query previews: SQL that is run to be looked at."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body, FreeObject, Number


class QueryPreviewState(StrEnum):
    """Where a query preview stands."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


class QueryPreviewCreated(Answer):
    """``QueryPreviewCreateResponseDto``: the id by which to ask for the result, and the SQL as it is run."""

    query_execution_id: str
    dw_sql: str


class QueryPreviewStatus(Answer):
    """``QueryPreviewStatusResponseDto``; ``error`` says why it failed."""

    status: Annotated[QueryPreviewState | str, OPEN_ENUM]
    error: str | None = None


class QueryPreviewResult(Answer):
    """``QueryPreviewResultResponseDto``: the first rows, and how many there are."""

    rows: tuple[FreeObject, ...]
    num_rows_total: Number


class QueryPreviewRequest(Body):
    """``QueryPreviewCreateRequestDto``."""

    sql_template: str
