"""Request bodies, schemas and serializers of transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, StrictBool
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models import transforms
from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.transforms import (
    Materialization,
    MaterializationStatus,
    ReferenceType,
    TransformStatus,
)
from datapipe_local.api.models.common import Json, Moment, dto, present, serialized
from datapipe_local.api.models.fields import DOCUMENTED, OMISSIBLE, Text
from datapipe_local.services import transforms as services

if TYPE_CHECKING:
    from datapipe_local.services.context import Context
    from datapipe_local.services.references import Catalog, Reference
    from datapipe_local.services.transform_drafts import BulkResult
    from datapipe_local.storage import records

_MOST_IN_BULK = 50
#: The only user: the owner of the API key.
_USER = "local"


class TransformCreateRequest(transforms.TransformCreateRequest):
    """``TransformCreateRequestDto``. The service validates the schedule."""

    model_config = DOCUMENTED

    name: Text
    folder_path: Text = OMISSIBLE
    sql_template: Text
    materialization: Materialization = OMISSIBLE
    documentation: Text = OMISSIBLE
    cron_expression: Text = OMISSIBLE
    publish: StrictBool = False
    wait_for_completion: StrictBool = False


class TransformUpdateRequest(transforms.TransformUpdateRequest):
    """``TransformUpdateRequestDto``: missing fields keep their value, and null removes ``cron_expression``."""

    model_config = DOCUMENTED

    name: Text = OMISSIBLE
    folder_path: Text = OMISSIBLE
    sql_template: Text = OMISSIBLE
    materialization: Materialization = OMISSIBLE
    documentation: Text = OMISSIBLE
    cron_expression: Text | None = None
    publish: StrictBool = False
    wait_for_completion: StrictBool = False


class TransformBulkItem(TransformCreateRequest):
    """Item of a bulk request. If the service refuses it, its result contains the error, and the request succeeds."""

    model_config = ConfigDict(json_schema_extra=None)


class TransformBulkRequest(Body):
    """``TransformBulkCreateRequestDto``: 1 to 50 transforms."""

    transforms: Annotated[list[TransformBulkItem], Field(min_length=1, max_length=_MOST_IN_BULK)]


class PublishRequest(transforms.PublishRequest):
    """``TransformPublishRequestDto``."""

    model_config = DOCUMENTED

    version_id: Text = OMISSIBLE
    materialization: Materialization = OMISSIBLE
    folder_path: Text = OMISSIBLE
    name: Text = OMISSIBLE
    wait_for_completion: StrictBool = False


class RematerializeRequest(transforms.RematerializeRequest):
    """``TransformRematerializeRequestDto``: no overrides."""

    wait_for_completion: StrictBool = False


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


def transform(context: Context, catalog: Catalog, record: records.Transform) -> Json:
    """Return ``TransformDto``. ``materialization_status`` of drafts and views is null, and so is a missing schedule."""
    template = services.version(context, record, record.latest_version_id).sql_template
    name, folder_path, materialization = services.definition(record)
    body = present(
        {
            "id": record.id,
            "name": name,
            "folder_path": folder_path,
            "status": record.status,
            "materialization": materialization,
            "sql_template": template,
            "parameters": [reference(entry) for entry in catalog.describe(template)],
            "documentation": record.documentation,
            "materialization_error": record.materialization_error,
            "orchestration_workflow_id": record.orchestration_workflow_id,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        }
    )
    is_table = record.materialization == Materialization.TABLE
    body["materialization_status"] = record.materialization_status if is_table else None
    if context.shows_newer_fields:
        body |= {"cron_expression": record.cron_expression, "rebuild_trigger": record.rebuild_trigger}
    return body


def version(catalog: Catalog, owner: records.Transform, record: records.TransformVersion) -> Json:
    """Return ``TransformVersionDto``."""
    return serialized(
        TransformVersionDto,
        record,
        parameters=[reference(entry) for entry in catalog.describe(record.sql_template)],
        is_published=record.id == owner.published_version_id,
        user_id=_USER,
    )


def bulk_result(result: BulkResult) -> Json:
    """Return ``TransformBulkResultItemDto``."""
    return serialized(TransformBulkResultItemDto, result, success=result.error is None, id=result.transform_id)


def reference(entry: Reference) -> Json:
    """Return ``TransformParameterDto`` or ``AvailableReferenceDto``."""
    return serialized(TransformParameterDto, entry, weld_tag=entry.tag, dw_item_id=str(entry.place))
