"""Runs of orchestrations."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.request import Repeat


@endpoint("GET", "/orchestration_runs", answer=Page[OrchestrationRun], repeat=Repeat.READ)
def list_(*, orchestration_id: str | None = None, limit: int | None = None, starting_after: str | None = None) -> None:
    """
    List runs, newest due date first.

    :param orchestration_id: return only the runs of this orchestration.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    """


@endpoint("GET", "/orchestration_runs/{id}", answer=OrchestrationRun, repeat=Repeat.READ)
def get(run_id: str) -> None:
    """
    Read one run.

    :param run_id: ID of the run.
    :raises NotFoundError: the run does not exist.
    """
