"""ELT syncs and the state of their streams."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from airflow_provider_datapipe.api.models.common import (
    OPEN_ENUM,
    Answer,
    Body,
    FreeObject,
    OptionalNumber,
    OptionalTimestamp,
    Timestamp,
)
from airflow_provider_datapipe.api.models.elt_streams import EltStream
from airflow_provider_datapipe.api.models.rules import Cron, Day, JsonObject, Omissible


class EltSyncState(StrEnum):
    """Status of a sync. ``enabled`` is True if its schedule is active."""

    NOT_STARTED = "NOT_STARTED"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    PAUSED = "PAUSED"


class EltSync(Answer):
    """
    ``EltSyncDto``: copies data from a source connection into a destination schema.

    :param id: ID of the sync.
    :param account_id: ID of the account.
    :param source_connection_id: ID of the connection that the sync reads.
    :param source_integration_id: ID of the integration of the source.
    :param destination_connection_id: ID of the connection to the warehouse.
    :param destination_integration_id: ID of the integration of the warehouse.
    :param destination_schema_name: schema in the warehouse that gets the tables.
    :param enabled: True if the schedule of the sync is active.
    :param status: status of the sync.
    :param sync_interval: cron expression of the sync's own schedule.
    :param orchestration_workflow_id: ID of the orchestration that the sync is attached to; None without one.
    :param source_streams: streams of the sync; lists may omit them.
    :param config: settings of the source, which may hold secrets.
    :param start_date: start of the loaded data, for sources that support it.
    :param created_at: time of the creation.
    :param updated_at: time of the last change.
    """

    id: str
    account_id: str
    source_connection_id: str
    source_integration_id: str
    destination_connection_id: str
    destination_integration_id: str
    destination_schema_name: str | None = None
    enabled: bool
    status: Annotated[EltSyncState | str, OPEN_ENUM]
    sync_interval: str | None = None
    orchestration_workflow_id: str | None = None
    source_streams: tuple[EltStream, ...] | None = None
    config: FreeObject | None = Field(default=None, repr=False)
    start_date: OptionalTimestamp = None
    created_at: Timestamp
    updated_at: Timestamp


class SnapshotStatus(StrEnum):
    """Status of the run in a snapshot."""

    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    DELAYED = "DELAYED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class FullSyncTrigger(StrEnum):
    """Reason for a full load."""

    ALWAYS_FULL = "ALWAYS_FULL"
    ERROR = "ERROR"
    INITIAL_SYNC = "INITIAL_SYNC"
    LOOKBACK = "LOOKBACK"
    MIDNIGHT = "MIDNIGHT"
    MIGRATION = "MIGRATION"
    NONE = "NONE"
    SCHEMA_CHANGE = "SCHEMA_CHANGE"
    USER = "USER"


class OperationMode(StrEnum):
    """Load mode of a run."""

    APPEND = "APPEND"
    FULL = "FULL"
    INCREMENTAL = "INCREMENTAL"


class StreamSnapshot(Answer):
    """
    ``SourceStreamSnapshotDto``: one run of a stream in the sync's status, without its ID.

    :param bytes_synced: number of loaded bytes.
    :param records_synced: number of loaded records.
    :param estimated_total_count: estimated number of records of the whole run.
    :param started_at: start of the run.
    :param finished_at: end of the run.
    :param status: status of the run.
    :param full_sync_trigger: reason for a full load.
    :param operation_mode: load mode.
    :param retry_attempt: number of retries of the service so far.
    :param error_message: reason for a failure.
    :param details: progress as text.
    """

    bytes_synced: OptionalNumber
    records_synced: OptionalNumber = None
    estimated_total_count: OptionalNumber = None
    started_at: OptionalTimestamp = None
    finished_at: OptionalTimestamp = None
    status: Annotated[SnapshotStatus | str | None, OPEN_ENUM] = None
    full_sync_trigger: Annotated[FullSyncTrigger | str | None, OPEN_ENUM] = None
    operation_mode: Annotated[OperationMode | str | None, OPEN_ENUM] = None
    retry_attempt: OptionalNumber = None
    error_message: str | None = None
    details: str | None = None


class StreamSnapshots(Answer):
    """
    ``SourceStreamSnapshotStatesDto``: the active and the latest run of one stream, identified by name.

    :param name: name of the stream.
    :param active_sync: the active or scheduled run; None without one.
    :param latest_sync: the latest finished run; None if no run has finished.
    """

    name: str
    active_sync: StreamSnapshot | None = None
    latest_sync: StreamSnapshot | None = None


class EltSyncStatus(Answer):
    """
    ``EltSyncStatusDto``: status of all streams of a sync.

    :param elt_sync_id: ID of the sync.
    :param source_streams: runs of each stream of the sync.
    """

    elt_sync_id: str
    source_streams: tuple[StreamSnapshots, ...]


class RetirementDetails(Answer):
    """
    ``RetirementDetails``: reason and removal date of a retired stream.

    :param in_favor_of: name of the replacement.
    :param removal_date: date of the removal, ISO 8601.
    :param details: explanation as text.
    :param link: address of further information.
    """

    in_favor_of: str | None = None
    removal_date: str | None = None
    details: str | None = None
    link: str | None = None


class AvailableStream(Answer):
    """
    ``AvailableStreamDto``: a stream that the source offers.

    :param name: name of the stream.
    :param is_selectable: False if the stream cannot be added.
    :param preselect: True if the service suggests the stream.
    :param sub_streams: names of the substreams: nested lists of records, with tables of their own.
    :param retired: True if the stream is no longer supported.
    :param retirement_details: details of a retired stream.
    """

    name: str
    is_selectable: bool | None = None
    preselect: bool | None = None
    sub_streams: tuple[str, ...] | None = None
    retired: bool
    retirement_details: RetirementDetails | None = None


class AddedSourceStreams(Answer):
    """
    ``EltSyncAddSourceStreamsResponseDto``: created streams, without the updated ones.

    :param source_streams: the created streams.
    """

    source_streams: tuple[EltStream, ...]


class EltSyncCreateRequest(Body):
    """``EltSyncCreateRequestDto``."""

    connection_id: str
    destination_schema_name: str
    # Settings may hold secrets.
    elt_settings: Omissible[JsonObject] = Field(default=None, repr=False)
    sync_interval: Cron
    start_date: Omissible[Day] = None


class EltSyncUpdateRequest(Body):
    """``EltSyncUpdateRequestDto``: omitted fields are unchanged."""

    elt_settings: Omissible[JsonObject] = Field(default=None, repr=False)
    sync_interval: Omissible[Cron] = None


class SourceStream(Body):
    """
    ``SourceStreamDto``: a stream to add or update, identified by name.

    :param name: name of the stream in the source.
    :param incremental_pointer_id: column whose highest value marks where the next incremental load starts.
    :param excluded_columns: columns that are not loaded.
    :param hashed_columns: columns whose values are hashed before they are stored.
    :param full_sync_always: True if every run is a full load.
    :param full_sync_at_midnight: True if the first run of each day is a full load.
    :param protected_from_full_sync: True to allow no full load after the initial one.
    :param excluded_substreams: names of substreams that are not loaded.
    :param enabled_history_table: True to keep a table with earlier versions of rows.
    """

    name: str
    incremental_pointer_id: Omissible[str] = None
    excluded_columns: Omissible[tuple[str, ...]] = None
    hashed_columns: Omissible[tuple[str, ...]] = None
    full_sync_always: Omissible[bool] = None
    full_sync_at_midnight: Omissible[bool] = None
    protected_from_full_sync: Omissible[bool] = None
    excluded_substreams: Omissible[tuple[str, ...]] = None
    enabled_history_table: bool = False


class SourceStreamsRequest(Body):
    """``EltSyncAddSourceStreamsRequestDto``."""

    source_streams: Omissible[tuple[SourceStream, ...]] = None
