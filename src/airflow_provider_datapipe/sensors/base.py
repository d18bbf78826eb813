"""Base classes of the sensors. DAG files import this module, so it imports no large packages."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow import __version__ as airflow_version
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_datapipe.arguments import CheckedArguments, Duration, check_range, seconds
from airflow_provider_datapipe.links import ADDRESS, DatapipeLink, MapLabel, address_of, show_link
from airflow_provider_datapipe.operators.base import DEFERRABLE, SENSOR_TIMEOUT, deadline_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.conditions.base import Check, Condition
    from airflow_provider_datapipe.runs.conditions.sensor_backoff import SensorBackoff
    from airflow_provider_datapipe.runs.models import RunRef
    from airflow_provider_datapipe.runs.task_state import AirflowTaskStateStore

#: End of the data interval. DAG runs without a logical date have none; for them, the time from which they can run.
DATA_INTERVAL_END = "{{ data_interval_end | default(none) or dag_run.run_after }}"
#: Key of the task state that keeps the results of earlier polls for mode="reschedule".
_STATE = "datapipe.sensor"
#: The first version of Airflow in which a task can start from its trigger.
_STARTS_FROM_TRIGGER = (3, 3)


class DatapipeSensor(CheckedArguments, MapLabel, BaseSensorOperator):
    """
    Base class of sensors that wait until a condition is met. All modes have the same result.

    Failed polls are repeated. The sensor fails after 30 minutes without an answer, or at once if the condition cannot
    be met, for example because an ID does not exist.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    :param deferrable: wait in the triggerer, without a worker slot. The default is Airflow's
        ``[operators] default_deferrable``.
    :param defer_after: time that a deferrable sensor polls in the worker before it defers; 0 defers at once. None for
        the ``defer_after`` of the connection, then ``[datapipe] defer_after``. Without these, a sensor that waits for
        an active run decides as the operators do, and other sensors defer at once.
    :param start_from_trigger: start in the triggerer, so that the task needs a worker only at the end (Airflow 3.3 or
        later). Not available for mapped tasks and for values from other tasks, which Airflow does not pass to triggers.
    :param poke_interval: time between two polls.
    :param timeout: time limit of the wait. The default is Airflow's ``[sensors] default_timeout``.
    """

    template_fields: Sequence[str] = ("datapipe_conn_id",)
    operator_extra_links = (DatapipeLink(),)
    ui_color = "#d7efe9"

    #: Name of the condition.
    condition: ClassVar[str]
    #: Arguments of subclasses, which are the fields of the condition.
    declared_arguments: ClassVar[tuple[str, ...]] = ()
    #: Fields of the condition that are constant for the class.
    condition_constants: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        *,
        datapipe_conn_id: str = "datapipe_default",
        deferrable: bool = DEFERRABLE,
        defer_after: Duration | None = None,
        start_from_trigger: bool = False,
        poke_interval: Duration = 60,
        timeout: Duration = SENSOR_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=seconds(poke_interval), timeout=seconds(timeout), **kwargs)
        self.datapipe_conn_id = datapipe_conn_id
        # Without a scheduler, as under dag.test(), Airflow does not start tasks from their triggers: defer instead.
        self.deferrable = deferrable or start_from_trigger
        self.defer_after = defer_after
        check_range("defer_after", defer_after, can_be_zero=True)
        # Airflow applies default arguments to mapped tasks when they run, too late for a start from the trigger.
        self.start_from_trigger = start_from_trigger and not getattr(self, "_BaseOperator__from_mapped", False)
        # Shared by all pokes, so that names are looked up once.
        self._poll_state: tuple[Condition, SensorBackoff] | None = None
        self._stored_state: dict[str, Any] | None = None
        # Result of the last poll: description, active run, and the time before which the service must not be polled.
        self._description = "no answer so far"
        self._running: RunRef | None = None
        self._poll_after: float | None = None
        if start_from_trigger:
            _check_airflow()
        self._set_start_trigger()

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """
        Map the sensor.

        :raises ValueError: if ``start_from_trigger`` is set.
        """
        if kwargs.get("start_from_trigger"):
            raise ValueError(_NOT_MAPPED)
        return super().partial(**kwargs)

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """
        Poll once. Failed polls count as False until contact has been lost for 30 minutes.

        :raises DatapipeError: if the condition is met by a failure, or cannot be met.
        """
        with contextlib.closing(self._hook()) as hook:
            return self._poke(hook, context)

    def _poke(self, hook: DatapipeHook, context: Context) -> bool | PokeReturnValue:
        from airflow_provider_datapipe.api.errors import DatapipeError, first_line
        from airflow_provider_datapipe.runs.missing_runs import is_missing

        self._restore_state(context)
        condition, backoff = self._condition_and_backoff()
        if not hasattr(self, ADDRESS):
            # Before the poll, so that the link is shown also if the poll fails.
            self._show_link(hook, context)
        try:
            check = hook.run(condition.check(time.time()))
        except DatapipeError as error:
            self._show_link(hook, context)
            if backoff.is_final(error, time.time()):
                raise
            pause = backoff.failed(error, time.time(), self.poke_interval)
            self._description = first_line(error).rstrip(".")
            self._running, self._poll_after = None, time.time() + pause
            if line := backoff.contact_line(error, time.time()):
                self.log.log(*line)
            self._save_state(context)
            if not (self._is_rescheduled and is_missing(error)):
                return False
            # The next poke runs in another process, which does not know this answer.
            time.sleep(pause)
            return self._poke(hook, context)
        backoff.answered(time.time())
        if line := backoff.contact_line(None, time.time()):
            self.log.log(*line)
        self._show_link(hook, context, check)
        self._description, self._poll_after = check.description, None
        self._running = check.awaited if check.is_running else None
        if not check.is_met:
            self._save_state(context)
            self.log.info("Not yet: %s.", check.description)
            return False
        return PokeReturnValue(is_done=True, xcom_value=self._task_result(hook, check))

    def execute(self, context: Context) -> Any:
        """Poke once, then defer or continue to poke."""
        if not self.deferrable:
            return self._poke_in_worker(context)
        deadline = deadline_of(self, context, self.timeout)
        with self._applying_skip_flags():
            done = self._poke_before_deferral(context, deadline)
        if isinstance(done, PokeReturnValue):
            return done.xcom_value
        if time.time() >= deadline:
            self._time_out(f"The sensor timed out: {self._description}.")
        return self._wait_in_triggerer(deadline)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """
        Return the result after the deferral, or defer again.

        :param event: the event of :class:`~airflow_provider_datapipe.triggers.condition.DatapipeConditionTrigger`.
        :raises AirflowSensorTimeout: if the condition was not met within ``timeout``.
        :raises AirflowTaskTimeout: if the condition was not met within ``execution_timeout``.
        :raises DatapipeError: if the condition is met by a failure, or cannot be met.
        """
        from airflow_provider_datapipe.runs.conditions.base import Check
        from airflow_provider_datapipe.runs.errors import LostContactError

        status = event.get("status")
        with self._applying_skip_flags():
            # A trigger of an earlier version does not send the fields.
            self._condition_and_backoff(event.get("fields"))
            if status == "success":
                check = Check.from_dict(event["check"])
                with contextlib.closing(self._hook()) as hook:
                    self._show_link(hook, context, check)
                    return self._task_result(hook, check)
            if status not in ("again", "timeout"):
                raise LostContactError(str(event.get("message") or f"the trigger gave {status!r}"))
            # Repeat the poll that failed in the trigger: it raises the error, or succeeds.
            done = self.poke(context)
        if isinstance(done, PokeReturnValue):
            return done.xcom_value
        if status == "timeout":
            self._time_out(f"The sensor timed out: {event.get('description')}.")
        deadline = event.get("deadline") or deadline_of(self, context, self.timeout)
        return self._wait_in_triggerer(deadline, retries_final_errors=True)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after the deferral. If Airflow ended it after ``execution_timeout``, raise AirflowTaskTimeout."""
        from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowTaskTimeout

        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            if self._is_limited_by_execution:
                raise AirflowTaskTimeout(str(error)) from error
            raise

    def _poke_before_deferral(self, context: Context, deadline: float) -> bool | PokeReturnValue:
        """Poll in the worker before the deferral. Return the result of the last poll."""
        from airflow_provider_datapipe.runs.worker_wait import sensor_intervals

        with contextlib.closing(self._hook()) as hook:
            setting = self._defer_after_setting(hook)
            done = self._poke(hook, context)
            until = min(time.time() + self._seconds_in_worker(hook, setting), deadline)
            for interval in sensor_intervals(self.poke_interval):
                # After a failed poll, the triggerer waits for the service to recover.
                if isinstance(done, PokeReturnValue) or self._poll_after is not None or time.time() >= until:
                    break
                time.sleep(min(interval, until - time.time()))
                done = self._poke(hook, context)
        return done

    def _defer_after_setting(self, hook: DatapipeHook) -> float | None:
        from airflow_provider_datapipe.operators.deferral import defer_after_setting, minimum_deferral_time

        # Raise for an invalid setting before the wait.
        minimum_deferral_time(self)
        argument = None if self.defer_after is None else seconds(self.defer_after)
        return defer_after_setting(argument, hook.extra.defer_after)

    def _seconds_in_worker(self, hook: DatapipeHook, setting: float | None) -> float:
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.runs.conditions.runs import durations_of_earlier_runs
        from airflow_provider_datapipe.runs.worker_wait import seconds_in_worker

        if setting is not None or self._running is None:
            return setting or 0.0
        try:
            return seconds_in_worker([hook.run(durations_of_earlier_runs(self._running))])
        except DatapipeError as error:
            # The triggerer waits for the service to recover.
            self.log.warning("%s", error)
            return 0.0

    def _poke_in_worker(self, context: Context) -> Any:
        from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, AirflowTaskTimeout

        try:
            return super().execute(context)
        except (AirflowSensorTimeout, AirflowTaskTimeout) as error:
            # Airflow ignores never_fail for its own timeout, and both flags for execution_timeout between two pokes.
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from None
            raise

    def _set_start_trigger(self) -> None:
        """Set the trigger that Airflow starts the task with."""
        for name, value in self._fields().items():
            if isinstance(value, datetime) and value.utcoffset() is None:
                raise ValueError(f"{name} has no time zone: {value}")
        if not self.start_from_trigger:
            return
        from airflow.triggers.base import StartTriggerArgs

        arguments = {"datapipe_conn_id": self.datapipe_conn_id, **self._fields()}
        for name, value in arguments.items():
            _check_renders_in_triggerer(name, value)
        limits = [self.timeout, *([self.execution_timeout.total_seconds()] if self.execution_timeout else [])]
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="airflow_provider_datapipe.triggers.condition.DatapipeConditionTrigger",
            trigger_kwargs={"condition": self.condition, "poll_interval": self.poke_interval, **_as_json(arguments)},
            next_method="execute_complete",
            timeout=timedelta(seconds=min(limits)),
        )

    def _wait_in_triggerer(self, deadline: float, *, retries_final_errors: bool = False) -> NoReturn:
        from airflow_provider_datapipe.operators.deferral import DEFERRED, hold_arguments
        from airflow_provider_datapipe.triggers.condition import DatapipeConditionTrigger

        condition, backoff = self._condition_and_backoff()
        trigger = DatapipeConditionTrigger(
            self.condition,
            self.datapipe_conn_id,
            self.poke_interval,
            deadline,
            retries_final_errors,
            poll_after=self._poll_after,
            lost_since=backoff.lost_since,
            **hold_arguments(self),
            **condition.fields,
        )
        self.log.info(DEFERRED)
        self.defer(trigger=trigger, method_name="execute_complete")

    def _fields(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.declared_arguments}
        return {**self.condition_constants, **{name: value for name, value in own.items() if value is not None}}

    def _condition_and_backoff(self, fields: dict[str, Any] | None = None) -> tuple[Condition, SensorBackoff]:
        """
        Return the condition and the backoff, which are created once.

        :param fields: fields of the condition after earlier polls; None for those of the arguments.
        """
        from airflow_provider_datapipe.runs.conditions.registry import condition_of
        from airflow_provider_datapipe.runs.conditions.sensor_backoff import SensorBackoff

        if self._poll_state is None:
            condition = condition_of(self.condition, fields or _as_json(self._fields()))
            self._poll_state = (condition, SensorBackoff(time.time(), polled_before=self._is_rescheduled))
        return self._poll_state

    def _restore_state(self, context: Context) -> None:
        """Restore the state of earlier polls. With ``mode="reschedule"``, each poll runs in its own process."""
        from airflow_provider_datapipe.runs.conditions.registry import condition_of
        from airflow_provider_datapipe.runs.conditions.sensor_backoff import SensorBackoff

        store: AirflowTaskStateStore | None = context.get("task_state_store")
        if self._poll_state or not self.reschedule or store is None:
            return
        stored = store.get(_STATE)
        # A retry, or a task that was cleared, starts without the stored state.
        if stored and stored["try_number"] == _try_number(context):
            self._stored_state = stored
            since = stored["failing_since"]
            backoff = SensorBackoff(since or time.time(), polled_before=stored["was_answered"], lost_since=since)
            backoff.was_answered = stored["was_answered"]
            self._poll_state = (condition_of(self.condition, stored["fields"]), backoff)

    def _save_state(self, context: Context) -> None:
        """Store the state for the next poll. Airflow before 3.3 has no task state."""
        store: AirflowTaskStateStore | None = context.get("task_state_store")
        if not self.reschedule or store is None:
            return
        condition, backoff = self._condition_and_backoff()
        before = self._stored_state or {}
        state = {
            "try_number": _try_number(context),
            "fields": condition.fields,
            "was_answered": backoff.was_answered,
            "failing_since": backoff.lost_since,
        }
        if state != before:
            store.set(_STATE, state)
            self._stored_state = state

    @property
    def _is_rescheduled(self) -> bool:
        """True if each poke runs in its own process."""
        return self.reschedule and not self.deferrable

    def _show_link(self, hook: DatapipeHook, context: Context, check: Check | None = None) -> None:
        """Show the link to the resource if its page is known, else keep the earlier link."""
        condition, _ = self._condition_and_backoff()
        try:
            template = hook.page_template
        except Exception as error:  # noqa: BLE001 - any error of a secrets backend; the next request raises it
            self.log.debug("No link: %s", error)
            return
        if address := address_of(template, *condition.page(check)):
            show_link(self, context, address)

    def _hook(self) -> DatapipeHook:
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        return DatapipeHook(self.datapipe_conn_id)

    def _task_result(self, hook: DatapipeHook, check: Check) -> Any:
        """Return the result of the sensor, or skip or fail the task."""
        from airflow.providers.common.compat.sdk import AirflowSkipException

        from airflow_provider_datapipe.runs.log_lines.results import condition_lines
        from airflow_provider_datapipe.runs.results import explain
        from airflow_provider_datapipe.runs.wait import WaitOutcomeReason

        condition, _ = self._condition_and_backoff()
        explained = replace(check, ends=tuple(hook.run(explain(end)) for end in check.ends))
        self.log.info("%s", "\n".join(condition_lines(check.description, explained.ends)))
        result, error = condition.task_result(explained)
        if error is None:
            return result
        # soft_fail applies to failed runs, not to a loss of contact.
        is_known = all(end.reason is WaitOutcomeReason.RUN_OVER for end in check.ends)
        if self.never_fail or (self.soft_fail and is_known):
            raise AirflowSkipException(str(error))
        raise error

    @contextlib.contextmanager
    def _applying_skip_flags(self) -> Iterator[None]:
        """Apply ``never_fail`` to any error, and ``soft_fail`` to AirflowTaskTimeout, as Airflow does while poking."""
        from airflow.providers.common.compat.sdk import AirflowSkipException, AirflowTaskTimeout

        try:
            yield
        except AirflowSkipException:
            raise
        except (Exception, AirflowTaskTimeout) as error:
            # AirflowTaskTimeout and TaskDeferred are no subclasses of Exception.
            if self.never_fail or (self.soft_fail and isinstance(error, AirflowTaskTimeout)):
                raise AirflowSkipException(str(error)) from error
            raise

    @property
    def _is_limited_by_execution(self) -> bool:
        limit = self.execution_timeout
        return limit is not None and limit.total_seconds() < self.timeout

    def _time_out(self, message: str) -> NoReturn:
        """Raise the error of a timeout. Airflow retries after ``execution_timeout``, but not after ``timeout``."""
        from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, AirflowTaskTimeout

        if self.soft_fail or self.never_fail:
            raise AirflowSkipException(message)
        if self._is_limited_by_execution:
            raise AirflowTaskTimeout(message)
        raise AirflowSensorTimeout(message)


