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
    """``EltStreamDto``: one synced table of an ELT sync. ``sync_interval`` is the stream's own schedule, if any."""

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
    """``EltStreamRunDto``: one run of a stream. ``status`` can be absent."""

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
