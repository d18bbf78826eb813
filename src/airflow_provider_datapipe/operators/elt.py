"""Operators for ELT syncs and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_datapipe.arguments import identify_stream
from airflow_provider_datapipe.links import StreamLink, address_of, show_link, stream_links
from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.reference import Target
    from airflow_provider_datapipe.runs.steps import Steps
    from airflow_provider_datapipe.runs.sync import SyncResult


class EltStreamRunOperator(DatapipeSingleRunOperator):
    """
    Run one ELT stream, and wait until its table is loaded.

    Returns a :class:`~airflow_provider_datapipe.runs.reference.RunResult`.

    :param stream_id: ID of the stream; or set ``sync_id`` and ``stream_name``. (templated)
    :param sync_id: id of the sync that the stream belongs to. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    :param full_refresh: load everything again, instead of an incremental load.

    .. seealso:: interface.md, "POST /elt_streams/{id}/request_run" and "request_full_refresh".
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "stream_id",
        "sync_id",
        "stream_name",
    )
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

    def _given_page(self) -> tuple[str, str | None]:
        # The sync of a name is known before its stream.
        return ("elt_sync", self.sync_id) if self.stream_id is None else ("elt_stream", self.stream_id)

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import stream_target

        return stream_target(self.stream_id, self.sync_id, self.stream_name, {"full_refresh": self.full_refresh})


class EltSyncRunOperator(DatapipeRunOperator):
    """
    Run the streams of an ELT sync at once, and wait until all have ended.

    Returns a :class:`~airflow_provider_datapipe.runs.sync.SyncResult` with one result for each stream. A stream that
    fails does not stop the others.

    :param sync_id: id of the sync. (templated)
    :param streams: names or ids of the streams to run; None for all. (templated)
    :param full_refresh: load everything again, instead of an incremental load.
    :param max_active_streams: the most streams that run at a time; None for no limit.
    :param on_partial_failure: outcome of the task if some streams failed and others did not: ``fail``, or ``succeed``
        with a warning. If all streams failed, the task fails.

    .. seealso:: interface.md, "GET /elt_streams" and "POST /elt_streams/{id}/request_run".
    """

    template_fields: Sequence[str] = (*DatapipeRunOperator.template_fields, "sync_id", "streams")
    kind = "elt_stream"
    asset_kind = "elt_sync"
    asset_argument = "sync_id"
    endpoints = ("elt_streams.request_run", "elt_streams.request_full_refresh")
    non_empty_lists: ClassVar[Mapping[str, str]] = {"streams": "all streams of the sync"}

    def __init__(
        self,
        *,
        sync_id: str,
        streams: list[str] | str | None = None,
        full_refresh: bool = False,
        max_active_streams: int | None = None,
        on_partial_failure: Literal["fail", "succeed"] = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if max_active_streams is not None and max_active_streams < 1:
            raise ValueError(f"max_active_streams must be 1 or more, not {max_active_streams}")
        self.sync_id = sync_id
        self.streams = streams
        self.full_refresh = full_refresh
        self.max_active_streams = max_active_streams
        self.on_partial_failure = on_partial_failure
        self.operator_extra_links = (*type(self).operator_extra_links, *stream_links(streams))
        self._declare_assets()

    @property
    def _alone(self) -> bool:
        return False

    def _works_on(self, batch: Batch) -> tuple[str, str | None]:
        return "elt_sync", self.sync_id

    def _show_links(self, context: Context, hook: DatapipeHook, batch: Batch) -> None:
        super()._show_links(context, hook, batch)
        links = {link.stream: link for link in self.operator_extra_links if isinstance(link, StreamLink)}
        for each in batch.resources if links else ():
            run_id = getattr(each, "run_id", None)
            address = address_of(hook.page_template, "elt_stream", each.resource_id, run_id)
            for key in {each.resource_id, each.name} & links.keys():
                show_link(self, context, address, links[key])

    def _begin(self) -> Steps[Batch]:
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.sync import targets_of_sync
        from airflow_provider_datapipe.runs.targets import required

        chosen = [self.streams] if isinstance(self.streams, str) else self.streams
        targets = yield from targets_of_sync(
            required("sync_id", self.sync_id), chosen, {"full_refresh": self.full_refresh}
        )
        return Batch(self.kind, queued=targets, at_a_time=self.max_active_streams)

    def _lineage_targets(self) -> Steps[list[Target]]:
        from airflow_provider_datapipe.runs.sync import streams_of_sync
        from airflow_provider_datapipe.runs.targets import required

        chosen = [self.streams] if isinstance(self.streams, str) else self.streams
        return streams_of_sync(required("sync_id", self.sync_id), chosen, {})

    def _finish(self, batch: Batch) -> tuple[SyncResult, Exception | None]:
        from airflow.providers.common.compat.sdk import AirflowSkipException

        from airflow_provider_datapipe.runs.sync import error_of_sync, result_of_sync

        result = result_of_sync(self.sync_id, batch.ended)
        if result["outcome"] == "skipped":
            return result, AirflowSkipException(
                f"Every stream of ELT sync {self.sync_id} was running already; skipped."
            )
        error = error_of_sync(self.sync_id, batch.ended)
        if error and result["outcome"] == "partial" and self.on_partial_failure == "succeed":
            self.log.warning("%s\nThe task succeeds because of on_partial_failure='succeed'.", error)
            error = None
        return result, error
