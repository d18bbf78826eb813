"""Request body, schemas and serializer of custom reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired

from pydantic import StrictBool
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models import custom_reports
from airflow_provider_datapipe.api.models.custom_reports import CustomReportErrorCode
from datapipe_local.api.models.common import Json, dto, serialized

if TYPE_CHECKING:
    from datapipe_local.services.custom_reports import Result


class CustomReportsRequest(custom_reports.CustomReportsRequest):
    """``CreateCustomReportsRequestDto``."""

    add_as_source_stream: StrictBool = True


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


def report_result(result: Result) -> Json:
    """Return ``CustomReportCreateResultDto``."""
    error = None if result.error_code is None else {"error_code": result.error_code, "message": result.message}
    wanted = result.wanted
    return serialized(
        CustomReportCreateResultDto, result, elt_sync_id=wanted.elt_sync_id, name=wanted.name, error=error
    )
