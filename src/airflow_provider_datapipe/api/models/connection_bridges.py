"""Connection bridges: short-lived sessions in which somebody authorizes a connection."""

from __future__ import annotations

from pydantic import Field

from airflow_provider_datapipe.api.models.common import Answer, Body, OptionalTimestamp, Timestamp
from airflow_provider_datapipe.api.models.rules import Omissible, RedirectUri


class ConnectionBridge(Answer):
    """A bridge that is active. The interface declares no fields of those that are listed; all are kept."""

    # Whoever has the address can authorize.
    authorize_url: str | None = Field(default=None, repr=False)
    expires_at: OptionalTimestamp = None


class CreatedConnectionBridge(ConnectionBridge):
    """
    The answer to the request for a bridge.

    ``authorize_url`` is where somebody authorizes. Their browser then goes to the ``redirect_uri`` with
    ``connection_id`` and ``state`` as query parameters.
    """

    authorize_url: str = Field(repr=False)
    expires_at: Timestamp


class ConnectionBridgeRequest(Body):
    """``ConnectionBridgeCreateDto``."""

    redirect_uri: RedirectUri
    integration_id: str
    connection_id: Omissible[str] = None
    # It proves that an answer belongs to a question, so others must not know it.
    state: Omissible[str] = Field(default=None, max_length=255, repr=False)
    label: str = Field(min_length=1)
