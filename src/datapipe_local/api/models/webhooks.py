"""Response to webhook requests."""

from __future__ import annotations

from typing_extensions import TypedDict

from datapipe_local.api.models.common import Count, dto


@dto
class AcceptedDto(TypedDict):
    """Number of rows that were accepted and stored."""

    accepted: Count
