"""Request bodies for reverse ETL. Stricter than the provider's models: values are not converted to another type."""

from pydantic import StrictBool

from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.api.routes.body import OMISSIBLE, AnyObject


class MappingRequest(Body):
    """``ReverseEtlSyncMappingRequestDto``."""

    source_property_id: str
    destination_property_id: str
    primary_key: StrictBool = OMISSIBLE


class OperationRequest(Body):
    """``ReverseEtlSyncOperationRequestDto``."""

    mode: OperationName
    mappings: list[MappingRequest]


class ReverseEtlSyncUpdateRequest(Body):
    """``UpdateReverseEtlSyncRequestDto``."""

    object_type_id: str
    operation: OperationRequest
    sync_interval: str = OMISSIBLE
    orchestration_workflow_id: str = OMISSIBLE
    settings: AnyObject = OMISSIBLE


class ReverseEtlSyncCreateRequest(ReverseEtlSyncUpdateRequest):
    """``CreateReverseEtlSyncRequestDto``."""

    destination_connection_id: str
    source_id: str


class SettingsRequest(Body):
    """``ReverseEtlSettingsRequestDto``."""

    partial_settings: AnyObject = OMISSIBLE


class RetryRecordsRequest(Body):
    """``RetryReverseEtlSyncRecordErrorsRequestDto``."""

    record_ids: list[str]
