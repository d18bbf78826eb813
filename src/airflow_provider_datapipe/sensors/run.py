"""Sensors for runs that other tasks or the service start. DAG files import this module: no large packages here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

from airflow_provider_datapipe.arguments import exactly_one, identify_stream
from airflow_provider_datapipe.sensors.base import DATA_INTERVAL_END, DatapipeSensor


class DatapipeStreamSensor(DatapipeSensor):
    """
    Base class of sensors for an ELT stream.

    :param stream_id: ID of the stream; alternatively, ``sync_id`` and ``stream_name``. (templated)
    :param sync_id: ID of the sync of the stream. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    """

    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "elt_stream"}

    def __init__(
        self, *, stream_id: str | None = None, sync_id: str | None = None, stream_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        identify_stream(stream_id, stream_name, sync_id=sync_id)


class DatapipeSyncSensor(DatapipeSensor):
    """
    Base class of sensors for the streams of an ELT sync.

    :param sync_id: ID of the sync. (templated)
    :param streams: names or IDs of the streams; None for all. (templated)
    """

    condition = "sync"
    non_empty_lists: ClassVar[Mapping[str, str]] = {"streams": "all streams of the sync"}

    def __init__(self, *, sync_id: str, streams: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class DatapipeOrchestrationSensor(DatapipeSensor):
    """
    Base class of sensors for an orchestration.

    :param orchestration_id: ID of the orchestration; alternatively, ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)
    """

    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "orchestration"}

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)


class DatapipeReverseEtlSensor(DatapipeSensor):
    """
    Base class of sensors for a reverse ETL sync.

    :param reverse_etl_sync_id: ID of the reverse ETL sync. (templated)
    """

    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "reverse_etl"}

    def __init__(self, *, reverse_etl_sync_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class DatapipeAfterSensor(DatapipeSensor):
    """
    Base class of sensors for the first run after a time.

    :param after: the time, with a time zone, or its ISO 8601 text. The default is the end of the data interval, so that
        a backfill waits for the run of its own interval. If the DAG run has no data interval, the default is its
        ``run_after``. (templated)
    :param moment_of: the time of a run to compare: its ``start``, so that the run has read all data from before
        ``after``, or its ``end``. A run counts if this time is ``after`` or later.
    :param on_failure: policy if the run did not succeed: ``fail``, or wait for the ``next`` run.
    """

    after: str | datetime | None
    not_templated: ClassVar[tuple[str, ...]] = ("moment_of", "on_failure")

    def __init__(
        self,
        *,
        after: str | datetime | None = DATA_INTERVAL_END,
        moment_of: Literal["start", "end"] = "start",
        on_failure: Literal["fail", "next"] = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)


class DatapipeRunSensor(DatapipeAfterSensor):
    """
    Sensor for the end of a run. Returns its :class:`~airflow_provider_datapipe.runs.models.RunResult`.

    By default, it waits for the first run that started (or ended) at or after a time, so that the result does not
    depend on the time of the poll. A run that did not succeed fails the sensor, or skips it with ``soft_fail`` or
    ``never_fail``.

    :param run_id: ID of the run, instead of ``after``. (templated)
    :param newest: wait for the newest run at the first poll instead: the active or due one, else the one that finished
        last, else the first run ever. Runs that are planned for later do not count. In mode ``reschedule`` with Airflow
        before 3.3, which has no task state, the sensor selects the newest run at each poll.
    """

    condition = "run"
    not_templated = ("newest",)

    def __init__(self, *, run_id: str | None = None, newest: bool = False, **kwargs: Any) -> None:
        otherwise = run_id is not None or newest
        if otherwise:
            if run_id is not None and newest:
                raise ValueError("set only one of run_id and newest")
            if given := {"after", "moment_of", "on_failure"} & kwargs.keys():
                raise ValueError(f"{', '.join(sorted(given))}: not allowed with run_id or newest, which select the run")
            kwargs["after"] = None
        self.newest = newest or None
        super().__init__(**kwargs)
        if not otherwise and self.after is None:
            raise ValueError("after is None: omit it for the end of the data interval, or set newest=True")


class EltStreamRunSensor(DatapipeStreamSensor, DatapipeRunSensor):
    """
    Sensor for the end of a run of an ELT stream. See :class:`DatapipeRunSensor` for the other parameters.

    .. seealso:: :ref:`GET /elt_stream_runs <interface-elt-stream-runs-list>`.
    """


class OrchestrationRunSensor(DatapipeOrchestrationSensor, DatapipeRunSensor):
    """
    Sensor for the end of a run of an orchestration. See :class:`DatapipeRunSensor` for the other parameters.

    .. seealso:: :ref:`GET /orchestration_runs <interface-orchestration-runs-list>`.
    """


class ReverseEtlRunSensor(DatapipeReverseEtlSensor, DatapipeRunSensor):
    """
    Sensor for the end of a run of a reverse ETL sync. See :class:`DatapipeRunSensor` for the other parameters.

    .. seealso:: :ref:`GET /reverse_etl_sync_runs <interface-reverse-etl-sync-runs-list>`.
    """


class EltSyncRunSensor(DatapipeSyncSensor, DatapipeAfterSensor):
    """
    Sensor that waits until each stream of an ELT sync has finished a run after a time.

    One request polls all streams. The sensor polls them directly only when all of them may have finished. It returns a
    :class:`~airflow_provider_datapipe.runs.elt_sync.SyncResult`. If a run did not succeed, the sensor fails after all
    runs have finished.

    .. seealso:: :ref:`GET /elt_syncs/{id}/status <interface-elt-syncs-status>`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.after is None:
            raise ValueError("after is None: omit it for the end of the data interval")
