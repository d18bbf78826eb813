"""What requests for reverse ETL hold. Stricter than what the provider sends: nothing is turned into another type."""

from typing import Annotated, TypeVar

from pydantic import BeforeValidator, StrictBool
from pydantic.json_schema import SkipJsonSchema

from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from airflow_provider_datapipe.api.models.rules import JsonObject, refuse_null

T = TypeVar("T")

#: May be left out, and must not be null.
Omissible = Annotated[T | SkipJsonSchema[None], BeforeValidator(refuse_null)]


class MappingBody(Body):
    """``ReverseEtlSyncMappingRequestDto``."""

    source_property_id: str
    destination_property_id: str
    primary_key: Omissible[StrictBool] = None


class OperationBody(Body):
    """``ReverseEtlSyncOperationRequestDto``."""

    mode: OperationName
    mappings: list[MappingBody]


class UpdateBody(Body):
    """``UpdateReverseEtlSyncRequestDto``."""

    object_type_id: str
    operation: OperationBody
    sync_interval: Omissible[str] = None
    orchestration_workflow_id: Omissible[str] = None
    settings: Omissible[JsonObject] = None


class CreateBody(UpdateBody):
    """``CreateReverseEtlSyncRequestDto``."""

    destination_connection_id: str
    source_id: str


class SettingsBody(Body):
    """``ReverseEtlSettingsRequestDto``."""

    partial_settings: Omissible[JsonObject] = None


class RetryBody(Body):
    """``RetryReverseEtlSyncRecordErrorsRequestDto``."""

    record_ids: list[str]
