"""Transforms: SQL models, published as views or tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AliasChoices, Field, field_validator

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer, Body, Timestamp
from airflow_provider_datapipe.api.models.rules import Cron, Omissible

_MOST_IN_BULK = 50


class TransformStatus(StrEnum):
    """Publication status of a transform."""

    DRAFT = "draft"
    PUBLISHED = "published"


class Materialization(StrEnum):
    """Materialization of a transform in the warehouse."""

    VIEW = "view"
    TABLE = "table"


class MaterializationStatus(StrEnum):
    """Build status of a published table; absent for drafts and views."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class ReferenceType(StrEnum):
    """Type of the object that a reference in a SQL template refers to."""

    RAW_VIEW = "raw_view"
    MODEL_VIEW = "model_view"
    MATERIALIZED_TABLE = "materialized_table"


class Reference(Answer):
    """
    ``TransformParameterDto``, ``AvailableReferenceDto``: an object that SQL templates can reference in double braces.

    ``tag`` is the text in the braces. The interface writes it as ``{{serviceTag}}``; a live service calls the field
    ``weld_tag``.

    :param tag: text in the braces, such as ``raw.stripe.payments``; ``service_tag`` and ``serviceTag`` are accepted as
        names of the field.
    :param type: type of the referenced object.
    :param dw_item_id: name of the object in the warehouse.
    """

    tag: str = Field(
        validation_alias=AliasChoices("weld_tag", "service_tag", "serviceTag"), serialization_alias="weld_tag"
    )
    type: Annotated[ReferenceType | str, OPEN_ENUM]
    dw_item_id: str


class Transform(Answer):
    """
    ``TransformDto``: a SQL model.

    :param id: ID of the transform.
    :param name: name of the transform.
    :param folder_path: folder of the transform.
    :param status: publication status.
    :param materialization: type of the object in the warehouse.
    :param sql_template: SQL with references in double braces.
    :param parameters: objects that the SQL refers to, from which lineage is derived.
    :param documentation: description.
    :param materialization_status: status of the latest build of a table; None for drafts and views.
    :param materialization_error: reason for a failed build.
    :param orchestration_workflow_id: ID of the orchestration that the transform is attached to; None without one.
    :param cron_expression: cron expression of the transform's own schedule.
    :param rebuild_trigger: automatic rebuilds; ``none`` without any.
    :param created_at: time of the creation.
    :param updated_at: time of the last change.
    """

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
    """
    ``AvailableReferencesResponseDto``: all references that SQL templates can use.

    :param data: the references.
    """

    data: tuple[Reference, ...]


class TransformColumn(Answer):
    """
    ``TransformSchemaFieldDto``: a column of a transform.

    :param name: name of the column.
    :param type: data type in the warehouse.
    :param nullable: True if the column can be null.
    """

    name: str
    type: str
    nullable: bool


class TransformSchema(Answer):
    """
    ``TransformSchemaDto``: the columns of a transform.

    :param data: the columns.
    """

    data: tuple[TransformColumn, ...]


class TransformVersion(Answer):
    """
    ``TransformVersionDto``: a version of a transform's SQL.

    :param id: ID of the version.
    :param sql_template: SQL of the version.
    :param parameters: objects that the SQL refers to.
    :param is_published: True if this version is published.
    :param user_id: ID of the author.
    :param created_at: time of the creation.
    """

    id: str
    sql_template: str
    parameters: tuple[Reference, ...]
    is_published: bool
    user_id: str | None = None
    created_at: Timestamp


class TransformBulkResult(Answer):
    """
    ``TransformBulkResultItemDto``: result of one transform. If it failed, ``error`` is set and ``id`` is None.

    :param name: name of the transform, as requested.
    :param success: True if the transform was created.
    :param id: ID of the created transform.
    :param error: reason for a failure.
    """

    name: str
    success: bool
    id: str | None = None
    error: str | None = None


class TransformBulkResults(Answer):
    """
    ``TransformBulkCreateResponseDto``: one result for each transform.

    :param results: the results.
    """

    results: tuple[TransformBulkResult, ...]


class TransformCreateRequest(Body):
    """
    ``TransformCreateRequestDto``.

    ``cron_expression`` is for published tables. With ``wait_for_completion``, the service responds after the build, or
    after about 45 s.

    :param name: name of the transform.
    :param folder_path: folder of the transform.
    :param sql_template: SQL with references in double braces.
    :param materialization: type of the object in the warehouse.
    :param documentation: description.
    :param cron_expression: cron expression of the schedule of a published table.
    :param publish: True to publish the transform, too.
    :param wait_for_completion: True if the service responds after the build, or after about 45 s.
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
    """``TransformUpdateRequestDto``: omitted fields are unchanged; null removes ``cron_expression``."""

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

    With ``wait_for_completion``, the service responds after the build, or after about 45 s.
    """

    version_id: Omissible[str] = None
    materialization: Omissible[Materialization] = None
    folder_path: Omissible[str] = None
    name: Omissible[str] = None
    wait_for_completion: bool = False


class RematerializeRequest(Body):
    """``TransformRematerializeRequestDto``: no overrides. Support of ``wait_for_completion`` is an assumption."""

    wait_for_completion: bool = False
