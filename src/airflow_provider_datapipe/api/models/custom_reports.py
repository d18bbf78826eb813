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
    """
    ``CustomReportCreateErrorDto``.

    :param error_code: reason, see :class:`CustomReportErrorCode`. After ``connection_lost_access``, a user must
        reauthorize the connection.
    :param message: text for users.
    """

    error_code: Annotated[CustomReportErrorCode | str, OPEN_ENUM]
    message: str


class CustomReportResult(Answer):
    """
    ``CustomReportCreateResultDto``: result of one report, which was created if ``error`` is None.

    :param elt_sync_id: ID of the sync.
    :param name: name of the report, as requested.
    :param source_stream_name: name of the stream of the created report; None after a failure.
    :param error: reason for the failure; None if the report was created.
    """

    elt_sync_id: str
    name: str
    source_stream_name: str | None = None
    error: CustomReportError | None = None


class CustomReportResults(Answer):
    """
    ``CreateCustomReportsResponseDto``: one result for each report, in the order of the request.

    :param results: the results.
    """

    results: tuple[CustomReportResult, ...]


class CustomReport(Body):
    """
    ``CustomReportCreateItemDto``: a query in the language of the sync's source, and the name of the report.

    :param elt_sync_id: ID of the sync that gets the report.
    :param name: name of the report; the name of its stream is derived from it.
    :param query: query in the language of the sync's source.
    """

    elt_sync_id: str
    name: str
    query: str


class CustomReportsRequest(Body):
    """``CreateCustomReportsRequestDto``."""

    reports: tuple[CustomReport, ...]
    add_as_source_stream: bool = True
