"""Request bodies, schemas and serializers of reverse ETL syncs, runs, failed records and destination catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired

from pydantic import StrictBool
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.reverse_etl_syncs import (
    OperationName,
    OperationType,
    ReverseEtlSyncRunStatus,
    SourceType,
)
from datapipe_local.api.models.common import AnyObject, Count, Json, Moment, dto, serialized
from datapipe_local.api.models.fields import OMISSIBLE, SettingsObject
from datapipe_local.services import connections

if TYPE_CHECKING:
    from datapipe_local.connectors.destinations.settings import ObjectType, Property
    from datapipe_local.services.context import Context
    from datapipe_local.storage import records


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
    settings: SettingsObject = OMISSIBLE


class ReverseEtlSyncCreateRequest(ReverseEtlSyncUpdateRequest):
    """``CreateReverseEtlSyncRequestDto``."""

    destination_connection_id: str
    source_id: str


class SettingsRequest(Body):
    """``ReverseEtlSettingsRequestDto``."""

    partial_settings: SettingsObject = OMISSIBLE


class RetryRecordsRequest(Body):
    """``RetryReverseEtlSyncRecordErrorsRequestDto``."""

    record_ids: list[str]


@dto
class ReverseEtlSyncMappingDto(TypedDict):
    """Mapping of a source column to a destination property."""

    source_property_id: str
    destination_property_id: str
    primary_key: NotRequired[bool]


@dto
class ReverseEtlSyncOperationDto(TypedDict):
    """Operation and its column mappings."""

    mode: OperationName
    mappings: list[ReverseEtlSyncMappingDto]


@dto
class ReverseEtlSyncDto(TypedDict):
    """
    Reverse ETL sync.

    ``sync_interval`` is omitted while the sync is attached to an orchestration, ``transform_id`` for other sources.
    """

    id: str
    enabled: bool
    source_type: SourceType
    source_id: str
    transform_id: NotRequired[str]
    destination_connection_id: str
    destination_integration_id: str
    object_type_id: str
    sync_interval: NotRequired[str]
    orchestration_workflow_id: NotRequired[str]
    operation: NotRequired[ReverseEtlSyncOperationDto]
    created_at: Moment
    updated_at: Moment


@dto
class ReverseEtlSyncWithSettingsDto(ReverseEtlSyncDto):
    """Reverse ETL sync with its settings."""

    settings: AnyObject


@dto
class ReverseEtlSyncRunDto(TypedDict):
    """Run of a reverse ETL sync."""

    id: str
    reverse_etl_sync_id: str
    started_at: Moment
    finished_at: NotRequired[Moment]
    status: ReverseEtlSyncRunStatus
    total_rows: NotRequired[Count]
    distinct_rows: NotRequired[Count]
    new_rows: NotRequired[Count]
    synced_rows: NotRequired[Count]
    failed_rows: NotRequired[Count]
    error: NotRequired[str]


@dto
class ReverseEtlSyncRecordErrorDto(TypedDict):
    """Record that the destination rejected, with the reason."""

    sync_id: str
    record_id: str
    error: str


@dto
class ReverseEtlSyncFailedRecordCountDto(TypedDict):
    """Number of unresolved failed records."""

    count: Count


@dto
class ReverseEtlDestinationPropertyDto(TypedDict):
    """Destination property that a column can be mapped to."""

    id: str
    property_name: str
    property_type: str
    readonly: bool
    is_required: bool
    is_primary_key: bool


@dto
class ReverseEtlAvailableOperationDto(TypedDict):
    """Operation that the destination supports."""

    type: OperationType
    mode: OperationName
    primary_key_required: bool


@dto
class ReverseEtlObjectTypeDto(TypedDict):
    """Object type of a destination."""

    id: str
    name: str
    type: str
    associations: list[str]


# The functional syntax, because ``$schema`` is not a Python identifier.
_Schema = TypedDict("_Schema", {"$schema": str})


@dto
class SyncSettingsSchemaDto(_Schema):
    """JSON Schema (draft-07) of a sync's settings."""

    title: str
    type: Literal["object"]
    properties: dict[str, Any]
    required: NotRequired[list[str]]
    dependencies: NotRequired[dict[str, list[str]]]
    additionalProperties: NotRequired[bool]  # noqa: N815 - name from JSON Schema


def reverse_etl_sync(context: Context, record: records.ReverseEtlSync, *, with_settings: bool = False) -> Json:
    """Return ``ReverseEtlSyncDto``, or ``ReverseEtlSyncWithSettingsDto`` if ``with_settings`` is set."""
    return serialized(
        ReverseEtlSyncWithSettingsDto if with_settings else ReverseEtlSyncDto,
        record,
        transform_id=record.source_id if record.source_type == SourceType.TRANSFORM else None,
        destination_integration_id=connections.get(context, record.destination_connection_id).integration_id,
        # The interface omits it while the sync is attached to an orchestration.
        sync_interval=None if record.orchestration_workflow_id else record.sync_interval,
    )


def object_type(kind: ObjectType, *, declared: bool) -> Json:
    """Return ``ReverseEtlObjectTypeDto``."""
    return {"id": kind.id, "name": kind.name or kind.id, "type": "declared" if declared else "open", "associations": []}


def operation(mode: OperationName, *, needs_key: bool) -> Json:
    """Return ``ReverseEtlAvailableOperationDto``."""
    return {"type": OperationType.PRIMARY, "mode": mode, "primary_key_required": needs_key}


def destination_property(one: Property) -> Json:
    """Return ``ReverseEtlDestinationPropertyDto``."""
    return {
        "id": one.id,
        "property_name": one.name or one.id,
        "property_type": one.type,
        "readonly": one.readonly,
        "is_required": one.required,
        "is_primary_key": one.primary_key,
    }
