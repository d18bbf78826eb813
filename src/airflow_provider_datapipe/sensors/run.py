"""Sensors that wait for runs which others start. Nothing heavy is imported here: DAG files import this."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

from airflow_provider_datapipe.sensors.base import (
    DATA_INTERVAL_END,
    DatapipeOrchestrationSensor,
    DatapipeReverseEtlSensor,
    DatapipeSensor,
    DatapipeStreamSensor,
    DatapipeSyncSensor,
)


class DatapipeAfterSensor(DatapipeSensor):
    """
    A sensor for what comes after a moment.

    :param after: the moment: a time with a time zone, or its ISO 8601 text. The default is the end of the data
        interval, so that a backfill waits for the run of its own time; where a DAG run has none, the time from which it
        was to run. (templated)
    :param moment_of: what of a run has to be at or after it: its ``start``, so that it has read what was there then, or
        its ``end``.
    :param on_failure: what a run means that counts and did not succeed: ``fail``, or ``next``, to wait for the run
        after it.
    """

    template_fields: Sequence[str] = ("after",)
    condition_fields: ClassVar[tuple[str, ...]] = ("after", "moment_of", "on_failure")

    def __init__(
        self,
        *,
        after: str | datetime | None = DATA_INTERVAL_END,
        moment_of: Literal["start", "end"] = "start",
        on_failure: Literal["fail", "next"] = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.after = after
        self.moment_of = moment_of
        self.on_failure = on_failure


class DatapipeRunSensor(DatapipeAfterSensor):
    """
    Waits for the end of a run, and returns its :class:`~airflow_provider_datapipe.runs.reference.RunResult`.

    It is the first run that started, or ended, at or after a moment: whenever one looks, the same. A run that did not
    succeed fails the sensor, or skips it with ``soft_fail`` or ``never_fail``.

    :param run_id: alternatively, the ID of the run. (templated)
    :param newest: wait for the newest run at the first poll instead: the active or due one, else the one that finished
        last; with no run so far, the first. Runs that are planned for later do not count. In mode ``reschedule`` with
        Airflow before 3.3, which has no task state, it is the newest run at each poll.
    """

    template_fields: Sequence[str] = (*DatapipeSensor.template_fields, "run_id", *DatapipeAfterSensor.template_fields)
    condition = "run"
    condition_fields: ClassVar[tuple[str, ...]] = ("run_id", "newest", *DatapipeAfterSensor.condition_fields)

    def __init__(self, *, run_id: str | None = None, newest: bool = False, **kwargs: Any) -> None:
        otherwise = run_id is not None or newest
        if otherwise:
            if run_id is not None and newest:
                raise ValueError("give one of run_id and newest")
            if given := {"after", "moment_of", "on_failure"} & kwargs.keys():
                raise ValueError(f"{', '.join(sorted(given))}: not together with run_id or newest, which say which run")
            kwargs["after"] = None
        super().__init__(**kwargs)
        if not otherwise and self.after is None:
            raise ValueError("after is None: leave it out for the end of the data interval, or give newest=True")
        self.run_id = run_id
        self.newest = newest or None


class EltStreamRunSensor(DatapipeStreamSensor, DatapipeRunSensor):
    """
    Waits for the end of a run of an ELT stream. See :class:`DatapipeRunSensor` for the other parameters.

    .. seealso:: interface.md, "GET /elt_stream_runs".
    """

    template_fields: Sequence[str] = (*DatapipeRunSensor.template_fields, *DatapipeStreamSensor.template_fields)
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeRunSensor.condition_fields,
        *DatapipeStreamSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class OrchestrationRunSensor(DatapipeOrchestrationSensor, DatapipeRunSensor):
    """
    Waits for the end of a run of an orchestration. See :class:`DatapipeRunSensor` for the other parameters.

    .. seealso:: interface.md, "GET /orchestration_runs".
    """

    template_fields: Sequence[str] = (*DatapipeRunSensor.template_fields, *DatapipeOrchestrationSensor.template_fields)
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeRunSensor.condition_fields,
        *DatapipeOrchestrationSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class ReverseEtlRunSensor(DatapipeReverseEtlSensor, DatapipeRunSensor):
    """
    Waits for the end of a run of a reverse ETL sync. See :class:`DatapipeRunSensor` for the other parameters.

    .. seealso:: interface.md, "GET /reverse_etl_sync_runs".
    """

    template_fields: Sequence[str] = (*DatapipeRunSensor.template_fields, *DatapipeReverseEtlSensor.template_fields)
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeRunSensor.condition_fields,
        *DatapipeReverseEtlSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready()


class EltSyncRunSensor(DatapipeSyncSensor, DatapipeAfterSensor):
    """
    Waits until each stream of an ELT sync has had a run after a moment, at one request for a look at all of them.

    It returns a :class:`~airflow_provider_datapipe.runs.sync.SyncResult`, and fails once all have ended if one of them
    did not succeed.

    .. seealso:: interface.md, "GET /elt_syncs/{id}/status".
    """

    template_fields: Sequence[str] = (
        *DatapipeSensor.template_fields,
        *DatapipeSyncSensor.template_fields,
        *DatapipeAfterSensor.template_fields,
    )
    condition_fields: ClassVar[tuple[str, ...]] = (
        *DatapipeSyncSensor.condition_fields,
        *DatapipeAfterSensor.condition_fields,
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.after is None:
            raise ValueError("after is None: leave it out for the end of the data interval")
        self._ready()
