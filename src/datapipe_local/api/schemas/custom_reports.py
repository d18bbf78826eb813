"""Schemas of custom reports."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.custom_reports import CustomReportErrorCode
from datapipe_local.api.schemas.common import dto


@dto
class CustomReportCreateErrorDto(TypedDict):
    """Reason why a report was not created."""

    error_code: CustomReportErrorCode
    message: str


@dto
class CustomReportCreateResultDto(TypedDict):
    """Result of a report. It was created if there is no error."""

    elt_sync_id: str
    name: str
    source_stream_name: NotRequired[str]
    error: NotRequired[CustomReportCreateErrorDto]


@dto
class CreateCustomReportsResponseDto(TypedDict):
    """One result per report, in the order of the request."""

    results: list[CustomReportCreateResultDto]
