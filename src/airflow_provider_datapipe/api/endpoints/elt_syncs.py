"""ELT syncs."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.elt_syncs import EltSync, EltSyncStatus
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/elt_syncs", answer=Page[EltSync], repeat=Repeat.READ)
def list_(*, connection_id: str | None = None, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List syncs by creation date.

    :param connection_id: only the syncs that read this source connection.
    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /elt_syncs".
    """
    return Parts(query={"connection_id": connection_id, "limit": limit, "starting_after": starting_after})


@endpoint("GET", "/elt_syncs/{id}", answer=EltSync, repeat=Repeat.READ)
def get(sync_id: str) -> Parts:
    """
    Read one sync.

    :param sync_id: id of the sync.
    :raises NotFoundError: there is no such sync.

    Source: interface.md, "GET /elt_syncs/{id}".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/elt_syncs/{id}/enable", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def enable(sync_id: str) -> Parts:
    """
    Let a sync run on its schedule.

    :param sync_id: id of the sync.

    Source: interface.md, "POST /elt_syncs/{id}/enable".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/elt_syncs/{id}/disable", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def disable(sync_id: str) -> Parts:
    """
    Take a sync off its schedule.

    :param sync_id: id of the sync.

    Source: interface.md, "POST /elt_syncs/{id}/disable".
    """
    return Parts(path={"id": sync_id})


@endpoint("GET", "/elt_syncs/{id}/status", answer=EltSyncStatus, repeat=Repeat.READ)
def status(sync_id: str) -> Parts:
    """
    Read the active and the latest run of every stream of a sync, by the stream's name and without run ids.

    :param sync_id: id of the sync.

    Source: interface.md, "GET /elt_syncs/{id}/status".
    """
    return Parts(path={"id": sync_id})
