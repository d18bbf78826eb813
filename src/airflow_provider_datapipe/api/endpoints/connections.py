"""Connections to external systems."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.request import Repeat


@endpoint("GET", "/connections", answer=Page[Connection], repeat=Repeat.READ)
def list_(*, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List the account's connections.

    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /connections".
    """
    return Parts(query={"limit": limit, "starting_after": starting_after})
