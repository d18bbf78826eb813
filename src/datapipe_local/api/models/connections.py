"""Schemas of connections."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from datapipe_local.api.models.common import AnyObject, Moment, dto


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
