"""Request bodies for transforms: the models of the provider with strict validation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool

from airflow_provider_datapipe.api.models import query_previews, transforms
from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.api.routes.body import OMISSIBLE, Text
from datapipe_local.services.templates import LONGEST

_MOST_IN_BULK = 50
_NAME = r"^(?!__)[A-Za-z_][A-Za-z0-9_]{0,62}$"


def _documented(schema: dict[str, Any]) -> None:
    """Add constraints to the schema that the service validates on its own, to return its own error messages."""
    told = {"name": {"pattern": _NAME}, "sql_template": {"minLength": 1, "maxLength": LONGEST}}
    for name, field in schema.get("properties", {}).items():
        field.update(told.get(name, {}))


_DOCUMENTED = ConfigDict(json_schema_extra=_documented)


class TransformCreateRequest(transforms.TransformCreateRequest):
    """``TransformCreateRequestDto``. The service validates the schedule."""

    model_config = _DOCUMENTED

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

    model_config = _DOCUMENTED

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

    model_config = _DOCUMENTED

    version_id: Text = OMISSIBLE
    materialization: Materialization = OMISSIBLE
    folder_path: Text = OMISSIBLE
    name: Text = OMISSIBLE
    wait_for_completion: StrictBool = False


class RematerializeRequest(transforms.RematerializeRequest):
    """``TransformRematerializeRequestDto``: no overrides."""

    wait_for_completion: StrictBool = False


class QueryPreviewRequest(query_previews.QueryPreviewRequest):
    """``QueryPreviewCreateRequestDto``."""

    model_config = _DOCUMENTED

    sql_template: Text
