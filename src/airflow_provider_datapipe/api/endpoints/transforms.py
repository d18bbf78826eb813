"""Transforms."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.transforms import PublishRequest, Transform
from airflow_provider_datapipe.api.request import Repeat


@endpoint("GET", "/transforms", answer=Page[Transform], repeat=Repeat.READ)
def list_(
    *,
    status: str | None = None,
    name: str | None = None,
    folder_path: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> Parts:
    """
    List transforms by creation date.

    :param status: only ``draft`` or only ``published`` ones.
    :param name: only those whose name has this part, in any case.
    :param folder_path: only those of this folder.
    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /transforms".
    """
    return Parts(
        query={
            "status": status,
            "name": name,
            "folder_path": folder_path,
            "limit": limit,
            "starting_after": starting_after,
        }
    )


@endpoint("GET", "/transforms/{id}", answer=Transform, repeat=Repeat.READ)
def get(transform_id: str) -> Parts:
    """
    Read one transform.

    :param transform_id: id of the transform.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "GET /transforms/{id}".
    """
    return Parts(path={"id": transform_id})


@endpoint("POST", "/transforms/{id}/publish", answer=Transform, repeat=Repeat.STARTS_A_RUN)
def publish(transform_id: str, body: PublishRequest) -> Parts:
    """
    Materialize the latest SQL as a view or table.

    A view is there when the call returns; building a table goes on after it.

    :param transform_id: id of the transform.
    :param body: what is overridden for this publish.
    :raises NotFoundError: there is no such transform.

    Source: interface.md, "POST /transforms/{id}/publish".
    """
    return Parts(path={"id": transform_id}, body=body)
