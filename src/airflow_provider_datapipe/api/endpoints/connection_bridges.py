"""Connection bridges: sessions in which a user authorizes a connection."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import UNSET, ListOrPage, Page, Unset
from airflow_provider_datapipe.api.models.connection_bridges import (
    ConnectionBridge,
    ConnectionBridgeRequest,
    CreatedConnectionBridge,
)
from airflow_provider_datapipe.api.request import Repeat

_BRIDGES: type[Page[ConnectionBridge]] = ListOrPage[ConnectionBridge]


@endpoint("GET", "/connection_bridges", answer=_BRIDGES, repeat=Repeat.READ)
def list_() -> None:
    """List the active bridges."""


@endpoint(
    "POST", "/connection_bridges", answer=CreatedConnectionBridge, repeat=Repeat.CREATES, body=ConnectionBridgeRequest
)
def create(
    *,
    redirect_uri: str,
    integration_id: str,
    label: str,
    connection_id: str | Unset = UNSET,
    state: str | Unset = UNSET,
) -> None:
    """
    Create a bridge, which expires after 86,400 seconds.

    :param redirect_uri: address to which the browser is redirected: https, without port and query; on localhost, http
        and a port are also allowed.
    :param integration_id: ID of the integration.
    :param label: display name of the connection, at least 1 character.
    :param connection_id: ID of a connection to reauthorize.
    :param state: value that is passed back to the ``redirect_uri``, up to 255 characters.
    """
