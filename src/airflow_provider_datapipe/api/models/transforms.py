"""Transforms: SQL models, published as views or tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body, Timestamp


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
    ``TransformParameterDto``: something that a SQL template can name in double braces.

    ``tag`` is the text in the braces; the interface calls the field ``weld_tag``.
    """

    tag: str = Field(alias="weld_tag")
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


class PublishRequest(Body):
    """
    ``TransformPublishRequestDto``: overrides for this publish.

    ``wait_for_completion`` makes the call itself wait, for about 45 s at the most.
    """

    version_id: str | None = None
    materialization: Materialization | None = None
    folder_path: str | None = None
    name: str | None = None
    wait_for_completion: bool = False
