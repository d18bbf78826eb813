"""Custom reports."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.custom_reports import CustomReportErrorCode
from datapipe_local.dto.common import dto


@dto
class CustomReportCreateErrorDto(TypedDict):
    """Why a report was not created."""

    error_code: CustomReportErrorCode
    message: str


@dto
class CustomReportCreateResultDto(TypedDict):
    """What became of a report; without an error it was created."""

    elt_sync_id: str
    name: str
    source_stream_name: NotRequired[str]
    error: NotRequired[CustomReportCreateErrorDto]


@dto
class CreateCustomReportsResponseDto(TypedDict):
    """A result for each report, in the order of the request."""

    results: list[CustomReportCreateResultDto]
