"""Orchestrations and their runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body, OptionalTimestamp, Timestamp
from airflow_provider_datapipe.api.models.rules import Cron, Omissible


class OrchestrationRunStatus(StrEnum):
    """Status of an orchestration run."""

    NOT_STARTED = "NOT_STARTED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class Orchestration(Answer):
    """
    ``OrchestrationDto``: a workflow with a cron schedule.

    :param id: ID of the orchestration.
    :param name: name of the orchestration.
    """

    id: str
    name: str


class OrchestrationRun(Answer):
    """
    ``OrchestrationRunDto``: one run of an orchestration.

    :param id: ID of the run.
    :param orchestration_id: ID of the orchestration.
    :param status: status of the run.
    :param due_at: scheduled start.
    :param started_at: start of the run; None before it.
    :param finished_at: end of the run; None before it.
    """

    id: str
    orchestration_id: str
    status: Annotated[OrchestrationRunStatus | str, OPEN_ENUM]
    due_at: Timestamp
    started_at: OptionalTimestamp = None
    finished_at: OptionalTimestamp = None


class OrchestrationCreateRequest(Body):
    """``OrchestrationCreateRequestDto``: a name and a schedule."""

    name: str
    cron_schedule: Cron


class OrchestrationUpdateRequest(Body):
    """``OrchestrationUpdateRequestDto``: omitted fields are unchanged."""

    name: Omissible[str] = None
    cron_schedule: Omissible[Cron] = None


class AttachRequest(Body):
    """``EltSyncAttachOrchestrationRequestDto``, ``TransformAttachOrchestrationRequestDto``."""

    orchestration_workflow_id: str
