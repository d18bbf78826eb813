"""Custom reports: queries that become streams of an ELT sync."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body


class CustomReportErrorCode(StrEnum):
    """Reason why a report was not created."""

    CONNECTION_ERROR = "connection_error"
    #: The connection must be reauthorized.
    CONNECTION_LOST_ACCESS = "connection_lost_access"
    INVALID_QUERY = "invalid_query"
    NOT_FOUND = "not_found"
    UNKNOWN = "unknown"
    UNSUPPORTED_INTEGRATION = "unsupported_integration"


class CustomReportError(Answer):
    """``CustomReportCreateErrorDto``."""

    error_code: Annotated[CustomReportErrorCode | str, OPEN_ENUM]
    message: str


class CustomReportResult(Answer):
    """``CustomReportCreateResultDto``: result of one report, which was created if ``error`` is None."""

    elt_sync_id: str
    name: str
    source_stream_name: str | None = None
    error: CustomReportError | None = None


class CustomReportResults(Answer):
    """``CreateCustomReportsResponseDto``: one result for each report, in the order of the request."""

    results: tuple[CustomReportResult, ...]


class CustomReport(Body):
    """``CustomReportCreateItemDto``: a query in the language of the sync's source, and the name of the report."""

    elt_sync_id: str
    name: str
    query: str


class CustomReportsRequest(Body):
    """``CreateCustomReportsRequestDto``."""

    reports: tuple[CustomReport, ...]
    add_as_source_stream: bool = True
