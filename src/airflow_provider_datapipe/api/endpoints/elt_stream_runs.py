"""Runs of ELT streams."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun
from airflow_provider_datapipe.api.request import Repeat


@endpoint("GET", "/elt_stream_runs", answer=Page[EltStreamRun], repeat=Repeat.READ)
def list_(
    elt_stream_id: str,
    *,
    sort_direction: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> None:
    """
    List the runs of a stream in the last three months, sorted by start date.

    :param elt_stream_id: ID of the stream.
    :param sort_direction: ``asc`` or ``desc`` (service default: ``desc``).
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page, or a run ID.
    :raises NotFoundError: the stream does not exist.
    """


@endpoint("GET", "/elt_stream_runs/{id}", answer=EltStreamRun, repeat=Repeat.READ)
def get(run_id: str) -> None:
    """
    Read one run.

    :param run_id: ID of the run, as returned by the service.
    :raises InvalidRequestError: the ID is not a valid run ID.
    :raises NotFoundError: the run does not exist.
    """
