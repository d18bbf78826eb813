"""ELT syncs, which load streams of a source connection into a schema of the warehouse."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, Unset
from airflow_provider_datapipe.api.models.elt_syncs import (
    AddedSourceStreams,
    AvailableStream,
    EltSync,
    EltSyncCreateRequest,
    EltSyncStatus,
    EltSyncUpdateRequest,
    SourceStream,
    SourceStreamsRequest,
)
from airflow_provider_datapipe.api.models.orchestrations import AttachRequest
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/elt_syncs", answer=Page[EltSync], repeat=Repeat.READ)
def list_(*, connection_id: str | None = None, limit: int | None = None, starting_after: str | None = None) -> None:
    """
    List syncs, sorted by creation date.

    :param connection_id: return only the syncs that read this source connection.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.
    """


@endpoint("POST", "/elt_syncs", answer=EltSync, repeat=Repeat.CREATES, body=EltSyncCreateRequest)
def create(
    *,
    connection_id: str,
    destination_schema_name: str,
    sync_interval: str,
    elt_settings: Mapping[str, Any] | Unset = UNSET,
    start_date: str | dt.date | Unset = UNSET,
) -> None:
    """
    Create a sync.

    :param connection_id: ID of the source connection.
    :param destination_schema_name: name of the schema in the warehouse.
    :param sync_interval: cron expression with five fields.
    :param elt_settings: settings of the source, see ``connections.settings``.
    :param start_date: first day of the data, ``YYYY-MM-DD``, for sources that support a start date.
    :raises ConflictError: the connection has the maximum number of syncs.
    """


@endpoint("POST", "/elt_syncs/{id}", answer=EltSync, repeat=Repeat.IDEMPOTENT, body=EltSyncUpdateRequest)
def update(
    sync_id: str, *, elt_settings: Mapping[str, Any] | Unset = UNSET, sync_interval: str | Unset = UNSET
) -> None:
    """
    Update a sync. Omitted fields are unchanged.

    :param sync_id: ID of the sync.
    :param elt_settings: settings of the source, see ``connections.settings``.
    :param sync_interval: cron expression with five fields.
    """


@endpoint("GET", "/elt_syncs/{id}", answer=EltSync, repeat=Repeat.READ)
def get(sync_id: str) -> None:
    """
    Read one sync.

    :param sync_id: ID of the sync.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("DELETE", "/elt_syncs/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(sync_id: str, *, remove_data_references: bool | None = None) -> None:
    """
    Delete a sync and all its streams.

    :param sync_id: ID of the sync.
    :param remove_data_references: True to drop the tables of the sync, too (service default: false).
    """


@endpoint("POST", "/elt_syncs/{id}/enable", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def enable(sync_id: str) -> None:
    """
    Enable the schedule of a sync.

    :param sync_id: ID of the sync.
    """


@endpoint("POST", "/elt_syncs/{id}/disable", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def disable(sync_id: str) -> None:
    """
    Disable the schedule of a sync.

    :param sync_id: ID of the sync.
    """


@endpoint("POST", "/elt_syncs/{id}/orchestration", answer=EltSync, repeat=Repeat.IDEMPOTENT, body=AttachRequest)
def attach_orchestration(sync_id: str, *, orchestration_workflow_id: str) -> None:
    """
    Attach a sync to an orchestration, which replaces the sync's own schedule.

    :param sync_id: ID of the sync.
    :param orchestration_workflow_id: ID of the orchestration.
    :raises NotFoundError: the sync or the orchestration does not exist.
    """


@endpoint("DELETE", "/elt_syncs/{id}/orchestration", answer=EltSync, repeat=Repeat.IDEMPOTENT)
def detach_orchestration(sync_id: str) -> None:
    """
    Detach a sync from its orchestration.

    The sync runs on its own schedule again, or daily if it has none. Streams with their own schedule keep it.

    :param sync_id: ID of the sync.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("GET", "/elt_syncs/{id}/available_source_streams", answer=Page[AvailableStream], repeat=Repeat.READ)
def available_source_streams(sync_id: str) -> None:
    """
    List the streams that the source of a sync offers.

    :param sync_id: ID of the sync.
    """


@endpoint(
    "POST",
    "/elt_syncs/{id}/source_streams",
    answer=AddedSourceStreams,
    repeat=Repeat.CREATES,
    body=SourceStreamsRequest,
)
def add_source_streams(sync_id: str, *, source_streams: Sequence[SourceStream | Mapping[str, Any]]) -> None:
    """
    Add streams to a sync and update its existing streams. The response contains only the new streams.

    :param sync_id: ID of the sync.
    :param source_streams: ``name`` of each stream, and the options that differ from the defaults.
    :raises InvalidRequestError: the service rejects the streams.
    """


@endpoint("GET", "/elt_syncs/{id}/status", answer=EltSyncStatus, repeat=Repeat.READ)
def status(sync_id: str) -> None:
    """
    Read the active and the latest run of every stream of a sync. Streams are identified by name; runs have no IDs.

    :param sync_id: ID of the sync.
    """
