"""Connections to external systems."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import ListOrPage, Page
from airflow_provider_datapipe.api.models.connections import Connection
from airflow_provider_datapipe.api.models.settings_schema import SettingsSchema
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat

# The interface declares no schema for this list.
_CONNECTIONS: type[Page[Connection]] = ListOrPage[Connection]


@endpoint("GET", "/connections", answer=_CONNECTIONS, repeat=Repeat.READ)
def list_(*, limit: int | None = None, starting_after: str | None = None) -> None:
    """
    List the account's connections.

    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    """


@endpoint("DELETE", "/connections/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(connection_id: str) -> None:
    """
    Delete a connection.

    :param connection_id: ID of the connection.
    """


@endpoint("GET", "/connections/{id}/settings", answer=SettingsSchema, repeat=Repeat.READ)
def settings(connection_id: str) -> None:
    """
    Read the JSON Schema of the settings of an ELT sync that uses a connection.

    :param connection_id: ID of an existing connection.
    """
