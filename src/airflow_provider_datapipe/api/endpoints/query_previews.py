"""Query previews: ad hoc SQL queries."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.query_previews import (
    QueryPreviewCreated,
    QueryPreviewRequest,
    QueryPreviewResult,
    QueryPreviewStatus,
)
from airflow_provider_datapipe.api.request import Repeat


@endpoint(
    "POST",
    "/transforms/query_previews",
    answer=QueryPreviewCreated,
    repeat=Repeat.STARTS_A_RUN,
    body=QueryPreviewRequest,
)
def create(*, sql_template: str) -> None:
    """
    Run a query. The response contains the ID for reading status and result.

    :param sql_template: SQL; the service resolves references in double braces, such as ``{{raw.stripe.payments}}``.
    """


@endpoint("GET", "/transforms/query_previews/{queryExecutionId}/status", answer=QueryPreviewStatus, repeat=Repeat.READ)
def status(query_execution_id: str) -> None:
    """
    Read the status of a query.

    :param query_execution_id: ID of the query, as returned by the service.
    """


@endpoint("GET", "/transforms/query_previews/{queryExecutionId}/result", answer=QueryPreviewResult, repeat=Repeat.READ)
def result(query_execution_id: str) -> None:
    """
    Read the rows of a query after its status is ``DONE``.

    :param query_execution_id: ID of the query, as returned by the service.
    """
