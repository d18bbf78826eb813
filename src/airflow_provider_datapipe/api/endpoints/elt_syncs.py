"""ELT syncs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
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
def list_(*, connection_id: str | None = None, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List syncs, sorted by creation date.

    :param connection_id: return only the syncs that read this source connection.
    :param limit: page size, 1 to 100 (service default: 10).
    :param starting_after: cursor from the previous page.

    Source: interface.md, "GET /elt_syncs".
    """
    return Parts(query={"connection_id": connection_id, "limit": limit, "starting_after": starting_after})


@endpoint("POST", "/elt_syncs", answer=EltSync, repeat=Repeat.CREATES)
def create(
    *,
    connection_id: str,
    destination_schema_name: str,
    sync_interval: str,
    elt_settings: Mapping[str, Any] | Unset = UNSET,
    start_date: str | dt.date | Unset = UNSET,
) -> Parts:
    """
    Create a sync.

    :param connection_id: ID of the source connection.
    :param destination_schema_name: name of the schema in the warehouse.
    :param sync_interval: cron expression with five fields.
    :param elt_settings: settings of the source, see ``connections.settings``.
    :param start_date: first day of the data, ``YYYY-MM-DD``, for sources that support a start date.
    :raises ConflictError: the connection has the maximum number of syncs.

    Source: interface.md, "POST /elt_syncs".
    """
    return Parts(
        body=EltSyncCreateRequest.of(
            connection_id=connection_id,
            destination_schema_name=destination_schema_name,
            elt_settings=elt_settings,
            sync_interval=sync_interval,
            start_date=start_date,
        )
    )


@endpoint("POST", "/elt_syncs/{id}", answer=EltSync, repeat=Repeat.IDEMPOTENT)
def update(
    sync_id: str, *, elt_settings: Mapping[str, Any] | Unset = UNSET, sync_interval: str | Unset = UNSET
) -> Parts:
    """
    Update a sync. Omitted fields are unchanged.

    :param sync_id: ID of the sync.
    :param elt_settings: settings of the source, see ``connections.settings``.
    :param sync_interval: cron expression with five fields.

    Source: interface.md, "POST /elt_syncs/{id}".
    """
    return Parts(
        path={"id": sync_id}, body=EltSyncUpdateRequest.of(elt_settings=elt_settings, sync_interval=sync_interval)
    )


@endpoint("GET", "/elt_syncs/{id}", answer=EltSync, repeat=Repeat.READ)
def get(sync_id: str) -> Parts:
    """
    Read one sync.

    :param sync_id: ID of the sync.
    :raises NotFoundError: the sync does not exist.

    Source: interface.md, "GET /elt_syncs/{id}".
    """
    return Parts(path={"id": sync_id})


@endpoint("DELETE", "/elt_syncs/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(sync_id: str, *, remove_data_references: bool | None = None) -> Parts:
    """
    Delete a sync and all its streams.

    :param sync_id: ID of the sync.
    :param remove_data_references: True to drop the tables of the sync, too (service default: false).

    Source: interface.md, "DELETE /elt_syncs/{id}".
    """
    return Parts(path={"id": sync_id}, query={"remove_data_references": remove_data_references})


@endpoint("POST", "/elt_syncs/{id}/enable", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def enable(sync_id: str) -> Parts:
    """
    Enable the schedule of a sync.

    :param sync_id: ID of the sync.

    Source: interface.md, "POST /elt_syncs/{id}/enable".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/elt_syncs/{id}/disable", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def disable(sync_id: str) -> Parts:
    """
    Disable the schedule of a sync.

    :param sync_id: ID of the sync.

    Source: interface.md, "POST /elt_syncs/{id}/disable".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/elt_syncs/{id}/orchestration", answer=EltSync, repeat=Repeat.IDEMPOTENT)
def attach_orchestration(sync_id: str, *, orchestration_workflow_id: str) -> Parts:
    """
    Attach a sync to an orchestration, which replaces the sync's own schedule.

    :param sync_id: ID of the sync.
    :param orchestration_workflow_id: ID of the orchestration.
    :raises NotFoundError: the sync or the orchestration does not exist.

    Source: interface.md, "POST /elt_syncs/{id}/orchestration".
    """
    return Parts(path={"id": sync_id}, body=AttachRequest.of(orchestration_workflow_id=orchestration_workflow_id))


@endpoint("DELETE", "/elt_syncs/{id}/orchestration", answer=EltSync, repeat=Repeat.IDEMPOTENT)
def detach_orchestration(sync_id: str) -> Parts:
    """
    Detach a sync from its orchestration.

    The sync runs on its own schedule again, or daily if it has none. Streams with their own schedule keep it.

    :param sync_id: ID of the sync.
    :raises NotFoundError: the sync does not exist.

    Source: interface.md, "DELETE /elt_syncs/{id}/orchestration".
    """
    return Parts(path={"id": sync_id})


@endpoint("GET", "/elt_syncs/{id}/available_source_streams", answer=Page[AvailableStream], repeat=Repeat.READ)
def available_source_streams(sync_id: str) -> Parts:
    """
    List the streams that the source of a sync offers.

    :param sync_id: ID of the sync.

    Source: interface.md, "GET /elt_syncs/{id}/available_source_streams".
    """
    return Parts(path={"id": sync_id})


@endpoint("POST", "/elt_syncs/{id}/source_streams", answer=AddedSourceStreams, repeat=Repeat.CREATES)
def add_source_streams(sync_id: str, *, source_streams: Sequence[SourceStream | Mapping[str, Any]]) -> Parts:
    """
    Add streams to a sync and update its existing streams. The response contains only the new streams.

    :param sync_id: ID of the sync.
    :param source_streams: ``name`` of each stream, and the options that differ from the defaults.
    :raises InvalidRequestError: the service rejects the streams.

    Source: interface.md, "POST /elt_syncs/{id}/source_streams".
    """
    return Parts(path={"id": sync_id}, body=SourceStreamsRequest.of(source_streams=source_streams))


@endpoint("GET", "/elt_syncs/{id}/status", answer=EltSyncStatus, repeat=Repeat.READ)
def status(sync_id: str) -> Parts:
    """
    Read the active and the latest run of every stream of a sync. Streams are identified by name; runs have no IDs.

    :param sync_id: ID of the sync.

    Source: interface.md, "GET /elt_syncs/{id}/status".
    """
    return Parts(path={"id": sync_id})
