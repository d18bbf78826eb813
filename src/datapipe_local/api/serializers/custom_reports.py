"""Serializer of custom report results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.api.serializers import Json, present

if TYPE_CHECKING:
    from datapipe_local.services.custom_reports import Result


def result(result: Result) -> Json:
    """Return ``CustomReportCreateResultDto``."""
    error = None if result.error_code is None else {"error_code": result.error_code, "message": result.message}
    return present(
        {
            "elt_sync_id": result.wanted.elt_sync_id,
            "name": result.wanted.name,
            "source_stream_name": result.source_stream_name,
            "error": error,
        }
    )
