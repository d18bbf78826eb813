"""Orchestrations."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, Unset
from airflow_provider_datapipe.api.models.orchestrations import (
    Orchestration,
    OrchestrationCreateRequest,
    OrchestrationRun,
    OrchestrationUpdateRequest,
)
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/orchestrations", answer=Page[Orchestration], repeat=Repeat.READ)
def list_(*, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List orchestrations by name.

    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /orchestrations".
    """
    return Parts(query={"limit": limit, "starting_after": starting_after})


@endpoint("POST", "/orchestrations", answer=Orchestration, repeat=Repeat.CREATES)
def create(*, name: str, cron_schedule: str) -> Parts:
    """
    Create an orchestration.

    :param name: name of the orchestration.
    :param cron_schedule: cron expression of five fields.

    Source: interface.md, "POST /orchestrations".
    """
    return Parts(body=OrchestrationCreateRequest.of(name=name, cron_schedule=cron_schedule))


@endpoint("GET", "/orchestrations/{id}", answer=Orchestration, repeat=Repeat.READ)
def get(orchestration_id: str) -> Parts:
    """
    Read one orchestration.

    :param orchestration_id: id of the orchestration.
    :raises NotFoundError: there is no such orchestration.

    Source: interface.md, "GET /orchestrations/{id}".
    """
    return Parts(path={"id": orchestration_id})


@endpoint("POST", "/orchestrations/{id}", answer=Orchestration, repeat=Repeat.IDEMPOTENT)
def update(orchestration_id: str, *, name: str | Unset = UNSET, cron_schedule: str | Unset = UNSET) -> Parts:
    """
    Change an orchestration. What is left out stays as it is.

    :param orchestration_id: id of the orchestration.
    :param name: a new name.
    :param cron_schedule: cron expression of five fields.
    :raises NotFoundError: there is no such orchestration.

    Source: interface.md, "POST /orchestrations/{id}".
    """
    return Parts(
        path={"id": orchestration_id}, body=OrchestrationUpdateRequest.of(name=name, cron_schedule=cron_schedule)
    )


@endpoint("DELETE", "/orchestrations/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(orchestration_id: str, *, cron_schedule: str) -> Parts:
    """
    Delete an orchestration. What was attached to it runs on the schedule that is given.

    :param orchestration_id: id of the orchestration.
    :param cron_schedule: cron expression of five fields.
    :raises InvalidRequestError: the service does not take the cron expression.
    :raises NotFoundError: there is no such orchestration.

    Source: interface.md, "DELETE /orchestrations/{id}".
    """
    return Parts(path={"id": orchestration_id}, query={"cron_schedule": cron_schedule})


@endpoint("POST", "/orchestrations/{id}/request_run", answer=OrchestrationRun, repeat=Repeat.STARTS_A_RUN)
def request_run(orchestration_id: str) -> Parts:
    """
    Ask for a run of an orchestration, now. The answer is the run; no conflict is declared.

    :param orchestration_id: id of the orchestration.
    :raises NotFoundError: there is no such orchestration.

    Source: interface.md, "POST /orchestrations/{id}/request_run".
    """
    return Parts(path={"id": orchestration_id})
