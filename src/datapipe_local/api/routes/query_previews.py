"""Routes of query previews."""

from typing import Any

from fastapi import APIRouter

from datapipe_local.api.models.common import serialized
from datapipe_local.api.models.query_previews import (
    QueryPreviewCreateResponseDto,
    QueryPreviewRequest,
    QueryPreviewResultResponseDto,
    QueryPreviewStatusResponseDto,
)
from datapipe_local.api.routes.common import CurrentContext
from datapipe_local.api.routes.documented import answering
from datapipe_local.services import query_previews

router = APIRouter(prefix="/transforms/query_previews", tags=["query previews"])


@router.post("", **answering(QueryPreviewCreateResponseDto, status=201))
def create_preview(context: CurrentContext, body: QueryPreviewRequest) -> dict[str, Any]:
    """Start a query in the background."""
    preview = query_previews.create(context, body.sql_template)
    return serialized(QueryPreviewCreateResponseDto, preview, query_execution_id=preview.id)


@router.get("/{query_execution_id}/status", **answering(QueryPreviewStatusResponseDto, 404))
def get_status(context: CurrentContext, query_execution_id: str) -> dict[str, Any]:
    """Return the status of a query."""
    preview = query_previews.get(context, query_execution_id)
    return serialized(QueryPreviewStatusResponseDto, preview, query_execution_id=preview.id)


@router.get("/{query_execution_id}/result", **answering(QueryPreviewResultResponseDto, 404))
def get_result(context: CurrentContext, query_execution_id: str) -> dict[str, Any]:
    """Return the first rows of a finished query."""
    return serialized(QueryPreviewResultResponseDto, query_previews.result(context, query_execution_id))
