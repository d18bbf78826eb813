"""Operators that take something off its own schedule while a DAG owns it. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_datapipe.arguments import Duration, checked, exactly_one, whole_seconds
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator, ReactivatingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.resources.base import Change
    from airflow_provider_datapipe.resources.schedules import ScheduleSnapshot


#: Keys of XComs with which the three tasks share their progress.
_BEGUN = "datapipe_schedule_begun"


_TAKEN = "datapipe_schedule_taken"


_OVER = "datapipe_schedule_over"


#: Key of the task state.
_KEPT = "datapipe.schedule"


class ScheduleSnapshotOperator(DatapipeChangeOperator):
    """
    Take a snapshot of a schedule before it is paused. Changes nothing.

    The first of the three tasks of :func:`paused_schedule`. It returns the snapshot for the two others. If an earlier
    try of this task has paused the schedule, it returns the snapshot from before that. If another task has paused it,
    the task fails, and a retry reads the schedule again.

    :param elt_sync_id: ID of an ELT sync; or one of the following. (templated)
    :param destination_schema_name: the schema that an ELT sync fills. (templated)
    :param transform_id: id of a transform. (templated)
    :param transform_name: name of a transform. (templated)
    :param folder_path: the folder of ``transform_name``; None to search all folders. (templated)
    :param reverse_etl_sync_id: id of a reverse ETL sync. (templated)
    :param orchestration_id: id of an orchestration. (templated)
    :param orchestration_name: name of an orchestration. (templated)
    :param cron_schedule: the schedule to restore if the service does not return it: of an ELT sync that is attached
        to an orchestration, and of orchestrations and transforms of older services; ``none`` for no schedule.
        (templated)
    :param paused: disable the ELT sync or reverse ETL sync completely, so that the DAG cannot request runs of it
        either: True, or its text. (templated)
    """

    paused: bool | str
    cron_schedule: str | None
    not_in_flow = ("paused", "cron_schedule")

    def __init__(
        self,
        *,
        elt_sync_id: str | None = None,
        destination_schema_name: str | None = None,
        transform_id: str | None = None,
        transform_name: str | None = None,
        folder_path: str | None = None,
        reverse_etl_sync_id: str | None = None,
        orchestration_id: str | None = None,
        orchestration_name: str | None = None,
        cron_schedule: str | None = None,
        paused: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(
            elt_sync_id=elt_sync_id,
            destination_schema_name=destination_schema_name,
            transform_id=transform_id,
            transform_name=transform_name,
            reverse_etl_sync_id=reverse_etl_sync_id,
            orchestration_id=orchestration_id,
            orchestration_name=orchestration_name,
        )
        if folder_path is not None and transform_name is None:
            raise ValueError("folder_path goes with transform_name")
        self._owner: tuple[Any, ...] = ()
        self._begun: list[ScheduleSnapshot] = []
        self._kept: ScheduleSnapshot | None = None

    def execute(self, context: Context) -> ScheduleSnapshot:
        """
        Take the snapshot.

        :raises ScheduleOwnedError: if another task has paused the schedule.
        :raises ScheduleLostError: if this task has paused the schedule, and its snapshot was lost.
        :raises NotHoldableError: if the interface cannot pause or restore this schedule.
        """
        from airflow_provider_datapipe.runs.task_state import task_state_of

        ti, records = context["ti"], task_state_of(context)
        self._owner = (self.dag_id, getattr(ti, "run_id", ""), self.task_id, getattr(ti, "map_index", -1))
        over = [_pulled(context, each, _OVER) for each in _near(self, "downstream", ScheduleRestoreOperator)]
        begun = [_pulled(context, each, _BEGUN) for each in _near(self, "downstream", SchedulePauseOperator)]
        # Where things are owned within one another, the tasks of all of them are beside this one.
        self._begun = [each for each in begun if each is not None and each["round"] not in over]
        kept = records.get(_KEPT)
        self._kept = kept if kept is not None and kept["round"] not in over else None
        snapshot: ScheduleSnapshot = super().execute(context)
        # XComs of this task are gone when it is run again, its state is not.
        records.set(_KEPT, snapshot)
        return snapshot

    def _change(self) -> Flow[ScheduleSnapshot]:
        from airflow_provider_datapipe.resources import schedules

        return schedules.take_snapshot(
            schedules.find(**self._arguments()),
            schedules.never(*self._owner),
            paused=self.paused,
            cron_schedule=self.cron_schedule,
            begun=self._begun,
            kept=self._kept,
        )

    def _log_result(self, result: Any) -> None:
        what = f"{result['resource'].replace('_', ' ')} {result['name']}"
        self.log.info("Noted of %s: %s.", what, result["original"])
        if not result["held"]:
            self.log.warning("%s is on no schedule, or disabled: there is nothing to take off.", what.capitalize())


class _NotedOperator(ReactivatingOperator):
    """Base of operators that use a snapshot. They restore the activation of a sync, however the task ends."""

    snapshot: Any
    wait_for_run: Duration
    template_fields_renderers: ClassVar[dict[str, str]] = {"snapshot": "json"}

    def __init__(self, *, snapshot: Any, wait_for_run: Duration = 600, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @property
    def _pause_context(self) -> Any:
        from airflow_provider_datapipe.resources.schedule_kinds import PauseContext

        return PauseContext(self._earlier, whole_seconds("wait_for_run", self.wait_for_run))


class SchedulePauseOperator(_NotedOperator):
    """
    Pause the schedule of a snapshot. The second of the three tasks of :func:`paused_schedule`.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param snapshot: the output of :class:`ScheduleSnapshotOperator`, or its JSON. (templated)
    :param wait_for_run: duration of the wait for the end of a run for which the service refuses to change a reverse ETL
        sync. (templated)
    """

    endpoints = (
        "elt_streams.set_sync_interval",
        "elt_syncs.detach_orchestration",
        "elt_syncs.disable",
        "elt_syncs.update",
        "orchestrations.update",
        "reverse_etl_syncs.activate",
        "reverse_etl_syncs.deactivate",
        "reverse_etl_syncs.update",
        "transforms.detach_orchestration",
        "transforms.update",
    )

    def execute(self, context: Context) -> Any:
        """
        Pause the schedule.

        :raises ScheduleChangedError: if the schedule differs from the snapshot and is not paused.
        :raises ScheduleOwnedError: if another task has paused it first.
        :raises DatapipeError: if the service refused the request or was unreachable.
        """
        from airflow_provider_datapipe.resources.schedules import read_snapshot

        # Before anything is changed: the first task finds it here when it is run again.
        context["ti"].xcom_push(key=_BEGUN, value=read_snapshot(self.snapshot))
        result = super().execute(context)
        context["ti"].xcom_push(key=_TAKEN, value=read_snapshot(self.snapshot)["round"])
        return result

    def _change(self) -> Flow[Change]:
        from airflow_provider_datapipe.resources import schedules

        return schedules.pause(schedules.read_snapshot(self.snapshot), self._pause_context)


class ScheduleRestoreOperator(_NotedOperator):
    """
    Restore a schedule from its snapshot. The last of the three tasks of :func:`paused_schedule`.

    Restores only the fields that were changed for the pause. If another client has changed one of them meanwhile,
    ``if_changed`` decides. If another task has paused the schedule meanwhile, this task fails, and the other one
    restores the schedule.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param snapshot: the output of :class:`ScheduleSnapshotOperator`, or its JSON. (templated)
    :param wait_for_run: duration of the wait for the end of a run for which the service refuses to change a reverse ETL
        sync. (templated)
    :param if_changed: policy if another client has changed the schedule meanwhile: ``fail`` without restoring
        anything, ``keep`` its changes and restore the other fields, or ``restore`` all fields. (templated)
    """

    if_changed: Literal["fail", "keep", "restore"]
    endpoints = (
        "elt_streams.set_sync_interval",
        "elt_syncs.attach_orchestration",
        "elt_syncs.enable",
        "elt_syncs.update",
        "orchestrations.update",
        "reverse_etl_syncs.activate",
        "reverse_etl_syncs.deactivate",
        "reverse_etl_syncs.update",
        "transforms.attach_orchestration",
        "transforms.update",
    )

    def __init__(
        self, *, snapshot: Any, if_changed: Literal["fail", "keep", "restore"] = "fail", **kwargs: Any
    ) -> None:
        super().__init__(snapshot=snapshot, **kwargs)
        self._left_whole = False

    def execute(self, context: Context) -> Any:
        """
        Restore the schedule.

        :raises ScheduleOwnedError: if another task has paused it meanwhile.
        :raises ScheduleChangedError: if another client has changed the schedule, and ``if_changed`` is ``fail``; or if
            its orchestration was deleted.
        :raises ScheduleNotRestoredError: if the service returns another schedule afterwards.
        :raises DatapipeError: if the service refused the request or was unreachable.
        """
        from airflow_provider_datapipe.resources.schedules import read_snapshot

        takers = _near(self, "upstream", SchedulePauseOperator)
        current = read_snapshot(self.snapshot)["round"]
        is_taken = current in [_pulled(context, each, _TAKEN) for each in takers]
        has_begun = current in [(_pulled(context, each, _BEGUN) or {}).get("round") for each in takers]
        # Without task state, before Airflow 3.3, a killed try may have left the sync deactivated.
        is_reported = context.get("task_state_store") is not None or context["ti"].try_number == 1
        # A task that never began has deactivated nothing.
        self._left_whole = (is_taken and is_reported) or (bool(takers) and not has_begun)
        result = super().execute(context)
        context["ti"].xcom_push(key=_OVER, value=read_snapshot(self.snapshot)["round"])
        return result

    async def _change(self) -> Change:
        from airflow_provider_datapipe.resources import schedules

        result, said = await schedules.restore(
            schedules.read_snapshot(self.snapshot),
            self._pause_context,
            left_whole=self._left_whole,
            if_changed=self.if_changed,
        )
        for line in said:
            self.log.warning(line)
        return result


def _near(task: Any, side: str, wanted: type) -> list[str]:
    """Return the IDs of the direct neighbors of a task that are of a class."""
    beside = getattr(task, f"{side}_list") if task.has_dag() else []
    return [each.task_id for each in beside if issubclass(getattr(each, "operator_class", type(each)), wanted)]


def _pulled(context: Context, task_id: str, key: str) -> Any:
    ti = context["ti"]
    return ti.xcom_pull(task_ids=task_id, key=key, map_indexes=ti.map_index)


@dataclass(frozen=True)
class PausedSchedule:
    """
    Tasks of a paused schedule.

    :param snapshot: task that takes the snapshot.
    :param pause: task that pauses the schedule.
    :param restore: task that restores it.
    """

    snapshot: ScheduleSnapshotOperator
    pause: SchedulePauseOperator
    restore: ScheduleRestoreOperator


@checked
@contextmanager
def paused_schedule(
    name: str,
    *,
    if_changed: Literal["fail", "keep", "restore"] = "fail",
    wait_for_run: Duration = 600,
    fail_dag_run: bool = True,
    datapipe_conn_id: str | None = None,
    task_arguments: dict[str, Any] | None = None,
    **what: Any,
) -> Iterator[PausedSchedule]:
    """
    Pause the schedule of a resource while the tasks of the ``with`` block run.

    Adds three tasks around those of the block: the setups ``<name>_snapshot`` and ``<name>_pause``, and the teardown
    ``<name>_restore``, which runs regardless of the outcome of the other tasks.

    :param name: prefix of the IDs of the three tasks.
    :param if_changed: policy if another client has changed the schedule meanwhile: ``fail`` without restoring
        anything, ``keep`` its changes and restore the other fields, or ``restore`` all fields.
    :param wait_for_run: duration of the wait for the end of a run for which the service refuses to change a reverse ETL
        sync.
    :param fail_dag_run: fail the DAG run if the schedule could not be restored. A failed teardown does not fail the
        DAG run, so this adds an empty task behind it, ``<name>_is_back``.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`; None for that of ``default_args``.
    :param task_arguments: more arguments of all three tasks, such as ``retries``.
    :param what: the resource, as for :class:`ScheduleSnapshotOperator`: one of ``elt_sync_id``,
        ``destination_schema_name``, ``transform_id``, ``transform_name``, ``reverse_etl_sync_id``,
        ``orchestration_id`` and ``orchestration_name``; also ``cron_schedule`` and ``paused``.
    :raises ValueError: the DAG has a ``dagrun_timeout``.
    """
    shared = dict(task_arguments or {})
    if datapipe_conn_id is not None:
        shared["datapipe_conn_id"] = datapipe_conn_id
    snapshot = ScheduleSnapshotOperator(task_id=f"{name}_snapshot", **what, **shared)
    dag = snapshot.get_dag()
    if dag is not None and dag.dagrun_timeout is not None:
        # Airflow skips all that is not finished then, teardowns too.
        raise ValueError(
            f"DAG {dag.dag_id} has a dagrun_timeout, which skips teardowns too: {name} would stay off its "
            "schedule. Give its tasks an execution_timeout in place of it."
        )
    changing = {"snapshot": snapshot.output, "wait_for_run": wait_for_run, **shared}
    pause = SchedulePauseOperator(task_id=f"{name}_pause", **changing)
    restore = ScheduleRestoreOperator(task_id=f"{name}_restore", if_changed=if_changed, **changing)
    # Two setups: the teardown runs if the first, which changes nothing, has succeeded, whatever came of the second.
    restore.as_teardown(setups=[snapshot, pause])
    if fail_dag_run:
        # With on_failure_fail_dagrun Airflow would look at the teardown alone, and no more at the work before it.
        restore >> EmptyOperator(task_id=f"{name}_is_restored")
    with restore:
        yield PausedSchedule(snapshot, pause, restore)
