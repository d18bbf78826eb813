"""Request body and schema of connection bridges."""

from __future__ import annotations

from typing import Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.common import Body
from datapipe_local.api.models.common import Moment, dto


def _no_default(schema: dict[str, Any]) -> None:
    # The model needs a default value, but the interface does not define one.
    schema.pop("default", None)


class ConnectionBridgeCreate(Body):
    """``ConnectionBridgeCreateDto``. The service validates the values."""

    redirect_uri: str
    integration_id: str
    connection_id: str = Field(default="", json_schema_extra=_no_default)
    state: str = Field(default="", max_length=255, json_schema_extra=_no_default)
    label: str = Field(min_length=1)


@dto
class ConnectionBridgeDto(TypedDict):
    """Active bridge. Anyone with its URL can authorize the connection."""

    authorize_url: str
    expires_at: Moment
    integration_id: str
    connection_id: NotRequired[str]
    label: str
