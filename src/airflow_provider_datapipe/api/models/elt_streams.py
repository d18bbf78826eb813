"""ELT streams and their runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from airflow_provider_datapipe.api.models.common import (
    OPEN_ENUM,
    Answer,
    Body,
    OptionalNumber,
    OptionalTimestamp,
    Timestamp,
)
from airflow_provider_datapipe.api.models.rules import Cron


class EltStreamRunStatus(StrEnum):
    """Status of a stream run."""

    RUNNING = "RUNNING"
    #: A finished chunk of a long initial load, which continues in the next run.
    CHUNK_COMPLETED = "CHUNK_COMPLETED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class EltStream(Answer):
    """
    ``EltStreamDto``: one synced table of an ELT sync. ``sync_interval`` is the stream's own schedule, if any.

    :param id: ID of the stream.
    :param elt_sync_id: ID of its sync.
    :param name: name of the stream, which identifies it within the sync.
    :param incremental_primary_key_name: columns that identify a row in incremental loads.
    :param incremental_pointer_id: column whose highest value marks where the next incremental load starts.
    :param full_sync_at_midnight: True if the first run of each day is a full load.
    :param full_sync_always: True if every run is a full load.
    :param protected_from_full_sync: True if no load after the initial one is full.
    :param created_at: time of the creation.
    :param updated_at: time of the last change.
    :param excluded_substreams: names of substreams that are not loaded.
    :param enabled_history_table: True if the service keeps a table with earlier versions of rows.
    :param sync_interval: cron expression of the stream's own schedule; None if it follows its sync.
    """

    id: str
    elt_sync_id: str
    name: str
    incremental_primary_key_name: tuple[str, ...] | None = None
    incremental_pointer_id: str | None = None
    full_sync_at_midnight: bool
    full_sync_always: bool
    protected_from_full_sync: bool
    created_at: Timestamp
    updated_at: Timestamp
    excluded_substreams: tuple[str, ...]
    enabled_history_table: bool
    sync_interval: str | None = None


class EltStreamRun(Answer):
    """
    ``EltStreamRunDto``: one run of a stream. ``status`` can be absent.

    :param id: opaque ID of the run.
    :param elt_sync_id: ID of the sync.
    :param elt_stream_id: ID of the stream.
    :param started_at: start of the run.
    :param finished_at: end of the run; None while it is active.
    :param status: status of the run; ``CHUNK_COMPLETED`` is a finished part of a long initial load, which the next run
        continues.
    :param rows_synced: number of loaded rows.
    """

    id: str
    elt_sync_id: str
    elt_stream_id: str
    started_at: Timestamp
    finished_at: OptionalTimestamp = None
    status: Annotated[EltStreamRunStatus | str | None, OPEN_ENUM] = None
    rows_synced: OptionalNumber = None


class FullRefreshRequest(Body):
    """``EltStreamFullRefreshRequestDto``."""

    reset_history_table: bool = False


class SyncIntervalRequest(Body):
    """``EltStreamSyncIntervalRequestDto``: the stream's own schedule."""

    sync_interval: Cron
