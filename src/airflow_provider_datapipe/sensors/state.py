"""Sensors for states: age of data, outcome of the last run, number of failed records, authorized connections."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_provider_datapipe.arguments import Duration, check_range
from airflow_provider_datapipe.sensors.base import DatapipeSensor
from airflow_provider_datapipe.sensors.run import (
    DatapipeOrchestrationSensor,
    DatapipeReverseEtlSensor,
    DatapipeStreamSensor,
    DatapipeSyncSensor,
)


class DatapipeFreshnessSensor(DatapipeSensor):
    """
    Base class of sensors that wait until the end of the last successful run is at most ``max_age`` ago.

    Returns the :class:`~airflow_provider_datapipe.runs.models.RunResult` of this run. Failed runs and the slices of
    an unfinished load do not count.

    :param max_age: maximum age, as a duration.
    :param as_of: the time at which the age is measured, with a time zone, or its ISO 8601 text, such as
        ``{{ data_interval_end }}`` for backfills; None for the time of each poll. A run that ended later also counts as
        fresh. (templated)
    """

    condition = "fresh"
    not_templated = ("max_age",)

    def __init__(self, *, max_age: Duration, as_of: str | datetime | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_range("max_age", max_age)


class EltStreamFreshnessSensor(DatapipeStreamSensor, DatapipeFreshnessSensor):
    """
    Sensor that waits until an ELT stream is fresh. See :class:`DatapipeFreshnessSensor` for the other parameters.

    .. seealso:: :ref:`GET /elt_stream_runs <interface-elt-stream-runs-list>`.
    """


class EltSyncFreshnessSensor(DatapipeSyncSensor, DatapipeFreshnessSensor):
    """
    Sensor that waits until each stream of an ELT sync is fresh.

    One request polls all streams. The sensor polls them directly only when all of them may be fresh. It returns a
    :class:`~airflow_provider_datapipe.runs.elt_sync.SyncResult`. See :class:`DatapipeFreshnessSensor` for the other
    parameters.

    .. seealso:: :ref:`GET /elt_syncs/{id}/status <interface-elt-syncs-status>`.
    """

    condition = "sync"


class OrchestrationFreshnessSensor(DatapipeOrchestrationSensor, DatapipeFreshnessSensor):
    """
    Sensor that waits until the last successful run of an orchestration is recent. See :class:`DatapipeFreshnessSensor`.

    .. seealso:: :ref:`GET /orchestration_runs <interface-orchestration-runs-list>`.
    """


class ReverseEtlFreshnessSensor(DatapipeReverseEtlSensor, DatapipeFreshnessSensor):
    """
    Sensor that waits until the destination of a reverse ETL sync is fresh. See :class:`DatapipeFreshnessSensor`.

    A run with failed records does not count as successful.

    .. seealso:: :ref:`GET /reverse_etl_sync_runs <interface-reverse-etl-sync-runs-list>`.
    """


class DatapipeLastRunSensor(DatapipeSensor):
    """
    Base class of sensors for the last finished run, even if another run is active.

    Returns its :class:`~airflow_provider_datapipe.runs.models.RunResult`. A run that did not succeed fails the
    sensor, or skips it with ``soft_fail`` or ``never_fail``. The sensor waits only if no run has finished yet.
    """

    condition = "last_run"


class EltStreamLastRunSensor(DatapipeStreamSensor, DatapipeLastRunSensor):
    """
    Sensor for the last finished run of an ELT stream. See :class:`DatapipeLastRunSensor`.

    .. seealso:: :ref:`GET /elt_stream_runs <interface-elt-stream-runs-list>`.
    """


class OrchestrationLastRunSensor(DatapipeOrchestrationSensor, DatapipeLastRunSensor):
    """
    Sensor for the last finished run of an orchestration. See :class:`DatapipeLastRunSensor`.

    .. seealso:: :ref:`GET /orchestration_runs <interface-orchestration-runs-list>`.
    """


class ReverseEtlLastRunSensor(DatapipeReverseEtlSensor, DatapipeLastRunSensor):
    """
    Sensor for the last finished run of a reverse ETL sync. See :class:`DatapipeLastRunSensor`.

    .. seealso:: :ref:`GET /reverse_etl_sync_runs <interface-reverse-etl-sync-runs-list>`.
    """


class ReverseEtlFailedRecordsSensor(DatapipeReverseEtlSensor):
    """
    Sensor that waits until a reverse ETL sync has few unresolved failed records.

    Returns ``reverse_etl_sync_id``, ``failed_records`` (their number) and ``at_most``.

    :param at_most: maximum number of failed records.

    .. seealso:: :ref:`GET /reverse_etl_failed_records/count <interface-reverse-etl-failed-records-count>`.
    """

    condition = "failed_records"
    not_templated = ("at_most",)

    def __init__(self, *, at_most: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if at_most < 0:
            raise ValueError(f"at_most must be 0 or more, not {at_most}")


class ConnectionBridgeSensor(DatapipeSensor):
    """
    Sensor that waits until a user has authorized a connection with a connection bridge.

    Returns ``connection_id``, ``integration_id`` and ``label``. The sensor recognizes a new connection by its
    integration and label: it did not exist before the bridge. It recognizes a connection that is authorized again by
    the removal of the bridge from the list of active bridges. If the bridge expires first, the sensor fails, or is
    skipped with ``soft_fail``.

    :param bridge: the result of a
        :class:`~airflow_provider_datapipe.operators.connections.ConnectionBridgeCreateOperator`, such as
        ``bridge.output``. (templated)

    .. seealso:: :ref:`GET /connections <interface-connections-list>` and
        :ref:`GET /connection_bridges <interface-connection-bridges-list>`.
    """

    condition = "connection_bridge"

    def __init__(self, *, bridge: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
