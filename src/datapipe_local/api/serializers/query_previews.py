"""Serializers of query previews."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.api.serializers import Json, present

if TYPE_CHECKING:
    from datapipe_local.storage import records


def created(record: records.QueryPreview) -> Json:
    """Return ``QueryPreviewCreateResponseDto``."""
    return {"query_execution_id": record.id, "dw_sql": record.dw_sql}


def status(record: records.QueryPreview) -> Json:
    """Return ``QueryPreviewStatusResponseDto``."""
    return present({"query_execution_id": record.id, "status": record.status, "error": record.error})


def result(record: records.QueryPreview) -> Json:
    """Return ``QueryPreviewResultResponseDto``."""
    return {"rows": record.rows, "num_rows_total": record.num_rows_total}
