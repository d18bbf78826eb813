"""Routes of records that destinations rejected."""

from typing import Any

from fastapi import APIRouter, Response

from datapipe_local.api.routes.common import DEFAULT_LIMIT, NO_CONTENT, CurrentContext, Limit, NoFields, no_content
from datapipe_local.api.routes.documented import answering
from datapipe_local.api.routes.reverse_etl.bodies import RetryRecordsRequest
from datapipe_local.api.schemas.common import ListDto
from datapipe_local.api.schemas.reverse_etl import ReverseEtlSyncFailedRecordCountDto, ReverseEtlSyncRecordErrorDto
from datapipe_local.services import reverse_etl_records

router = APIRouter()


@router.get("/reverse_etl_failed_records", **answering(ListDto[ReverseEtlSyncRecordErrorDto], 404))
def list_failed_records(
    context: CurrentContext, reverse_etl_sync_id: str, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List unresolved failed records."""
    failures = reverse_etl_records.failed(context, reverse_etl_sync_id, limit=limit)
    return {
        "data": [
            {"sync_id": reverse_etl_sync_id, "record_id": record_id, "error": error} for record_id, error in failures
        ]
    }


@router.get("/reverse_etl_failed_records/count", **answering(ReverseEtlSyncFailedRecordCountDto, 404))
def count_failed_records(context: CurrentContext, reverse_etl_sync_id: str) -> dict[str, int]:
    """Count unresolved failed records."""
    return {"count": reverse_etl_records.count_failed(context, reverse_etl_sync_id)}


@router.post("/reverse_etl_failed_records/retry", **answering(None, 404, status=NO_CONTENT))
def retry(context: CurrentContext, reverse_etl_sync_id: str, body: RetryRecordsRequest) -> Response:
    """Request that the next run sends the given failed records again."""
    reverse_etl_records.retry(context, reverse_etl_sync_id, body.record_ids)
    return no_content()


@router.post("/reverse_etl_failed_records/retry_all", **answering(None, 404, status=NO_CONTENT))
def retry_all(
    context: CurrentContext,
    reverse_etl_sync_id: str,
    body: NoFields | None = None,
) -> Response:
    """Request that the next run sends all failed records again."""
    reverse_etl_records.retry(context, reverse_etl_sync_id)
    return no_content()
