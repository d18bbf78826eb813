"""Orchestrations."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.orchestrations import Orchestration, OrchestrationRun
from airflow_provider_datapipe.api.request import Repeat


@endpoint("GET", "/orchestrations", answer=Page[Orchestration], repeat=Repeat.READ)
def list_(*, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List orchestrations by name.

    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /orchestrations".
    """
    return Parts(query={"limit": limit, "starting_after": starting_after})


@endpoint("GET", "/orchestrations/{id}", answer=Orchestration, repeat=Repeat.READ)
def get(orchestration_id: str) -> Parts:
    """
    Read one orchestration.

    :param orchestration_id: id of the orchestration.
    :raises NotFoundError: there is no such orchestration.

    Source: interface.md, "GET /orchestrations/{id}".
    """
    return Parts(path={"id": orchestration_id})


@endpoint("POST", "/orchestrations/{id}/request_run", answer=OrchestrationRun, repeat=Repeat.STARTS_A_RUN)
def request_run(orchestration_id: str) -> Parts:
    """
    Ask for a run of an orchestration, now. The answer is the run; no conflict is declared.

    :param orchestration_id: id of the orchestration.
    :raises NotFoundError: there is no such orchestration.

    Source: interface.md, "POST /orchestrations/{id}/request_run".
    """
    return Parts(path={"id": orchestration_id})
