"""Sensors that look at how things stand: how old data is, how a run ended, how many records failed, who authorized."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from airflow_provider_datapipe.arguments import Duration, check_range
from airflow_provider_datapipe.sensors.base import (
    DatapipeOrchestrationSensor,
    DatapipeReverseEtlSensor,
    DatapipeSensor,
    DatapipeStreamSensor,
    DatapipeSyncSensor,
)


class DatapipeFreshnessSensor(DatapipeSensor):
    """
    Waits until the last run that succeeded ended no longer ago than a duration.

    It returns the :class:`~airflow_provider_datapipe.runs.reference.RunResult` of that run. Runs that failed are passed
    over, and so are slices of a load that goes on.

    :param max_age: the duration, or seconds.
    :param as_of: the moment from which it is counted: a time with a time zone, or its ISO 8601 text, such as
        ``{{ data_interval_end }}`` for backfills; None for the time of each look. What ended later than this is fresh
        as well. (templated)
    """

    template_fields: Sequence[str] = (*DatapipeSensor.template_fields, "as_of")
    condition = "fresh"
    condition_fields: ClassVar[tuple[str, ...]] = ("max_age", "as_of")

    def __init__(self, *, max_age: Duration, as_of: str | datetime | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_range("max_age", max_age)
        self.max_age = max_age
        self.as_of = as_of


class EltStreamFreshnessSensor(DatapipeStreamSensor, DatapipeFreshnessSensor):
    """
    Waits until an ELT stream is fresh. See :class:`DatapipeFreshnessSensor` for the other parameters.

    .. seealso:: interface.md, "GET /elt_stream_runs".
    """

    template_fields: Sequence[str] = (*DatapipeFreshnessSensor.template_fields, *DatapipeStreamSensor.template_fields)
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeFreshnessSensor.condition_fields,
        *DatapipeStreamSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class EltSyncFreshnessSensor(DatapipeSyncSensor, DatapipeFreshnessSensor):
    """
    Waits until each stream of an ELT sync is fresh, at one request for a look at all of them.

    It returns a :class:`~airflow_provider_datapipe.runs.sync.SyncResult`. See :class:`DatapipeFreshnessSensor` for the
    other parameters.

    .. seealso:: interface.md, "GET /elt_syncs/{id}/status".
    """

    template_fields: Sequence[str] = (*DatapipeFreshnessSensor.template_fields, *DatapipeSyncSensor.template_fields)
    condition = "sync"
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeFreshnessSensor.condition_fields,
        *DatapipeSyncSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class OrchestrationFreshnessSensor(DatapipeOrchestrationSensor, DatapipeFreshnessSensor):
    """
    Waits until the last good run of an orchestration is recent. See :class:`DatapipeFreshnessSensor`.

    .. seealso:: interface.md, "GET /orchestration_runs".
    """

    template_fields: Sequence[str] = (
        *DatapipeFreshnessSensor.template_fields,
        *DatapipeOrchestrationSensor.template_fields,
    )
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeFreshnessSensor.condition_fields,
        *DatapipeOrchestrationSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class ReverseEtlFreshnessSensor(DatapipeReverseEtlSensor, DatapipeFreshnessSensor):
    """
    Waits until the destination of a reverse ETL sync is fresh. See :class:`DatapipeFreshnessSensor`.

    A run in which records failed has not succeeded.

    .. seealso:: interface.md, "GET /reverse_etl_sync_runs".
    """

    template_fields: Sequence[str] = (
        *DatapipeFreshnessSensor.template_fields,
        *DatapipeReverseEtlSensor.template_fields,
    )
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeFreshnessSensor.condition_fields,
        *DatapipeReverseEtlSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class DatapipeLastRunSensor(DatapipeSensor):
    """
    Judges the last run that has ended, whatever goes on now, and returns its RunResult.

    A run that did not succeed fails the sensor at once, or skips it with ``soft_fail`` or ``never_fail``. It waits only
    where no run has ended so far.
    """

    condition = "last_run"


class EltStreamLastRunSensor(DatapipeStreamSensor, DatapipeLastRunSensor):
    """
    Judges the last run of an ELT stream. See :class:`DatapipeLastRunSensor`.

    .. seealso:: interface.md, "GET /elt_stream_runs".
    """

    template_fields: Sequence[str] = (*DatapipeSensor.template_fields, *DatapipeStreamSensor.template_fields)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class OrchestrationLastRunSensor(DatapipeOrchestrationSensor, DatapipeLastRunSensor):
    """
    Judges the last run of an orchestration. See :class:`DatapipeLastRunSensor`.

    .. seealso:: interface.md, "GET /orchestration_runs".
    """

    template_fields: Sequence[str] = (*DatapipeSensor.template_fields, *DatapipeOrchestrationSensor.template_fields)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class ReverseEtlLastRunSensor(DatapipeReverseEtlSensor, DatapipeLastRunSensor):
    """
    Judges the last run of a reverse ETL sync. See :class:`DatapipeLastRunSensor`.

    .. seealso:: interface.md, "GET /reverse_etl_sync_runs".
    """

    template_fields: Sequence[str] = (*DatapipeSensor.template_fields, *DatapipeReverseEtlSensor.template_fields)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class ReverseEtlFailedRecordsSensor(DatapipeReverseEtlSensor):
    """
    Waits until a reverse ETL sync has few unresolved failed records.

    It returns ``reverse_etl_sync_id``, ``failed_records`` (how many there are) and ``at_most``.

    :param at_most: how many there may be.

    .. seealso:: interface.md, "GET /reverse_etl_failed_records/count".
    """

    template_fields: Sequence[str] = (*DatapipeSensor.template_fields, *DatapipeReverseEtlSensor.template_fields)
    condition = "failed_records"
    condition_fields: ClassVar[tuple[str, ...]] = ("at_most", *DatapipeReverseEtlSensor.condition_fields)

    def __init__(self, *, at_most: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if at_most < 0:
            raise ValueError(f"at_most must be 0 or more, not {at_most}")
        self.at_most = at_most
        self._ready()


class ConnectionBridgeSensor(DatapipeSensor):
    """
    Waits until a user has authorized a connection bridge, so that its connection exists.

    It returns ``connection_id``, ``integration_id`` and ``label``. A new connection is told by its integration and its
    label, among those that were not there before the bridge; one that is authorized again by the bridge's going from
    the list of those that are active. When the bridge's time is over, the sensor fails, or is skipped with
    ``soft_fail``.

    :param bridge: the result of a
        :class:`~airflow_provider_datapipe.operators.connection.ConnectionBridgeCreateOperator`, such as
        ``bridge.output``. (templated)

    .. seealso:: interface.md, "GET /connections" and "GET /connection_bridges".
    """

    template_fields: Sequence[str] = (*DatapipeSensor.template_fields, "bridge")
    condition = "connection_bridge"
    condition_fields: ClassVar[tuple[str, ...]] = ("bridge",)

    def __init__(self, *, bridge: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bridge = bridge
        self._ready()
