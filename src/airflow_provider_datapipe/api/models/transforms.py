"""Transforms: SQL models, published as views or tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AliasChoices, Field, field_validator

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body, Timestamp
from airflow_provider_datapipe.api.models.rules import Cron, Omissible

_MOST_IN_BULK = 50


class TransformStatus(StrEnum):
    """Whether a transform was published."""

    DRAFT = "draft"
    PUBLISHED = "published"


class Materialization(StrEnum):
    """What a transform becomes in the warehouse."""

    VIEW = "view"
    TABLE = "table"


class MaterializationStatus(StrEnum):
    """Where building a published table stands; absent for drafts and views."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class ReferenceType(StrEnum):
    """What a reference in a SQL template stands for."""

    RAW_VIEW = "raw_view"
    MODEL_VIEW = "model_view"
    MATERIALIZED_TABLE = "materialized_table"


class Reference(Answer):
    """
    ``TransformParameterDto``, ``AvailableReferenceDto``: something that a SQL template can name in double braces.

    ``tag`` is the text in the braces. The interface writes it ``{{serviceTag}}``; a live service calls the field
    ``weld_tag``.
    """

    tag: str = Field(
        validation_alias=AliasChoices("weld_tag", "service_tag", "serviceTag"), serialization_alias="weld_tag"
    )
    type: Annotated[ReferenceType | str, OPEN_ENUM]
    dw_item_id: str


class Transform(Answer):
    """``TransformDto``: a SQL model."""

    id: str
    name: str
    folder_path: str
    status: Annotated[TransformStatus | str, OPEN_ENUM]
    materialization: Annotated[Materialization | str, OPEN_ENUM]
    sql_template: str
    parameters: tuple[Reference, ...]
    documentation: str | None = None
    materialization_status: Annotated[MaterializationStatus | str | None, OPEN_ENUM] = None
    materialization_error: str | None = None
    orchestration_workflow_id: str | None = None
    cron_expression: str | None = None
    rebuild_trigger: str | None = None
    created_at: Timestamp
    updated_at: Timestamp


class AvailableReferences(Answer):
    """``AvailableReferencesResponseDto``: what SQL templates can name."""

    data: tuple[Reference, ...]


class TransformColumn(Answer):
    """``TransformSchemaFieldDto``: a column of a transform."""

    name: str
    type: str
    nullable: bool


class TransformSchema(Answer):
    """``TransformSchemaDto``: the columns of a transform."""

    data: tuple[TransformColumn, ...]


class TransformVersion(Answer):
    """``TransformVersionDto``: the SQL of a transform as it was at some time."""

    id: str
    sql_template: str
    parameters: tuple[Reference, ...]
    is_published: bool
    user_id: str | None = None
    created_at: Timestamp


class TransformBulkResult(Answer):
    """``TransformBulkResultItemDto``: what became of one transform of many; ``error`` says why there is no ``id``."""

    name: str
    success: bool
    id: str | None = None
    error: str | None = None


class TransformBulkResults(Answer):
    """``TransformBulkCreateResponseDto``: one result for each transform."""

    results: tuple[TransformBulkResult, ...]


class TransformCreateRequest(Body):
    """
    ``TransformCreateRequestDto``.

    ``cron_expression`` is for published tables. ``wait_for_completion`` makes the call itself wait, for about 45 s at
    the most.
    """

    name: str
    folder_path: Omissible[str] = None
    sql_template: str
    materialization: Omissible[Materialization] = None
    documentation: Omissible[str] = None
    cron_expression: Omissible[Cron] = None
    publish: bool = False
    wait_for_completion: bool = False


class TransformUpdateRequest(Body):
    """``TransformUpdateRequestDto``: what is left out stays as it is; null takes ``cron_expression`` away."""

    name: Omissible[str] = None
    folder_path: Omissible[str] = None
    sql_template: Omissible[str] = None
    materialization: Omissible[Materialization] = None
    documentation: Omissible[str] = None
    cron_expression: Cron | None = None
    publish: bool = False
    wait_for_completion: bool = False


class TransformBulkRequest(Body):
    """``TransformBulkCreateRequestDto``: 1 to 50 transforms."""

    transforms: tuple[TransformCreateRequest, ...]

    @field_validator("transforms")
    @classmethod
    def _are_not_too_many(cls, value: tuple[TransformCreateRequest, ...]) -> tuple[TransformCreateRequest, ...]:
        if not 1 <= len(value) <= _MOST_IN_BULK:
            raise ValueError(f"must be 1 to {_MOST_IN_BULK} transforms, not {len(value)}")
        return value


class PublishRequest(Body):
    """
    ``TransformPublishRequestDto``: overrides for this publish.

    ``wait_for_completion`` makes the call itself wait, for about 45 s at the most.
    """

    version_id: Omissible[str] = None
    materialization: Omissible[Materialization] = None
    folder_path: Omissible[str] = None
    name: Omissible[str] = None
    wait_for_completion: bool = False


class RematerializeRequest(Body):
    """``TransformRematerializeRequestDto``: no overrides. That it can wait, as publishing can, is a guess."""

    wait_for_completion: bool = False
