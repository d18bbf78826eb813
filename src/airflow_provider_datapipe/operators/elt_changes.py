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
    Brings something about with an ELT sync.

    :param sync_id: id of the sync; or give ``destination_schema_name``. (templated)
    :param destination_schema_name: the schema that the sync fills, which stands for a name. (templated)
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
    Brings something about with an ELT stream.

    :param stream_id: id of the stream; or give ``stream_name``, and which sync it belongs to. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    :param sync_id: id of the sync of ``stream_name``; or give ``destination_schema_name``. (templated)
    :param destination_schema_name: the schema that the sync of ``stream_name`` fills. (templated)
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
    Create an ELT sync, which is known by its source connection and the schema that it fills.

    It has no streams yet: add them with :class:`EltSyncAddStreamsOperator`.
    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param connection_id: id of the source connection; or give ``connection_label``. (templated)
    :param connection_label: label of the source connection. (templated)
    :param destination_schema_name: the schema in the warehouse that it fills. (templated)
    :param sync_interval: cron expression of five fields, UTC. (templated)
    :param elt_settings: settings of the source, a mapping or the JSON of one; None for the source's own. Airflow shows
        them, as it shows every templated field: have secrets come from a connection or variable, which Airflow hides.
        (templated)
    :param data_start_date: the first day of the data, ``YYYY-MM-DD``, for sources that know one. A sync that is there
        keeps its own. (templated)
    :param if_exists: what happens when there is one already: ``update`` its schedule and settings, ``keep`` it as it
        is, or ``fail``. (templated)

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
    :param elt_settings: new settings of the source, a mapping or the JSON of one. Airflow shows them, as it shows every
        templated field: have secrets come from a connection or variable, which Airflow hides. (templated)

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
    Let an ELT sync run on its schedule.

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

    :param remove_data_references: whether the tables that it made are dropped, too: True, or the text of it.
        (templated)
    :param if_missing: what happens when there is no such sync: ``succeed`` or ``fail``. (templated)

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
    Add streams to an ELT sync, and update those that it has already.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`, whose ``details`` have the names of the streams
    that were ``added``, ``updated``, and ``unchanged``, and by each name its id in ``stream_ids``. Which columns are
    excluded or hashed the service does not show: a stream for which they are given counts as updated.

    :param source_streams: names of streams, or mappings with a ``name`` and what its defaults are not to be, such as
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
    Let an ELT sync run as a part of an orchestration, instead of on its own schedule.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`.

    :param orchestration_id: id of the orchestration; or give ``orchestration_name``. (templated)
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
    Let an ELT sync run on its own schedule again, daily if it has none.

    Streams with a schedule of their own run on that.
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

    It starts no run: for that, give ``full_refresh`` to :class:`EltStreamRunOperator`.
    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`. The service does not show whether the next run
    was to be one already, so it always counts as changed.

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

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`. The service does not show whether a full
    refresh was asked for, so it always counts as changed.

    .. seealso:: interface.md, "POST /elt_streams/{id}/cancel_full_refresh".
    """

    endpoints = ("elt_streams.cancel_full_refresh",)

    def _change(self) -> Steps[Change]:
        from airflow_provider_datapipe.changes import elt_streams

        return elt_streams.cancel_full_refresh(self._target())


class EltStreamSetIntervalOperator(DatapipeEltStreamOperator):
    """
    Let an ELT stream run on a schedule of its own, apart from its sync and the orchestration of that.

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
    Return an ELT stream to the schedule of its sync, or of the orchestration of that.

    Returns a :class:`~airflow_provider_datapipe.changes.change.Change`. A service that does not show the schedule of
    a stream counts as one where nothing changed; the request is sent all the same.

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

    :param if_missing: what happens when there is no such stream: ``succeed`` or ``fail``. (templated)

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
