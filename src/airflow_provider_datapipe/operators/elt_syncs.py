"""Operators that run, create, change and delete ELT syncs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.links import StreamLink, address_of, show_link, stream_links
from airflow_provider_datapipe.operators.base import DatapipeRunOperator
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    import datetime as dt

    from airflow.sdk import Context

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.elt_sync import SyncResult
    from airflow_provider_datapipe.runs.models import RunTarget


class EltSyncRunOperator(DatapipeRunOperator):
    """
    Run the streams of an ELT sync concurrently, and wait until all runs have ended.

    Returns a :class:`~airflow_provider_datapipe.runs.elt_sync.SyncResult` with one result for each stream. A stream
    that fails does not stop the others.

    :param sync_id: ID of the sync. (templated)
    :param streams: names or IDs of the streams to run; None for all. (templated)
    :param full_refresh: load everything again, instead of an incremental load.
    :param max_active_streams: the most streams that run at a time; None for no limit.
    :param on_partial_failure: outcome of the task if some streams failed and others did not: ``fail``, or ``succeed``
        with a warning. If all streams failed, the task fails.

    .. seealso:: :ref:`GET /elt_streams <interface-elt-streams-list>` and
        :ref:`POST /elt_streams/{id}/request_run <interface-elt-streams-request-run>`.
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
    def _has_single_run(self) -> bool:
        return False

    def _page_of_batch(self, batch: Batch) -> tuple[str, str | None]:
        return "elt_sync", self.sync_id

    def _show_links(self, context: Context, hook: DatapipeHook, batch: Batch) -> None:
        super()._show_links(context, hook, batch)
        links = {link.stream: link for link in self.operator_extra_links if isinstance(link, StreamLink)}
        for each in batch.resources if links else ():
            run_id = getattr(each, "run_id", None)
            address = address_of(hook.page_template, "elt_stream", each.resource_id, run_id)
            for key in {each.resource_id, each.name} & links.keys():
                show_link(self, context, address, links[key])

    async def _create_batch(self) -> Batch:
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.elt_sync import targets_of_sync
        from airflow_provider_datapipe.runs.targets import required

        chosen = [self.streams] if isinstance(self.streams, str) else self.streams
        sync_id, options = required("sync_id", self.sync_id), {"full_refresh": self.full_refresh}
        targets = await targets_of_sync(sync_id, chosen, options, self._task_state)
        return Batch(self.kind, queued=targets, at_a_time=self.max_active_streams)

    def _lineage_targets(self) -> Flow[list[RunTarget]]:
        from airflow_provider_datapipe.runs.elt_sync import streams_of_sync
        from airflow_provider_datapipe.runs.targets import required

        chosen = [self.streams] if isinstance(self.streams, str) else self.streams
        return streams_of_sync(required("sync_id", self.sync_id), chosen, {})

    def _finish(self, batch: Batch) -> tuple[SyncResult, Exception | None]:
        from airflow.providers.common.compat.sdk import AirflowSkipException

        from airflow_provider_datapipe.runs.elt_sync import error_of_sync, result_of_sync

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


