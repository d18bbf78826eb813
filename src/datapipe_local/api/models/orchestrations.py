"""Request bodies, schemas and serializer of orchestrations and their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.orchestrations import (
    OrchestrationCreateRequest,
    OrchestrationRunStatus,
    OrchestrationUpdateRequest,
)
from datapipe_local.api.models.common import Json, Moment, dto
from datapipe_local.api.models.fields import OMISSIBLE
from datapipe_local.services.orchestrations import LONGEST_NAME

if TYPE_CHECKING:
    from datapipe_local.storage import records

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class NewOrchestration(OrchestrationCreateRequest):
    """``OrchestrationCreateRequestDto``: name and schedule. The service validates the schedule."""

    name: Name
    cron_schedule: str


class ChangedOrchestration(OrchestrationUpdateRequest):
    """``OrchestrationUpdateRequestDto``: missing fields keep their value."""

    name: Name = OMISSIBLE
    cron_schedule: str = OMISSIBLE


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


def orchestration(record: records.Orchestration, *, newer: bool) -> Json:
    """Return ``OrchestrationDto``. With ``newer`` it includes the schedule."""
    body = {"id": record.id, "name": record.name}
    return body | {"cron_schedule": record.cron_schedule} if newer else body
