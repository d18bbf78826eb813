"""Request body and schemas of query previews."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models import query_previews
from airflow_provider_datapipe.api.models.query_previews import QueryPreviewState
from datapipe_local.api.models.common import AnyObject, Count, dto
from datapipe_local.api.models.fields import DOCUMENTED, Text


class QueryPreviewRequest(query_previews.QueryPreviewRequest):
    """``QueryPreviewCreateRequestDto``."""

    model_config = DOCUMENTED

    sql_template: Text


@dto
class QueryPreviewCreateResponseDto(TypedDict):
    """ID of a query preview, and the SQL with resolved references."""

    query_execution_id: str
    dw_sql: str


@dto
class QueryPreviewStatusResponseDto(TypedDict):
    """Status of a query preview, with its error if it failed."""

    query_execution_id: str
    status: QueryPreviewState
    error: NotRequired[str]


@dto
class QueryPreviewResultResponseDto(TypedDict):
    """First rows of a query, and the total number of rows."""

    rows: list[AnyObject]
    num_rows_total: Count
