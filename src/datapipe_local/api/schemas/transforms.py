"""Schemas of transforms."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.transforms import (
    Materialization,
    MaterializationStatus,
    ReferenceType,
    TransformStatus,
)
from datapipe_local.api.schemas.common import Moment, dto


@dto
class TransformParameterDto(TypedDict):
    """Reference that a SQL template can contain: ``TransformParameterDto``, ``AvailableReferenceDto``."""

    weld_tag: str
    type: ReferenceType
    dw_item_id: str


@dto
class TransformDto(TypedDict):
    """SQL model. The older description does not declare ``cron_expression`` and ``rebuild_trigger``."""

    id: str
    name: str
    folder_path: str
    status: TransformStatus
    materialization: Materialization
    sql_template: str
    parameters: list[TransformParameterDto]
    documentation: NotRequired[str]
    materialization_status: NotRequired[MaterializationStatus | None]
    materialization_error: NotRequired[str]
    orchestration_workflow_id: NotRequired[str]
    cron_expression: NotRequired[str | None]
    rebuild_trigger: NotRequired[Literal["none", "schedule", "orchestration"]]
    created_at: Moment
    updated_at: Moment


@dto
class TransformSchemaFieldDto(TypedDict):
    """Column of a transform."""

    name: str
    type: str
    nullable: bool


@dto
class TransformVersionDto(TypedDict):
    """Version of a transform's SQL."""

    id: str
    sql_template: str
    parameters: list[TransformParameterDto]
    is_published: bool
    user_id: NotRequired[str]
    created_at: Moment


@dto
class TransformBulkResultItemDto(TypedDict):
    """Result of one transform of a bulk request."""

    name: str
    success: bool
    id: NotRequired[str]
    error: NotRequired[str]


@dto
class TransformBulkCreateResponseDto(TypedDict):
    """One result per transform, in the order of the request."""

    results: list[TransformBulkResultItemDto]
