"""Operators that run, create, change and delete reverse ETL syncs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import Duration, exactly_one, whole_seconds
from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator, ReactivatingOperator

if TYPE_CHECKING:
    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.runs.models import RunTarget
    from airflow_provider_datapipe.runs.wait import WaitOutcome


#: The most failed records that a request returns.
_MOST_RECORDS = 100


class ReverseEtlRunOperator(DatapipeSingleRunOperator):
    """
    Run a reverse ETL sync, and wait for the end of the run.

    Returns a :class:`~airflow_provider_datapipe.runs.models.RunResult`.

    :param reverse_etl_sync_id: ID of the reverse ETL sync. (templated)
    :param max_failed_rows: the most rows that the destination may reject without a failure of the task.
    :param retry_failed_records: records that failed in earlier runs and that this run sends again: True for all, or a
        list of IDs. A template may render to the text of either, such as ``['a', 'b']``. (templated)
    :param show_failed_records: number of rejected records to show with IDs and reasons in the log, in the error and in
        notifications, at most 100. Set it to 0 if the records are confidential.

    .. seealso:: :ref:`POST /reverse_etl_syncs/{id}/request_run <interface-reverse-etl-syncs-request-run>` and
        :ref:`POST /reverse_etl_failed_records/retry <interface-reverse-etl-failed-records-retry>`.
    """

    template_fields: Sequence[str] = (
        *DatapipeRunOperator.template_fields,
        "reverse_etl_sync_id",
        "retry_failed_records",
    )
    kind = "reverse_etl"
    asset_kind = "reverse_etl"
    asset_argument = "reverse_etl_sync_id"
    endpoints = (
        "reverse_etl_syncs.request_run",
        "reverse_etl_failed_records.retry",
        "reverse_etl_failed_records.retry_all",
    )

    def __init__(
        self,
        *,
        reverse_etl_sync_id: str,
        max_failed_rows: int = 0,
        retry_failed_records: bool | list[str] | str = False,
        show_failed_records: int = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if max_failed_rows < 0:
            raise ValueError(f"max_failed_rows must be 0 or more, not {max_failed_rows}")
        if not 0 <= show_failed_records <= _MOST_RECORDS:
            raise ValueError(f"show_failed_records must be 0 to {_MOST_RECORDS}, not {show_failed_records}")
        self.reverse_etl_sync_id = reverse_etl_sync_id
        self.max_failed_rows = max_failed_rows
        self.retry_failed_records = retry_failed_records
        self.show_failed_records = show_failed_records
        self._declare_assets()

    @property
    def _failed_rows_allowed(self) -> int:
        return self.max_failed_rows

    def _error_of(self, end: WaitOutcome) -> Exception | None:
        from airflow_provider_datapipe.runs.results import exception_for

        retries = bool(_records(self.retry_failed_records))
        return exception_for(end, max_failed_rows=self.max_failed_rows, retries_failed_records=retries)

    @property
    def _records_shown(self) -> int:
        return self.show_failed_records

    def _target(self) -> Flow[RunTarget]:
        from airflow_provider_datapipe.runs.targets import by_id

        options = {"retry_failed_records": _records(self.retry_failed_records)}
        return by_id("reverse_etl_sync_id", self.reverse_etl_sync_id, options)


def _records(value: bool | list[str] | str) -> bool | list[str]:
    """
    Parse the rendered arguments.

    :raises ValueError: if the value is neither True or False nor a list of record IDs.
    """
    try:
        read = ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError):
        read = value
    if isinstance(read, bool) or (isinstance(read, list) and all(isinstance(each, str) for each in read)):
        return read
    raise ValueError(f"retry_failed_records must be True, False or a list of record IDs, not {value!r}")


def _at_most_one(**given: object) -> None:
    if all(value is not None for value in given.values()):
        raise ValueError(f"give one of {' and '.join(given)}, or neither")


class _ReverseEtlDefinitionOperator(ReactivatingOperator):
    """Base of operators that change the definition of a sync. They restore its activation in any case."""

    def _arguments(self) -> dict[str, Any]:
        from airflow_provider_datapipe.resources.reverse_etl_syncs import Definition

        given = super()._arguments()
        definition = Definition(**{field: given.pop(field) for field in Definition.__slots__})
        seconds = whole_seconds("wait_for_run", given["wait_for_run"])
        return given | {"wanted": definition, "deactivated": self._deactivated_syncs, "wait_for_run": seconds}


class ReverseEtlSyncCreateOperator(_ReverseEtlDefinitionOperator):
    """
    Create a reverse ETL sync. It is active immediately.

    A sync has no name: its source, destination connection and object type identify it. If several syncs have the same,
    the task fails and lists their IDs.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param source_id: ID of the transform or the raw view that it reads; or set ``transform_name``. (templated)
    :param transform_name: name of the source transform. (templated)
    :param folder_path: folder of the transform, if its name is not unique. (templated)
    :param destination_connection_id: ID of the connection that it writes to; or set ``destination_connection_label``.
        (templated)
    :param destination_connection_label: label of the destination connection. (templated)
    :param object_type_id: ID of the kind of object that it writes; or set ``object_type_name``. (templated)
    :param object_type_name: name of the object type at the destination. (templated)
    :param operation: ``mode`` (``insert``, ``update``, ``upsert`` or ``mirror``) and ``mappings``, each with
        ``source_property_id``, ``destination_property_id`` and optionally ``primary_key``; or its JSON.
        (templated)
    :param sync_interval: cron expression of five fields, UTC; required without an orchestration. (templated)
    :param orchestration_id: ID of the orchestration that it runs with; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)
    :param settings: settings of the destination, or their JSON. Results never contain them, but the rendered templates
        of the task show the given values. (templated)
    :param if_exists: policy if the sync exists: ``update`` it like :class:`ReverseEtlSyncUpdateOperator`, ``keep`` it
        unchanged, or ``fail``. An existing sync stays active or inactive. (templated)
    :param wait_for_run: duration of the wait for the end of a run for which the service refuses an update. (templated)

    .. seealso:: :ref:`POST /reverse_etl_syncs <interface-reverse-etl-syncs-create>`.
    """

    flow = "reverse_etl_syncs.create"
    endpoints = (
        "reverse_etl_syncs.create",
        "reverse_etl_syncs.update",
        "reverse_etl_syncs.activate",
        "reverse_etl_syncs.deactivate",
    )

    def __init__(
        self,
        *,
        operation: dict[str, Any] | str,
        source_id: str | None = None,
        transform_name: str | None = None,
        folder_path: str | None = None,
        destination_connection_id: str | None = None,
        destination_connection_label: str | None = None,
        object_type_id: str | None = None,
        object_type_name: str | None = None,
        sync_interval: str | None = None,
        orchestration_id: str | None = None,
        orchestration_name: str | None = None,
        settings: dict[str, Any] | str | None = None,
        if_exists: Literal["update", "keep", "fail"] = "update",
        wait_for_run: Duration = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _at_most_one(object_type_id=object_type_id, object_type_name=object_type_name)
        _at_most_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        exactly_one(source_id=source_id, transform_name=transform_name)
        exactly_one(
            destination_connection_id=destination_connection_id,
            destination_connection_label=destination_connection_label,
        )
        exactly_one(object_type_id=object_type_id, object_type_name=object_type_name)
        if folder_path is not None and transform_name is None:
            raise ValueError("folder_path requires transform_name")
        if sync_interval is None:
            exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)


class ReverseEtlSyncUpdateOperator(_ReverseEtlDefinitionOperator):
    """
    Change a reverse ETL sync. Omitted fields keep their values.

    The service changes only inactive syncs. The operator deactivates the sync, changes it, and activates it again if it
    was active: also if the change is refused or gets no response, if the task is stopped or times out, and, with
    Airflow 3.3 or later, in a retry after the worker was killed. Without differences, nothing is changed.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param reverse_etl_sync_id: ID of the reverse ETL sync. (templated)
    :param object_type_id: ID of the new object type; or set ``object_type_name``. (templated)
    :param object_type_name: name of the object type at the destination. (templated)
    :param operation: complete ``mode`` and ``mappings``, or their JSON. (templated)
    :param sync_interval: cron expression of five fields, UTC. Without an orchestration, the sync is detached from its
        orchestration. (templated)
    :param orchestration_id: ID of the new orchestration, which replaces ``sync_interval``; or set
        ``orchestration_name``. (templated)
    :param orchestration_name: name of the new orchestration. (templated)
    :param settings: complete settings of the destination, or their JSON. Results never contain them, but the rendered
        templates of the task show the given values. (templated)
    :param enabled: activate or deactivate the sync; None to keep its state. (templated)
    :param wait_for_run: duration of the wait for the end of a run for which the service refuses the update. (templated)

    .. seealso:: :ref:`POST /reverse_etl_syncs/{id} <interface-reverse-etl-syncs-update>`.
    """

    flow = "reverse_etl_syncs.update"
    endpoints = ("reverse_etl_syncs.update", "reverse_etl_syncs.activate", "reverse_etl_syncs.deactivate")

    def __init__(
        self,
        *,
        reverse_etl_sync_id: str,
        object_type_id: str | None = None,
        object_type_name: str | None = None,
        operation: dict[str, Any] | str | None = None,
        sync_interval: str | None = None,
        orchestration_id: str | None = None,
        orchestration_name: str | None = None,
        settings: dict[str, Any] | str | None = None,
        enabled: bool | str | None = None,
        wait_for_run: Duration = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _at_most_one(object_type_id=object_type_id, object_type_name=object_type_name)
        _at_most_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        schedule = (sync_interval, orchestration_id, orchestration_name)
        given = (object_type_id, object_type_name, operation, *schedule, settings, enabled)
        if all(value is None for value in given):
            raise ValueError("nothing to change: set the object type, operation, schedule, settings or enabled")


class DatapipeReverseEtlSyncOperator(DatapipeChangeOperator):
    """
    Base of operators that change an existing reverse ETL sync.

    :param reverse_etl_sync_id: ID of the reverse ETL sync. (templated)
    """

    def __init__(self, *, reverse_etl_sync_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class ReverseEtlSyncActivateOperator(DatapipeReverseEtlSyncOperator):
    """
    Activate a reverse ETL sync, so that it runs on its schedule. Succeeds if it is active.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    .. seealso:: :ref:`POST /reverse_etl_syncs/{id}/activate <interface-reverse-etl-syncs-activate>`.
    """

    flow = "reverse_etl_syncs.activate"
    endpoints = ("reverse_etl_syncs.activate",)


class ReverseEtlSyncDeactivateOperator(DatapipeReverseEtlSyncOperator):
    """
    Deactivate a reverse ETL sync. Succeeds if it is inactive. An active run continues.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    .. seealso:: :ref:`POST /reverse_etl_syncs/{id}/deactivate <interface-reverse-etl-syncs-deactivate>`.
    """

    flow = "reverse_etl_syncs.deactivate"
    endpoints = ("reverse_etl_syncs.deactivate",)


class ReverseEtlSyncDeleteOperator(DatapipeReverseEtlSyncOperator):
    """
    Delete a reverse ETL sync. Its records stay at the destination.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param if_missing: policy if the sync does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: :ref:`DELETE /reverse_etl_syncs/{id} <interface-reverse-etl-syncs-delete>`.
    """

    flow = "reverse_etl_syncs.delete"
    endpoints = ("reverse_etl_syncs.delete",)

    def __init__(self, *, if_missing: Literal["succeed", "fail"] = "succeed", **kwargs: Any) -> None:
        super().__init__(**kwargs)
