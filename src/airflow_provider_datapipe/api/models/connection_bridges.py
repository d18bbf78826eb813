"""Connection bridges: short-lived sessions in which a user authorizes a connection."""

from __future__ import annotations

from pydantic import Field

from airflow_provider_datapipe.api.models.common import Answer, Body, OptionalTimestamp, Timestamp
from airflow_provider_datapipe.api.models.rules import Omissible, RedirectUri


class ConnectionBridge(Answer):
    """
    An active bridge. The interface declares no fields for listed bridges; all fields are kept.

    :param authorize_url: secret address at which the user authorizes the connection.
    :param expires_at: time at which the bridge expires.
    """

    # The URL is a secret: it allows authorizing the connection.
    authorize_url: str | None = Field(default=None, repr=False)
    expires_at: OptionalTimestamp = None


class CreatedConnectionBridge(ConnectionBridge):
    """
    Response to the creation of a bridge.

    The user authorizes the connection at ``authorize_url``. The browser is then redirected to the ``redirect_uri`` with
    ``connection_id`` and ``state`` as query parameters.

    :param authorize_url: secret address at which the user authorizes the connection.
    :param expires_at: time at which the bridge expires, 86,400 seconds after its creation.
    """

    authorize_url: str = Field(repr=False)
    expires_at: Timestamp


class ConnectionBridgeRequest(Body):
    """``ConnectionBridgeCreateDto``."""

    redirect_uri: RedirectUri
    integration_id: str
    connection_id: Omissible[str] = None
    # A secret: it ties the redirect to this request.
    state: Omissible[str] = Field(default=None, max_length=255, repr=False)
    label: str = Field(min_length=1)
