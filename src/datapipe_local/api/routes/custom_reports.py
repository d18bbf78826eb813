"""Routes of custom reports."""

from typing import Any

from fastapi import APIRouter

from datapipe_local.api.models.custom_reports import CreateCustomReportsResponseDto, CustomReportsRequest, report_result
from datapipe_local.api.routes.common import CurrentContext
from datapipe_local.api.routes.documented import answering
from datapipe_local.services import custom_reports
from datapipe_local.services.custom_reports import Wanted

router = APIRouter(tags=["custom reports"])


@router.post("/custom_reports", **answering(CreateCustomReportsResponseDto, status=201))
def create_reports(context: CurrentContext, body: CustomReportsRequest) -> dict[str, Any]:
    """Create reports independently of each other."""
    wanted = [Wanted(report.elt_sync_id, report.name, report.query) for report in body.reports]
    results = custom_reports.create(context, wanted, add_as_source_stream=body.add_as_source_stream)
    return {"results": [report_result(result) for result in results]}
