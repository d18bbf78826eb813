"""Operators that change ELT syncs and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import exactly_one, identify_stream
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    import datetime as dt

    from airflow_provider_datapipe.changes.change import Change
    from airflow_provider_datapipe.runs.reference import Target
    from airflow_provider_datapipe.runs.steps import Steps


class DatapipeEltSyncOperator(DatapipeChangeOperator):
    """
    Base of operators that change an ELT sync.

    :param sync_id: ID of the sync; or set ``destination_schema_name``. (templated)
    :param destination_schema_name: the schema of the sync in the warehouse, instead of a name. (templated)
    """

    template_fields: Sequence[str] = (*DatapipeChangeOperator.template_fields, "sync_id", "destination_schema_name")

    def __init__(
        self, *, sync_id: str | None = None, destination_schema_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(sync_id=sync_id, destination_schema_name=destination_schema_name)
        self.sync_id = sync_id
        self.destination_schema_name = destination_schema_name


class DatapipeEltStreamOperator(DatapipeChangeOperator):
    """
    Base of operators that change an ELT stream.

    :param stream_id: ID of the stream; or set ``stream_name`` and its sync. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    :param sync_id: ID of the sync of ``stream_name``; or set ``destination_schema_name``. (templated)
    :param destination_schema_name: the schema of the sync of ``stream_name``. (templated)
    """

    template_fields: Sequence[str] = (
        *DatapipeChangeOperator.template_fields,
        "stream_id",
        "stream_name",
        "sync_id",
        "destination_schema_name",
    )

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
        self.stream_id = stream_id
        self.stream_name = stream_name
        self.sync_id = sync_id
        self.destination_schema_name = destination_schema_name

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.changes import elt_streams

        return elt_streams.target(self.stream_id, self.sync_id, self.destination_schema_name, self.stream_name)


class EltSyncCreateOperator(DatapipeChangeOperator):
    """
    Create an ELT sync. Its source connection and its schema identify it.

    A new sync has no streams: add them with :class:`EltSyncAddStreamsOperator`.
    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

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

    .. seealso:: interface.md, "POST /elt_syncs".
    """

    template_fields: Sequence[str] = (
        *DatapipeChangeOperator.template_fields,
        "connection_id",
        "connection_label",
        "destination_schema_name",
        "sync_interval",
        "elt_settings",
        "data_start_date",
        "if_exists",
    )
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
        self.connection_id = connection_id
        self.connection_label = connection_label
        self.destination_schema_name = destination_schema_name
        self.sync_interval = sync_interval
        self.elt_settings = elt_settings
        self.data_start_date = data_start_date
        self.if_exists = if_exists

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.create(
            self.connection_id,
            self.connection_label,
            self.destination_schema_name,
            sync_interval=self.sync_interval,
            elt_settings=self.elt_settings,
            data_start_date=self.data_start_date,
            if_exists=self.if_exists,
        )


class EltSyncUpdateOperator(DatapipeEltSyncOperator):
    """
    Change the schedule or the settings of an ELT sync. Omitted fields keep their values.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param sync_interval: its new cron expression of five fields, UTC. (templated)
    :param elt_settings: new settings of the source, a mapping or its JSON. Airflow shows them like every templated
        field: read secrets from a connection or variable, which Airflow masks. (templated)

    .. seealso:: interface.md, "POST /elt_syncs/{id}".
    """

    template_fields: Sequence[str] = (*DatapipeEltSyncOperator.template_fields, "sync_interval", "elt_settings")
    endpoints = ("elt_syncs.update",)

    def __init__(
        self, *, sync_interval: str | None = None, elt_settings: dict[str, Any] | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.sync_interval = sync_interval
        self.elt_settings = elt_settings

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.update(
            self.sync_id,
            self.destination_schema_name,
            sync_interval=self.sync_interval,
            elt_settings=self.elt_settings,
        )


class EltSyncEnableOperator(DatapipeEltSyncOperator):
    """
    Enable an ELT sync, so that it runs on its schedule.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    .. seealso:: interface.md, "POST /elt_syncs/{id}/enable".
    """

    endpoints = ("elt_syncs.enable",)

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.switch(self.sync_id, self.destination_schema_name, on=True)


class EltSyncDisableOperator(DatapipeEltSyncOperator):
    """
    Disable an ELT sync. Active runs continue; no run can be requested.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    .. seealso:: interface.md, "POST /elt_syncs/{id}/disable".
    """

    endpoints = ("elt_syncs.disable",)

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.switch(self.sync_id, self.destination_schema_name, on=False)


class EltSyncDeleteOperator(DatapipeEltSyncOperator):
    """
    Delete an ELT sync and its streams, and on request its tables.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param remove_data_references: also drop its tables: True, or its text. (templated)
    :param if_missing: policy if the sync does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: interface.md, "DELETE /elt_syncs/{id}".
    """

    template_fields: Sequence[str] = (
        *DatapipeEltSyncOperator.template_fields,
        "remove_data_references",
        "if_missing",
    )
    endpoints = ("elt_syncs.delete",)

    def __init__(
        self,
        *,
        remove_data_references: bool | str = False,
        if_missing: Literal["succeed", "fail"] = "succeed",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.remove_data_references = remove_data_references
        self.if_missing = if_missing

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.delete(
            self.sync_id,
            self.destination_schema_name,
            remove_data_references=self.remove_data_references,
            if_missing=self.if_missing,
        )


class EltSyncAddStreamsOperator(DatapipeEltSyncOperator):
    """
    Add streams to an ELT sync, and update existing ones.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`, whose ``details`` contain the names of the
    ``added``, ``updated``, and ``unchanged`` streams, and their IDs by name in ``stream_ids``. The service does not
    return excluded and hashed columns: a stream with these arguments counts as updated.

    :param source_streams: names of streams, or mappings with a ``name`` and further fields, such as
        ``full_sync_always``; or the text of such a list. (templated)

    .. seealso:: interface.md, "POST /elt_syncs/{id}/source_streams"; fields.md, "SourceStreamDto".
    """

    template_fields: Sequence[str] = (*DatapipeEltSyncOperator.template_fields, "source_streams")
    endpoints = ("elt_syncs.add_source_streams",)

    def __init__(self, *, source_streams: list[str | dict[str, Any]] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source_streams = source_streams

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.add_streams(self.sync_id, self.destination_schema_name, self.source_streams)


class EltSyncAttachOperator(DatapipeEltSyncOperator):
    """
    Attach an ELT sync to an orchestration, which then runs it instead of its own schedule.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param orchestration_id: ID of the orchestration; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)

    .. seealso:: interface.md, "POST /elt_syncs/{id}/orchestration".
    """

    template_fields: Sequence[str] = (
        *DatapipeEltSyncOperator.template_fields,
        "orchestration_id",
        "orchestration_name",
    )
    endpoints = ("elt_syncs.attach_orchestration",)

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        self.orchestration_id = orchestration_id
        self.orchestration_name = orchestration_name

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.attach(
            self.sync_id, self.destination_schema_name, self.orchestration_id, self.orchestration_name
        )


class EltSyncDetachOperator(DatapipeEltSyncOperator):
    """
    Detach an ELT sync from its orchestration. It runs on its own schedule again, or daily without one.

    Streams with their own schedule keep it.
    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    .. seealso:: interface.md, "DELETE /elt_syncs/{id}/orchestration".
    """

    endpoints = ("elt_syncs.detach_orchestration",)

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_syncs

        return elt_syncs.detach(self.sync_id, self.destination_schema_name)


class EltStreamRequestFullRefreshOperator(DatapipeEltStreamOperator):
    """
    Make the next run of an ELT stream a full refresh.

    Starts no run: to start one, set ``full_refresh`` of :class:`EltStreamRunOperator`.
    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`. The service does not return pending full
    refreshes, so the result is always ``changed``.

    :param reset_history_table: also empty the history table: True, or its text. (templated)

    .. seealso:: interface.md, "POST /elt_streams/{id}/request_full_refresh".
    """

    template_fields: Sequence[str] = (*DatapipeEltStreamOperator.template_fields, "reset_history_table")
    endpoints = ("elt_streams.request_full_refresh",)

    def __init__(self, *, reset_history_table: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reset_history_table = reset_history_table

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_streams

        return elt_streams.request_full_refresh(self._target(), reset_history_table=self.reset_history_table)


class EltStreamCancelFullRefreshOperator(DatapipeEltStreamOperator):
    """
    Cancel the requested full refresh of an ELT stream: its next run loads incrementally again.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`. The service does not return pending full
    refreshes, so the result is always ``changed``.

    .. seealso:: interface.md, "POST /elt_streams/{id}/cancel_full_refresh".
    """

    endpoints = ("elt_streams.cancel_full_refresh",)

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_streams

        return elt_streams.cancel_full_refresh(self._target())


class EltStreamSetIntervalOperator(DatapipeEltStreamOperator):
    """
    Set the schedule of an ELT stream, independent of its sync and the orchestration of the sync.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param sync_interval: cron expression of five fields, UTC. (templated)

    .. seealso:: interface.md, "POST /elt_streams/{id}/set_sync_interval".
    """

    template_fields: Sequence[str] = (*DatapipeEltStreamOperator.template_fields, "sync_interval")
    endpoints = ("elt_streams.set_sync_interval",)

    def __init__(self, *, sync_interval: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sync_interval = sync_interval

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_streams

        return elt_streams.set_interval(self._target(), self.sync_interval)


class EltStreamClearIntervalOperator(DatapipeEltStreamOperator):
    """
    Remove the schedule of an ELT stream, so that it runs with its sync or the orchestration of the sync.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`. If the service does not return schedules of
    streams, the request is sent, and the result is not ``changed``.

    .. seealso:: interface.md, "POST /elt_streams/{id}/clear_sync_interval".
    """

    endpoints = ("elt_streams.clear_sync_interval",)

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_streams

        return elt_streams.clear_interval(self._target())


class EltStreamDeleteOperator(DatapipeEltStreamOperator):
    """
    Delete an ELT stream.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param if_missing: policy if the stream does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: interface.md, "DELETE /elt_streams/{id}".
    """

    template_fields: Sequence[str] = (*DatapipeEltStreamOperator.template_fields, "if_missing")
    endpoints = ("elt_streams.delete",)

    def __init__(self, *, if_missing: Literal["succeed", "fail"] = "succeed", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.if_missing = if_missing

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_streams

        return elt_streams.delete(self._target(), self.if_missing)
