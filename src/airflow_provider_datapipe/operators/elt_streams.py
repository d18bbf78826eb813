"""Operators that run, change and delete ELT streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import identify_stream
from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.runs.models import RunTarget


class EltStreamRunOperator(DatapipeSingleRunOperator):
    """
    Run one ELT stream, and wait until its table is loaded.

    Returns a :class:`~airflow_provider_datapipe.runs.models.RunResult`.

    :param stream_id: ID of the stream; or set ``sync_id`` and ``stream_name``. (templated)
    :param sync_id: ID of the sync that the stream belongs to. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    :param full_refresh: load everything again, instead of an incremental load.

    .. seealso:: :ref:`POST /elt_streams/{id}/request_run <interface-elt-streams-request-run>` and
        :ref:`POST /elt_streams/{id}/request_full_refresh <interface-elt-streams-request-full-refresh>`.
    """

    template_fields: Sequence[str] = (*DatapipeRunOperator.template_fields, "stream_id", "sync_id", "stream_name")
    kind = "elt_stream"
    asset_kind = "elt_stream"
    asset_argument = "stream_id"
    endpoints = ("elt_streams.request_run", "elt_streams.request_full_refresh")

    def __init__(
        self,
        *,
        stream_id: str | None = None,
        sync_id: str | None = None,
        stream_name: str | None = None,
        full_refresh: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        identify_stream(stream_id, stream_name, sync_id=sync_id)
        self.stream_id = stream_id
        self.sync_id = sync_id
        self.stream_name = stream_name
        self.full_refresh = full_refresh
        self._declare_assets()

    def _page_of_arguments(self) -> tuple[str, str | None]:
        # With sync_id and stream_name, only the sync is known before the stream is looked up.
        return ("elt_sync", self.sync_id) if self.stream_id is None else ("elt_stream", self.stream_id)

    def _target(self) -> Flow[RunTarget]:
        from airflow_provider_datapipe.runs.targets import stream_target

        return stream_target(self.stream_id, self.sync_id, self.stream_name, {"full_refresh": self.full_refresh})


class DatapipeEltStreamOperator(DatapipeChangeOperator):
    """
    Base of operators that change an ELT stream.

    :param stream_id: ID of the stream; or set ``stream_name`` and its sync. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    :param sync_id: ID of the sync of ``stream_name``; or set ``destination_schema_name``. (templated)
    :param destination_schema_name: the schema of the sync of ``stream_name``. (templated)
    """

    def __init__(
        self,
        *,
        stream_id: str | None = None,
        stream_name: str | None = None,
        sync_id: str | None = None,
        destination_schema_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        identify_stream(stream_id, stream_name, sync_id=sync_id, destination_schema_name=destination_schema_name)

    def _arguments(self) -> dict[str, Any]:
        from airflow_provider_datapipe.resources.elt_streams import target

        given = super()._arguments()
        stream = {name: given.pop(name) for name in DatapipeEltStreamOperator.declared_arguments}
        return {"finding": target(**stream), **given}


class EltStreamRequestFullRefreshOperator(DatapipeEltStreamOperator):
    """
    Make the next run of an ELT stream a full refresh.

    Starts no run: to start one, set ``full_refresh`` of :class:`EltStreamRunOperator`.
    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`. The service does not return pending full
    refreshes, so the result is always ``changed``.

    :param reset_history_table: also empty the history table: True, or its text. (templated)

    .. seealso:: :ref:`POST /elt_streams/{id}/request_full_refresh <interface-elt-streams-request-full-refresh>`.
    """

    flow = "elt_streams.request_full_refresh"
    endpoints = ("elt_streams.request_full_refresh",)

    def __init__(self, *, reset_history_table: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class EltStreamCancelFullRefreshOperator(DatapipeEltStreamOperator):
    """
    Cancel the requested full refresh of an ELT stream: its next run loads incrementally again.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`. The service does not return pending full
    refreshes, so the result is always ``changed``.

    .. seealso:: :ref:`POST /elt_streams/{id}/cancel_full_refresh <interface-elt-streams-cancel-full-refresh>`.
    """

    flow = "elt_streams.cancel_full_refresh"
    endpoints = ("elt_streams.cancel_full_refresh",)


class EltStreamSetIntervalOperator(DatapipeEltStreamOperator):
    """
    Set the schedule of an ELT stream, independent of its sync and the orchestration of the sync.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param sync_interval: cron expression of five fields, UTC. (templated)

    .. seealso:: :ref:`POST /elt_streams/{id}/set_sync_interval <interface-elt-streams-set-sync-interval>`.
    """

    flow = "elt_streams.set_interval"
    endpoints = ("elt_streams.set_sync_interval",)

    def __init__(self, *, sync_interval: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class EltStreamClearIntervalOperator(DatapipeEltStreamOperator):
    """
    Remove the schedule of an ELT stream, so that it runs with its sync or the orchestration of the sync.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`. If the service does not return schedules of
    streams, the result is ``changed``, with a warning that the schedule cannot be verified.

    .. seealso:: :ref:`POST /elt_streams/{id}/clear_sync_interval <interface-elt-streams-clear-sync-interval>`.
    """

    flow = "elt_streams.clear_interval"
    endpoints = ("elt_streams.clear_sync_interval",)


class EltStreamDeleteOperator(DatapipeEltStreamOperator):
    """
    Delete an ELT stream.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param if_missing: policy if the stream does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: :ref:`DELETE /elt_streams/{id} <interface-elt-streams-delete>`.
    """

    flow = "elt_streams.delete"
    endpoints = ("elt_streams.delete",)

    def __init__(self, *, if_missing: Literal["succeed", "fail"] = "succeed", **kwargs: Any) -> None:
        super().__init__(**kwargs)