_NOT_MAPPED = (
    "start_from_trigger does not work with mapped tasks, because Airflow passes their triggers no arguments: use "
    "deferrable=True."
)


def _try_number(context: Context) -> int | None:
    return getattr(context["ti"], "try_number", None)


def _as_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    def one(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, timedelta):
            return seconds(value)
        return list(value) if isinstance(value, tuple) else value

    return {name: one(value) for name, value in fields.items()}


def _check_airflow() -> None:
    """
    Check that Airflow can start tasks from their triggers.

    :raises ValueError: if its version is too old.
    """
    version = tuple(int(part) for part in airflow_version.split(".")[:2])
    if version < _STARTS_FROM_TRIGGER:
        raise ValueError(
            f"start_from_trigger requires Airflow 3.3 or later; this is {airflow_version}. Use deferrable=True."
        )


def _check_renders_in_triggerer(name: str, value: Any) -> None:
    """
    Check that Airflow can render an argument for a task that starts from its trigger.

    :raises ValueError: if the value comes from another task.
    """
    from airflow.sdk import XComArg

    for one in value if isinstance(value, list | tuple) else [value]:
        pulls = isinstance(one, str) and "xcom_pull" in one and "map_indexes" not in one
        if isinstance(one, XComArg) or isinstance(value, XComArg) or pulls:
            raise ValueError(
                f"{name} is an output of another task, which Airflow does not pass to triggers. Use deferrable=True "
                "instead of start_from_trigger, or xcom_pull(..., map_indexes=-1) in a template."
            )
