"""What requests for reverse ETL hold. Stricter than what the provider sends: nothing is turned into another type."""

from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, StrictBool

from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from airflow_provider_datapipe.api.models.rules import JsonObject

T = TypeVar("T")


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


#: May be left out, and must not be null. No union: its errors would not name the field alone.
Omissible = Annotated[T, Field(json_schema_extra=_without_default)]
#: Stands for what was left out; only what was given is read.
_LEFT_OUT: Final[Any] = None


class MappingBody(Body):
    """``ReverseEtlSyncMappingRequestDto``."""

    source_property_id: str
    destination_property_id: str
    primary_key: Omissible[StrictBool] = _LEFT_OUT


class OperationBody(Body):
    """``ReverseEtlSyncOperationRequestDto``."""

    mode: OperationName
    mappings: list[MappingBody]


class UpdateBody(Body):
    """``UpdateReverseEtlSyncRequestDto``."""

    object_type_id: str
    operation: OperationBody
    sync_interval: Omissible[str] = _LEFT_OUT
    orchestration_workflow_id: Omissible[str] = _LEFT_OUT
    settings: Omissible[JsonObject] = _LEFT_OUT


class CreateBody(UpdateBody):
    """``CreateReverseEtlSyncRequestDto``."""

    destination_connection_id: str
    source_id: str


class SettingsBody(Body):
    """``ReverseEtlSettingsRequestDto``."""

    partial_settings: Omissible[JsonObject] = _LEFT_OUT


class RetryBody(Body):
    """``RetryReverseEtlSyncRecordErrorsRequestDto``."""

    record_ids: list[str]
