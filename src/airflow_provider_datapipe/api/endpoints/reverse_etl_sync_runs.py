"""Runs of reverse ETL syncs."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSyncRun
from airflow_provider_datapipe.api.request import Repeat


@endpoint("GET", "/reverse_etl_sync_runs", answer=Page[ReverseEtlSyncRun], repeat=Repeat.READ)
def list_(
    reverse_etl_sync_id: str,
    *,
    sort_direction: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> None:
    """
    List the runs of a reverse ETL sync, sorted by start date.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :param sort_direction: ``asc`` or ``desc`` (service default: ``desc``).
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page, or a run ID.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("GET", "/reverse_etl_sync_runs/{id}", answer=ReverseEtlSyncRun, repeat=Repeat.READ)
def get(run_id: str) -> None:
    """
    Read one run.

    :param run_id: ID of the run, as returned by the service.
    :raises InvalidRequestError: the ID is not a valid run ID.
    :raises NotFoundError: the run does not exist.
    """
