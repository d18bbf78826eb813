"""Orchestrations: workflows with a cron schedule, which run syncs and transforms."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, Unset
from airflow_provider_datapipe.api.models.orchestrations import (
    Orchestration,
    OrchestrationCreateRequest,
    OrchestrationRun,
    OrchestrationUpdateRequest,
)
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/orchestrations", answer=Page[Orchestration], repeat=Repeat.READ)
def list_(*, limit: int | None = None, starting_after: str | None = None) -> None:
    """
    List orchestrations, sorted by name.

    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    """


@endpoint("POST", "/orchestrations", answer=Orchestration, repeat=Repeat.CREATES, body=OrchestrationCreateRequest)
def create(*, name: str, cron_schedule: str) -> None:
    """
    Create an orchestration.

    :param name: name of the orchestration.
    :param cron_schedule: cron expression with five fields.
    """


@endpoint("GET", "/orchestrations/{id}", answer=Orchestration, repeat=Repeat.READ)
def get(orchestration_id: str) -> None:
    """
    Read one orchestration.

    :param orchestration_id: ID of the orchestration.
    :raises NotFoundError: the orchestration does not exist.
    """


@endpoint(
    "POST", "/orchestrations/{id}", answer=Orchestration, repeat=Repeat.IDEMPOTENT, body=OrchestrationUpdateRequest
)
def update(orchestration_id: str, *, name: str | Unset = UNSET, cron_schedule: str | Unset = UNSET) -> None:
    """
    Update an orchestration. Omitted fields are unchanged.

    :param orchestration_id: ID of the orchestration.
    :param name: new name.
    :param cron_schedule: cron expression with five fields.
    :raises NotFoundError: the orchestration does not exist.
    """


@endpoint("DELETE", "/orchestrations/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(orchestration_id: str, *, cron_schedule: str) -> None:
    """
    Delete an orchestration. Attached resources then run on the given schedule.

    :param orchestration_id: ID of the orchestration.
    :param cron_schedule: cron expression with five fields.
    :raises InvalidRequestError: the service rejects the cron expression.
    :raises NotFoundError: the orchestration does not exist.
    """


@endpoint("POST", "/orchestrations/{id}/request_run", answer=OrchestrationRun, repeat=Repeat.STARTS_A_RUN)
def request_run(orchestration_id: str) -> None:
    """
    Request an immediate run of an orchestration. The response is the run. The interface documents no conflict.

    :param orchestration_id: ID of the orchestration.
    :raises NotFoundError: the orchestration does not exist.
    """
