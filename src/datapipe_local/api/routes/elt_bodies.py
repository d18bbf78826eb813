"""Request bodies for ELT: the models of the provider with strict validation."""

from __future__ import annotations

from pydantic import StrictBool

from airflow_provider_datapipe.api.models import custom_reports, elt_streams, elt_syncs
from airflow_provider_datapipe.api.models.rules import Day
from datapipe_local.api.routes.body import OMISSIBLE, AnyObject


class FullRefreshRequest(elt_streams.FullRefreshRequest):
    """``EltStreamFullRefreshRequestDto``."""

    reset_history_table: StrictBool = False


class SyncIntervalRequest(elt_streams.SyncIntervalRequest):
    """``EltStreamSyncIntervalRequestDto``: the stream's own schedule. The service validates it."""

    sync_interval: str


class EltSyncCreateRequest(elt_syncs.EltSyncCreateRequest):
    """``EltSyncCreateRequestDto``."""

    elt_settings: AnyObject = OMISSIBLE
    sync_interval: str
    start_date: Day = OMISSIBLE


class EltSyncUpdateRequest(elt_syncs.EltSyncUpdateRequest):
    """``EltSyncUpdateRequestDto``: missing fields keep their value."""

    elt_settings: AnyObject = OMISSIBLE
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


class CustomReportsRequest(custom_reports.CustomReportsRequest):
    """``CreateCustomReportsRequestDto``."""

    add_as_source_stream: StrictBool = True
