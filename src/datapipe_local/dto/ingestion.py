"""What is answered to who pushes data."""

from __future__ import annotations

from typing_extensions import TypedDict

from datapipe_local.dto.common import Count, dto


@dto
class AcceptedDto(TypedDict):
    """How many rows were accepted; they are kept."""

    accepted: Count
