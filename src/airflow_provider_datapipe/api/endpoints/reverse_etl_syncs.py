"""Reverse ETL syncs."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSync
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/reverse_etl_syncs", answer=Page[ReverseEtlSync], repeat=Repeat.READ)
def list_(
    *, destination_connection_id: str | None = None, limit: int | None = None, starting_after: str | None = None
) -> Parts:
    """
    List reverse ETL syncs by creation date.

    :param destination_connection_id: only those that write to this connection.
    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /reverse_etl_syncs".
    """
    return Parts(
        query={
            "destination_connection_id": destination_connection_id,
            "limit": limit,
            "starting_after": starting_after,
        }
    )


@endpoint("GET", "/reverse_etl_syncs/{id}", answer=ReverseEtlSync, repeat=Repeat.READ)
def get(sync_id: str) -> Parts:
    """
    Read one reverse ETL sync with its settings.

    :param sync_id: id of the reverse ETL sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "GET /reverse_etl_syncs/{id}".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/reverse_etl_syncs/{id}/activate", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def activate(sync_id: str) -> Parts:
    """
    Let a reverse ETL sync run on its schedule.

    :param sync_id: id of the reverse ETL sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "POST /reverse_etl_syncs/{id}/activate".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/reverse_etl_syncs/{id}/deactivate", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def deactivate(sync_id: str) -> Parts:
    """
    Take a reverse ETL sync off its schedule.

    :param sync_id: id of the reverse ETL sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "POST /reverse_etl_syncs/{id}/deactivate".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/reverse_etl_syncs/{id}/request_run", answer=RunRequested, repeat=Repeat.STARTS_A_RUN)
def request_run(sync_id: str) -> Parts:
    """
    Ask for a run of a reverse ETL sync, now.

    The answer is where the run will appear, not the run.

    :param sync_id: id of the reverse ETL sync.
    :raises InvalidRequestError: the sync is not eligible to run.
    :raises NotFoundError: there is no such sync.
    :raises ConflictError: a run is active already.

    Source: interface.md, "POST /reverse_etl_syncs/{id}/request_run".
    """
    return Parts(path={"id": sync_id})
