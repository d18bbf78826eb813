"""Schemas of connections, integrations and connection bridges."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from datapipe_local.api.schemas.common import AnyObject, Moment, dto


@dto
class SettingsSchemaDto(TypedDict):
    """JSON Schema object, draft-07."""

    schema_uri: Annotated[str, Field(alias="$schema")]
    title: str
    type: str
    properties: AnyObject
    required: NotRequired[list[str]]
    dependencies: NotRequired[dict[str, list[str]]]


@dto
class ConnectionDto(TypedDict):
    """Connection, without its settings."""

    id: str
    integration_id: str
    label: str
    created_at: Moment


@dto
class ConnectionBridgeDto(TypedDict):
    """Active bridge. Anyone with its URL can authorize the connection."""

    authorize_url: str
    expires_at: Moment
    integration_id: str
    connection_id: NotRequired[str]
    label: str


@dto
class IntegrationDto(TypedDict):
    """Kind of system that a connection leads to."""

    id: str
    name: str
    supports_start_date: bool
    abilities: list[IntegrationAbility]