class DatapipeEltSyncOperator(DatapipeChangeOperator):
    """
    Base of operators that change an ELT sync.

    :param sync_id: ID of the sync; or set ``destination_schema_name``. (templated)
    :param destination_schema_name: the schema of the sync in the warehouse, instead of a name. (templated)
    """

    def __init__(
        self, *, sync_id: str | None = None, destination_schema_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(sync_id=sync_id, destination_schema_name=destination_schema_name)


class EltSyncCreateOperator(DatapipeChangeOperator):
    """
    Create an ELT sync. Its source connection and its schema identify it.

    A new sync has no streams: add them with :class:`EltSyncAddStreamsOperator`.
    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param connection_id: ID of the source connection; or set ``connection_label``. (templated)
    :param connection_label: label of the source connection. (templated)
    :param destination_schema_name: its schema in the warehouse. (templated)
    :param sync_interval: cron expression of five fields, UTC. (templated)
    :param elt_settings: settings of the source, a mapping or its JSON; None for its defaults. Airflow shows them like
        every templated field: read secrets from a connection or variable, which Airflow masks. (templated)
    :param data_start_date: the first day of the data, ``YYYY-MM-DD``, for sources that support it. An existing sync
        keeps its own. (templated)
    :param if_exists: policy if the sync exists: ``update`` its schedule and settings, ``keep`` it unchanged, or
        ``fail``. (templated)

    .. seealso:: :ref:`POST /elt_syncs <interface-elt-syncs-create>`.
    """

    flow = "elt_syncs.create"
    endpoints = ("elt_syncs.create", "elt_syncs.update")

    def __init__(
        self,
        *,
        destination_schema_name: str,
        sync_interval: str,
        connection_id: str | None = None,
        connection_label: str | None = None,
        elt_settings: dict[str, Any] | str | None = None,
        data_start_date: str | dt.date | None = None,
        if_exists: Literal["update", "keep", "fail"] = "update",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(connection_id=connection_id, connection_label=connection_label)


class EltSyncUpdateOperator(DatapipeEltSyncOperator):
    """
    Change the schedule or the settings of an ELT sync. Omitted fields keep their values.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param sync_interval: its new cron expression of five fields, UTC. (templated)
    :param elt_settings: new settings of the source, a mapping or its JSON. Airflow shows them like every templated
        field: read secrets from a connection or variable, which Airflow masks. (templated)

    .. seealso:: :ref:`POST /elt_syncs/{id} <interface-elt-syncs-update>`.
    """

    flow = "elt_syncs.update"
    endpoints = ("elt_syncs.update",)

    def __init__(
        self, *, sync_interval: str | None = None, elt_settings: dict[str, Any] | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)


class EltSyncEnableOperator(DatapipeEltSyncOperator):
    """
    Enable an ELT sync, so that it runs on its schedule.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    .. seealso:: :ref:`POST /elt_syncs/{id}/enable <interface-elt-syncs-enable>`.
    """

    flow = "elt_syncs.enable"
    endpoints = ("elt_syncs.enable",)


class EltSyncDisableOperator(DatapipeEltSyncOperator):
    """
    Disable an ELT sync. Active runs continue; no run can be requested.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    .. seealso:: :ref:`POST /elt_syncs/{id}/disable <interface-elt-syncs-disable>`.
    """

    flow = "elt_syncs.disable"
    endpoints = ("elt_syncs.disable",)


class EltSyncDeleteOperator(DatapipeEltSyncOperator):
    """
    Delete an ELT sync and its streams, and on request its tables.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param remove_data_references: also drop its tables: True, or its text. (templated)
    :param if_missing: policy if the sync does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: :ref:`DELETE /elt_syncs/{id} <interface-elt-syncs-delete>`.
    """

    flow = "elt_syncs.delete"
    endpoints = ("elt_syncs.delete",)

    def __init__(
        self,
        *,
        remove_data_references: bool | str = False,
        if_missing: Literal["succeed", "fail"] = "succeed",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)


class EltSyncAddStreamsOperator(DatapipeEltSyncOperator):
    """
    Add streams to an ELT sync, and update existing ones.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`, whose ``details`` contain the names of the
    ``added``, ``updated``, and ``unchanged`` streams, and their IDs by name in ``stream_ids``. The service does not
    return excluded and hashed columns: a stream with these arguments counts as updated.

    :param source_streams: names of streams, or mappings with a ``name`` and further fields, such as
        ``full_sync_always``; or the text of such a list. (templated)

    .. seealso:: :ref:`POST /elt_syncs/{id}/source_streams <interface-elt-syncs-add-source-streams>`,
        :ref:`SourceStream <interface-fields-source-stream>`.
    """

    flow = "elt_syncs.add_streams"
    endpoints = ("elt_syncs.add_source_streams",)

    def __init__(self, *, source_streams: list[str | dict[str, Any]] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class EltSyncAttachOperator(DatapipeEltSyncOperator):
    """
    Attach an ELT sync to an orchestration, which then runs it instead of its own schedule.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param orchestration_id: ID of the orchestration; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)

    .. seealso:: :ref:`POST /elt_syncs/{id}/orchestration <interface-elt-syncs-attach-orchestration>`.
    """

    flow = "elt_syncs.attach"
    endpoints = ("elt_syncs.attach_orchestration",)

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)


class EltSyncDetachOperator(DatapipeEltSyncOperator):
    """
    Detach an ELT sync from its orchestration. It runs on its own schedule again, or daily without one.

    Streams with their own schedule keep it.
    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    .. seealso:: :ref:`DELETE /elt_syncs/{id}/orchestration <interface-elt-syncs-detach-orchestration>`.
    """

    flow = "elt_syncs.detach"
    endpoints = ("elt_syncs.detach_orchestration",)
