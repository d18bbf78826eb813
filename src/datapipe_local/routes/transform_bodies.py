"""What the service takes for transforms: as the provider sends it, and nothing that is only like it."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool
from pydantic.json_schema import SkipJsonSchema

from airflow_provider_datapipe.api.models import query_previews, transforms
from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.rules import refuse_null
from airflow_provider_datapipe.api.models.transforms import Materialization
from datapipe_local.service.templates import LONGEST

T = TypeVar("T")

_MOST_IN_BULK = 50
_NAME = r"^(?!__)[A-Za-z_][A-Za-z0-9_]{0,62}$"


def _check_text(value: str) -> str:
    """
    See to it that a text is one: JSON can spell half a character.

    :raises ValueError: it is none.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must hold no half of a character") from None
    return value


#: A text that can be kept.
Text = Annotated[str, AfterValidator(_check_text)]
#: May be left out, and must not be null, which the document says, too.
Given = Annotated[T | SkipJsonSchema[None], BeforeValidator(refuse_null)]


def _without_null(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        if "default" in field and field["default"] is None and "anyOf" not in field:
            del field["default"]


def _documented(schema: dict[str, Any]) -> None:
    """Say what the service checks by itself, so that its message says what to do."""
    _without_null(schema)
    told = {"name": {"pattern": _NAME}, "sql_template": {"minLength": 1, "maxLength": LONGEST}}
    for name, field in schema.get("properties", {}).items():
        field.update(told.get(name, {}))


_DOCUMENTED = ConfigDict(json_schema_extra=_documented)


class TransformCreateRequest(transforms.TransformCreateRequest):
    """``TransformCreateRequestDto``. The service checks the schedule."""

    model_config = _DOCUMENTED

    name: Text
    folder_path: Given[Text] = None
    sql_template: Text
    materialization: Given[Materialization] = None
    documentation: Given[Text] = None
    cron_expression: Given[Text] = None
    publish: StrictBool = False
    wait_for_completion: StrictBool = False


class TransformUpdateRequest(transforms.TransformUpdateRequest):
    """``TransformUpdateRequestDto``: what is left out stays as it is; null takes ``cron_expression`` away."""

    model_config = _DOCUMENTED

    name: Given[Text] = None
    folder_path: Given[Text] = None
    sql_template: Given[Text] = None
    materialization: Given[Materialization] = None
    documentation: Given[Text] = None
    cron_expression: Text | None = None
    publish: StrictBool = False
    wait_for_completion: StrictBool = False


class TransformBulkItem(TransformCreateRequest):
    """One of many: what the service refuses of it is told with it, and is no fault of the request."""

    model_config = ConfigDict(json_schema_extra=_without_null)


class TransformBulkRequest(Body):
    """``TransformBulkCreateRequestDto``: 1 to 50 transforms."""

    transforms: Annotated[list[TransformBulkItem], Field(min_length=1, max_length=_MOST_IN_BULK)]


class PublishRequest(transforms.PublishRequest):
    """``TransformPublishRequestDto``."""

    model_config = _DOCUMENTED

    version_id: Given[Text] = None
    materialization: Given[Materialization] = None
    folder_path: Given[Text] = None
    name: Given[Text] = None
    wait_for_completion: StrictBool = False


class RematerializeRequest(transforms.RematerializeRequest):
    """``TransformRematerializeRequestDto``: no overrides."""

    wait_for_completion: StrictBool = False


class QueryPreviewRequest(query_previews.QueryPreviewRequest):
    """``QueryPreviewCreateRequestDto``."""

    model_config = _DOCUMENTED

    sql_template: Text
