"""Schemas of orchestrations and their runs."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRunStatus
from datapipe_local.api.schemas.common import Moment, dto


@dto
class OrchestrationDto(TypedDict):
    """Orchestration. The older description does not declare ``cron_schedule``."""

    id: str
    name: str
    cron_schedule: NotRequired[str]


@dto
class OrchestrationRunDto(TypedDict):
    """Run of an orchestration."""

    id: str
    orchestration_id: str
    status: OrchestrationRunStatus
    due_at: Moment
    started_at: NotRequired[Moment]
    finished_at: NotRequired[Moment]
