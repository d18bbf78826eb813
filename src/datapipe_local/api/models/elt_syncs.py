"""Request bodies, schemas and serializers of ELT syncs and the state of their streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired

from pydantic import StrictBool
from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models import elt_syncs
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import EltSyncState, FullSyncTrigger, OperationMode, SnapshotStatus
from airflow_provider_datapipe.api.models.rules import Day
from datapipe_local.api.models.common import AnyObject, Count, Json, Moment, dto, present, serialized
from datapipe_local.api.models.elt_streams import EltStreamDto, elt_stream
from datapipe_local.api.models.fields import OMISSIBLE, SettingsObject
from datapipe_local.services import connections
from datapipe_local.services import elt_syncs as services
from datapipe_local.services.connections import WAREHOUSE_CONNECTION_ID, WAREHOUSE_INTEGRATION_ID

if TYPE_CHECKING:
    from datapipe_local.services.available_streams import Available
    from datapipe_local.services.context import Context
    from datapipe_local.services.elt_syncs import StreamState
    from datapipe_local.storage import records

#: The local service has a single account.
_ACCOUNT_ID = "local"


class EltSyncCreateRequest(elt_syncs.EltSyncCreateRequest):
    """``EltSyncCreateRequestDto``."""

    elt_settings: SettingsObject = OMISSIBLE
    sync_interval: str
    start_date: Day = OMISSIBLE


class EltSyncUpdateRequest(elt_syncs.EltSyncUpdateRequest):
    """``EltSyncUpdateRequestDto``: missing fields keep their value."""

    elt_settings: SettingsObject = OMISSIBLE
    sync_interval: str = OMISSIBLE


class SourceStream(elt_syncs.SourceStream):
    """``SourceStreamDto``: a stream to add, or to update if the sync has one with its name."""

    incremental_pointer_id: str = OMISSIBLE
    excluded_columns: tuple[str, ...] = OMISSIBLE
    hashed_columns: tuple[str, ...] = OMISSIBLE
    full_sync_always: StrictBool = OMISSIBLE
    full_sync_at_midnight: StrictBool = OMISSIBLE
    protected_from_full_sync: StrictBool = OMISSIBLE
    excluded_substreams: tuple[str, ...] = OMISSIBLE
    enabled_history_table: StrictBool = False


class SourceStreamsRequest(elt_syncs.SourceStreamsRequest):
    """``EltSyncAddSourceStreamsRequestDto``."""

    source_streams: tuple[SourceStream, ...] = OMISSIBLE


@dto
class EltSyncDto(TypedDict):
    """Sync. ``sync_interval`` is omitted while the sync is attached to an orchestration."""

    account_id: str
    config: NotRequired[AnyObject]
    created_at: Moment
    destination_connection_id: str
    destination_integration_id: str
    destination_schema_name: NotRequired[str]
    enabled: bool
    id: str
    orchestration_workflow_id: NotRequired[str]
    source_connection_id: str
    source_integration_id: str
    source_streams: NotRequired[list[EltStreamDto]]
    start_date: NotRequired[Moment]
    status: EltSyncState
    sync_interval: NotRequired[str]
    updated_at: Moment


@dto
class SourceStreamSnapshotDto(TypedDict):
    """Progress of a stream run."""

    bytes_synced: Count
    error_message: NotRequired[str]
    estimated_total_count: NotRequired[Count]
    finished_at: NotRequired[Moment]
    full_sync_trigger: NotRequired[FullSyncTrigger]
    operation_mode: NotRequired[OperationMode]
    records_synced: NotRequired[Count]
    retry_attempt: NotRequired[Count]
    started_at: NotRequired[Moment]
    status: NotRequired[SnapshotStatus]
    details: NotRequired[str]


@dto
class SourceStreamSnapshotStatesDto(TypedDict):
    """Active and latest run of a stream."""

    name: str
    active_sync: NotRequired[SourceStreamSnapshotDto]
    latest_sync: NotRequired[SourceStreamSnapshotDto]


@dto
class EltSyncStatusDto(TypedDict):
    """Run states of a sync's streams."""

    elt_sync_id: str
    source_streams: list[SourceStreamSnapshotStatesDto]


@dto
class RetirementDetails(TypedDict):
    """Reason why a stream is retired."""

    in_favor_of: NotRequired[str]
    removal_date: NotRequired[str]
    details: NotRequired[str]
    link: NotRequired[str]


@dto
class AvailableStreamDto(TypedDict):
    """Stream that a sync has or can add."""

    name: str
    is_selectable: NotRequired[bool]
    preselect: NotRequired[bool]
    sub_streams: NotRequired[list[str]]
    retired: bool
    retirement_details: NotRequired[RetirementDetails]


@dto
class EltSyncAddSourceStreamsResponseDto(TypedDict):
    """Added streams."""

    source_streams: list[EltStreamDto]


def elt_sync(context: Context, record: records.EltSync, *, with_streams: bool = False) -> Json:
    """Return ``EltSyncDto``."""
    streams: list[Json] | None = None
    if with_streams:
        newer = context.shows_newer_fields
        streams = [elt_stream(each, newer=newer) for each in services.streams(context, record.id)]
    return serialized(
        EltSyncDto,
        record,
        account_id=_ACCOUNT_ID,
        source_connection_id=record.connection_id,
        source_integration_id=connections.get(context, record.connection_id).integration_id,
        destination_connection_id=WAREHOUSE_CONNECTION_ID,
        destination_integration_id=WAREHOUSE_INTEGRATION_ID,
        status=services.state(context, record),
        # The interface omits it while the sync is attached to an orchestration.
        sync_interval=None if record.orchestration_workflow_id else record.sync_interval,
        config=record.settings or None,
        source_streams=streams,
    )


def available_stream(one: Available) -> Json:
    """Return ``AvailableStreamDto``."""
    details = {"details": "The source no longer has this stream."} if one.retired else None
    return serialized(AvailableStreamDto, one, sub_streams=list(one.substreams), retirement_details=details)


def stream_snapshots(state: StreamState) -> Json:
    """Return ``SourceStreamSnapshotStatesDto``."""
    active = None
    if state.active is not None:
        active = _snapshot(state.active)
    elif state.job is not None:
        active = {"bytes_synced": 0, "status": SnapshotStatus.SCHEDULED}
    return present(
        {
            "name": state.name,
            "active_sync": active,
            "latest_sync": None if state.latest is None else _snapshot(state.latest),
        }
    )


def _snapshot(run: records.EltStreamRun) -> Json:
    going = run.status == EltStreamRunStatus.RUNNING
    return present(
        {
            "bytes_synced": run.bytes_synced,
            "records_synced": run.rows_synced,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
            # Snapshots have no status for a finished slice of a load.
            "status": SnapshotStatus.COMPLETED if run.status == EltStreamRunStatus.CHUNK_COMPLETED else run.status,
            "full_sync_trigger": run.full_sync_trigger,
            "operation_mode": run.operation_mode,
            "error_message": None if going else run.error_message,
        }
    )
