"""Operators that pause and restore the schedule of a resource. DAG files import this, so it imports nothing heavy."""

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


#: Key of the XCom with the snapshot whose pause has started.
_STARTED = "datapipe_schedule_started"
#: Key of the XCom with the ID (``round``) of the snapshot whose pause has completed.
_PAUSED = "datapipe_schedule_paused"
#: Key of the XCom with the ID (``round``) of the snapshot that was restored.
_RESTORED = "datapipe_schedule_restored"
#: Key of the task state with the last snapshot.
_SNAPSHOT = "datapipe.schedule"


class ScheduleSnapshotOperator(DatapipeChangeOperator):
    """
    Take a snapshot of a schedule before it is paused. Changes nothing.

    The first of the three tasks of :func:`paused_schedule`. It returns the snapshot for the two others. If an earlier
    try of this task has paused the schedule, it returns the snapshot from before that. If another task has paused it,
    the task fails, and a retry reads the schedule again.

    :param elt_sync_id: ID of an ELT sync; or one of the following. (templated)
    :param destination_schema_name: the schema that an ELT sync fills. (templated)
    :param transform_id: ID of a transform. (templated)
    :param transform_name: name of a transform. (templated)
    :param folder_path: the folder of ``transform_name``; None to search all folders. (templated)
    :param reverse_etl_sync_id: ID of a reverse ETL sync. (templated)
    :param orchestration_id: ID of an orchestration. (templated)
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
            raise ValueError("folder_path requires transform_name")
        self._owner: tuple[Any, ...] = ()
        self._open_pauses: list[ScheduleSnapshot] = []
        self._previous: ScheduleSnapshot | None = None

    def execute(self, context: Context) -> ScheduleSnapshot:
        """
        Take the snapshot.

        :raises ScheduleOwnedError: if another task has paused the schedule.
        :raises ScheduleLostError: if this task has paused the schedule, and its snapshot was lost.
        :raises ScheduleNotPausableError: if the interface cannot pause or restore this schedule.
        """
        from airflow_provider_datapipe.runs.task_state import task_state_of

        ti, state = context["ti"], task_state_of(context)
        self._owner = (self.dag_id, getattr(ti, "run_id", ""), self.task_id, getattr(ti, "map_index", -1))
        restored = [
            _pull_xcom(context, each, _RESTORED) for each in _neighbors(self, "downstream", ScheduleRestoreOperator)
        ]
        open_pauses = [
            _pull_xcom(context, each, _STARTED) for each in _neighbors(self, "downstream", SchedulePauseOperator)
        ]
        # In nested blocks, the pause and restore tasks of all blocks are direct neighbors of this task.
        self._open_pauses = [each for each in open_pauses if each is not None and each["round"] not in restored]
        previous = state.get(_SNAPSHOT)
        self._previous = previous if previous is not None and previous["round"] not in restored else None
        snapshot: ScheduleSnapshot = super().execute(context)
        # Airflow deletes the XComs of this task when it runs again, but not its task state.
        state.set(_SNAPSHOT, snapshot)
        return snapshot

    def _change(self) -> Flow[ScheduleSnapshot]:
        from airflow_provider_datapipe.resources import schedules

        return schedules.take_snapshot(
            schedules.find(**self._arguments()),
            schedules.owner_mark(*self._owner),
            paused=self.paused,
            cron_schedule=self.cron_schedule,
            open_pauses=self._open_pauses,
            previous=self._previous,
        )

    def _log_result(self, result: Any) -> None:
        name = f"{result['resource'].replace('_', ' ')} {result['name']}"
        self.log.info("Schedule of %s: %s.", name, result["original"])
        if not result["paused"]:
            self.log.warning("There is no schedule to pause: %s has no schedule, or is disabled.", name)


class _FromSnapshotOperator(ReactivatingOperator):
    """Base of operators that use a snapshot. They restore the activation of a sync in any case."""

    snapshot: Any
    wait_for_run: Duration
    template_fields_renderers: ClassVar[dict[str, str]] = {"snapshot": "json"}

    def __init__(self, *, snapshot: Any, wait_for_run: Duration = 600, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @property
    def _pause_context(self) -> Any:
        from airflow_provider_datapipe.resources.schedule_kinds import PauseContext

        return PauseContext(self._deactivated_syncs, whole_seconds("wait_for_run", self.wait_for_run))


class SchedulePauseOperator(_FromSnapshotOperator):
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

        # Push it before the first change: if the snapshot task runs again, it reads the snapshot here.
        context["ti"].xcom_push(key=_STARTED, value=read_snapshot(self.snapshot))
        result = super().execute(context)
        context["ti"].xcom_push(key=_PAUSED, value=read_snapshot(self.snapshot)["round"])
        return result

    def _change(self) -> Flow[Change]:
        from airflow_provider_datapipe.resources import schedules

        return schedules.pause(schedules.read_snapshot(self.snapshot), self._pause_context)


class ScheduleRestoreOperator(_FromSnapshotOperator):
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
        self._pause_may_be_partial = True

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

        pause_tasks = _neighbors(self, "upstream", SchedulePauseOperator)
        current = read_snapshot(self.snapshot)["round"]
        is_paused = current in [_pull_xcom(context, each, _PAUSED) for each in pause_tasks]
        has_started = current in [(_pull_xcom(context, each, _STARTED) or {}).get("round") for each in pause_tasks]
        # Without task state (before Airflow 3.3), a killed try may have left the sync deactivated without a record.
        is_recorded = context.get("task_state_store") is not None or context["ti"].try_number == 1
        is_complete = is_paused and is_recorded
        # A pause task that never started has deactivated nothing.
        never_started = bool(pause_tasks) and not has_started
        self._pause_may_be_partial = not (is_complete or never_started)
        result = super().execute(context)
        context["ti"].xcom_push(key=_RESTORED, value=read_snapshot(self.snapshot)["round"])
        return result

    async def _change(self) -> Change:
        from airflow_provider_datapipe.resources import schedules

        result, messages = await schedules.restore(
            schedules.read_snapshot(self.snapshot),
            self._pause_context,
            pause_may_be_partial=self._pause_may_be_partial,
            if_changed=self.if_changed,
        )
        for message in messages:
            self.log.warning(message)
        return result


def _neighbors(task: Any, side: str, wanted: type) -> list[str]:
    """
    Return the IDs of the direct upstream or downstream tasks of a class.

    :param side: ``upstream`` or ``downstream``.
    """
    neighbors = getattr(task, f"{side}_list") if task.has_dag() else []
    return [each.task_id for each in neighbors if issubclass(getattr(each, "operator_class", type(each)), wanted)]


def _pull_xcom(context: Context, task_id: str, key: str) -> Any:
    """Return the XCom of another task in the same mapped instance."""
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
    **resource: Any,
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
        DAG run, so this adds an empty task behind it, ``<name>_is_restored``.
    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`; None for that of ``default_args``.
    :param task_arguments: more arguments of all three tasks, such as ``retries``. A ``trigger_rule`` applies to the
        snapshot only.
    :param resource: the resource, as for :class:`ScheduleSnapshotOperator`: one of ``elt_sync_id``,
        ``destination_schema_name``, ``transform_id``, ``transform_name``, ``reverse_etl_sync_id``,
        ``orchestration_id`` and ``orchestration_name``; also ``cron_schedule`` and ``paused``.
    :raises ValueError: the DAG has a ``dagrun_timeout``.
    """
    shared = dict(task_arguments or {})
    if datapipe_conn_id is not None:
        shared["datapipe_conn_id"] = datapipe_conn_id
    snapshot = ScheduleSnapshotOperator(task_id=f"{name}_snapshot", **resource, **shared)
    dag = snapshot.get_dag()
    if dag is not None and dag.dagrun_timeout is not None:
        # At the timeout, Airflow skips all unfinished tasks, including teardowns.
        raise ValueError(
            f"DAG {dag.dag_id} has a dagrun_timeout, at which Airflow skips teardowns: the schedule of {name} would "
            "stay paused. Set execution_timeout of the tasks instead."
        )
    # default_args can contain another rule. as_teardown sets the rule of the restore task.
    rule: dict[str, Any] = {"trigger_rule": "all_success"}
    changing = {"snapshot": snapshot.output, "wait_for_run": wait_for_run, **shared, **rule}
    pause = SchedulePauseOperator(task_id=f"{name}_pause", **changing)
    restore = ScheduleRestoreOperator(task_id=f"{name}_restore", if_changed=if_changed, **changing)
    # Two setups: the teardown runs if the snapshot task has succeeded, regardless of the outcome of the pause task.
    restore.as_teardown(setups=[snapshot, pause])
    if fail_dag_run:
        # With on_failure_fail_dagrun, the teardown alone would determine the state of the DAG run.
        restore >> EmptyOperator(task_id=f"{name}_is_restored", **rule)
    with restore:
        yield PausedSchedule(snapshot, pause, restore)
