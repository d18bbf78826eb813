"""ELT streams."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import UNSET, Page, RunRequested, Unset
from airflow_provider_datapipe.api.models.elt_streams import EltStream, FullRefreshRequest, SyncIntervalRequest
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/elt_streams", answer=Page[EltStream], repeat=Repeat.READ)
def list_(*, elt_sync_id: str | None = None, limit: int | None = None, starting_after: str | None = None) -> Parts:
    """
    List streams by creation date.

    :param elt_sync_id: only the streams of this sync.
    :param limit: items on a page, 1 to 100 (the service's default is 10).
    :param starting_after: cursor of the page before.

    Source: interface.md, "GET /elt_streams".
    """
    return Parts(query={"elt_sync_id": elt_sync_id, "limit": limit, "starting_after": starting_after})


@endpoint("GET", "/elt_streams/{id}", answer=EltStream, repeat=Repeat.READ)
def get(stream_id: str) -> Parts:
    """
    Read one stream.

    :param stream_id: id of the stream.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "GET /elt_streams/{id}".
    """
    return Parts(path={"id": stream_id})


@endpoint("DELETE", "/elt_streams/{id}", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def delete(stream_id: str) -> Parts:
    """
    Delete a stream.

    :param stream_id: id of the stream.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "DELETE /elt_streams/{id}".
    """
    return Parts(path={"id": stream_id})


@endpoint("POST", "/elt_streams/{id}/request_run", answer=RunRequested, repeat=Repeat.STARTS_A_RUN)
def request_run(stream_id: str) -> Parts:
    """
    Ask for a run of one stream, now.

    The answer is where the run will appear, not the run: scheduling takes from moments up to an hour.

    :param stream_id: id of the stream.
    :raises InvalidRequestError: the sync does not run, or the stream's job is stopped.
    :raises NotFoundError: there is no such stream.
    :raises ConflictError: a run is active or scheduled already.

    Source: interface.md, "POST /elt_streams/{id}/request_run".
    """
    return Parts(path={"id": stream_id})


@endpoint("POST", "/elt_streams/{id}/request_full_refresh", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def request_full_refresh(stream_id: str, *, reset_history_table: bool | Unset = UNSET) -> Parts:
    """
    Make the next run of a stream a full refresh. Starts no run.

    :param stream_id: id of the stream.
    :param reset_history_table: whether the history table is reset, too (the service's default is false).
    :raises InvalidRequestError: the sync does not run, or the stream's job is stopped.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "POST /elt_streams/{id}/request_full_refresh".
    """
    body = FullRefreshRequest.of(reset_history_table=reset_history_table)
    return Parts(path={"id": stream_id}, body=body if body.model_fields_set else None)


@endpoint("POST", "/elt_streams/{id}/cancel_full_refresh", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def cancel_full_refresh(stream_id: str) -> Parts:
    """
    Return a stream to incremental loading.

    :param stream_id: id of the stream.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "POST /elt_streams/{id}/cancel_full_refresh".
    """
    return Parts(path={"id": stream_id})


@endpoint("POST", "/elt_streams/{id}/set_sync_interval", answer=EltStream, repeat=Repeat.IDEMPOTENT)
def set_sync_interval(stream_id: str, *, sync_interval: str) -> Parts:
    """
    Let a stream run on a schedule of its own, apart from its sync and the orchestration of that.

    :param stream_id: id of the stream.
    :param sync_interval: cron expression of five fields.
    :raises InvalidRequestError: the service does not take the cron expression.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "POST /elt_streams/{id}/set_sync_interval".
    """
    return Parts(path={"id": stream_id}, body=SyncIntervalRequest.of(sync_interval=sync_interval))


@endpoint("POST", "/elt_streams/{id}/clear_sync_interval", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def clear_sync_interval(stream_id: str) -> Parts:
    """
    Return a stream to the schedule of its sync, or of the orchestration of that.

    :param stream_id: id of the stream.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "POST /elt_streams/{id}/clear_sync_interval".
    """
    return Parts(path={"id": stream_id})
