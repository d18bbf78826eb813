"""Query previews: SQL that is run to be looked at."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.query_previews import (
    QueryPreviewCreated,
    QueryPreviewRequest,
    QueryPreviewResult,
    QueryPreviewStatus,
)
from airflow_provider_datapipe.api.request import Repeat


@endpoint("POST", "/transforms/query_previews", answer=QueryPreviewCreated, repeat=Repeat.STARTS_A_RUN)
def create(*, sql_template: str) -> Parts:
    """
    Run a query, to look at its result. The answer has the id by which to ask for it.

    :param sql_template: SQL; references in double braces, such as ``{{raw.stripe.payments}}``, are resolved.

    Source: interface.md, "POST /transforms/query_previews".
    """
    return Parts(body=QueryPreviewRequest.of(sql_template=sql_template))


@endpoint(
    "GET",
    "/transforms/query_previews/{queryExecutionId}/status",
    answer=QueryPreviewStatus,
    repeat=Repeat.READ,
)
def status(query_execution_id: str) -> Parts:
    """
    Read where a query stands.

    :param query_execution_id: id of the query, as the service gave it.

    Source: interface.md, "GET /transforms/query_previews/{queryExecutionId}/status".
    """
    return Parts(path={"queryExecutionId": query_execution_id})


@endpoint(
    "GET",
    "/transforms/query_previews/{queryExecutionId}/result",
    answer=QueryPreviewResult,
    repeat=Repeat.READ,
)
def result(query_execution_id: str) -> Parts:
    """
    Read the rows of a query, once its status is ``DONE``.

    :param query_execution_id: id of the query, as the service gave it.

    Source: interface.md, "GET /transforms/query_previews/{queryExecutionId}/result".
    """
    return Parts(path={"queryExecutionId": query_execution_id})
