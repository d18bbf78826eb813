"""ELT streams."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import Parts, endpoint
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.models.elt_streams import EltStream, FullRefreshRequest
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
def request_full_refresh(stream_id: str, body: FullRefreshRequest | None = None) -> Parts:
    """
    Make the next run of a stream a full refresh. Starts no run.

    :param stream_id: id of the stream.
    :param body: whether the history table is reset, too.
    :raises InvalidRequestError: the sync does not run, or the stream's job is stopped.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "POST /elt_streams/{id}/request_full_refresh".
    """
    return Parts(path={"id": stream_id}, body=body)


@endpoint("POST", "/elt_streams/{id}/cancel_full_refresh", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def cancel_full_refresh(stream_id: str) -> Parts:
    """
    Return a stream to incremental loading.

    :param stream_id: id of the stream.
    :raises NotFoundError: there is no such stream.

    Source: interface.md, "POST /elt_streams/{id}/cancel_full_refresh".
    """
    return Parts(path={"id": stream_id})
