"""Query previews."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.query_previews import QueryPreviewState
from datapipe_local.dto.common import AnyObject, Count, dto


@dto
class QueryPreviewCreateResponseDto(TypedDict):
    """What to ask for the result by, and the SQL as it is run."""

    query_execution_id: str
    dw_sql: str


@dto
class QueryPreviewStatusResponseDto(TypedDict):
    """Where a query preview stands, and why it failed."""

    query_execution_id: str
    status: QueryPreviewState
    error: NotRequired[str]


@dto
class QueryPreviewResultResponseDto(TypedDict):
    """The first rows, and how many there are."""

    rows: list[AnyObject]
    num_rows_total: Count
