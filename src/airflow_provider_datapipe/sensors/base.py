"""What all sensors share. Nothing heavy is imported here: DAG files import this."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow import __version__ as airflow_version
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_datapipe.links import ADDRESS, DatapipeLink, address_of, show_link
from airflow_provider_datapipe.operators.base import DEFERRABLE, deadline_of, exactly_one, seconds, together

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.condition import Check, Condition
    from airflow_provider_datapipe.runs.patience import Patience
    from airflow_provider_datapipe.runs.records import Store

#: The end of the data interval; where a DAG run has none, as one that a person or an asset has started without a
#: logical date, the time from which it was to run.
DATA_INTERVAL_END = "{{ data_interval_end | default(none) or dag_run.run_after }}"
#: Key of the task state in which polls of mode="reschedule" find what earlier polls learned.
_STATE = "datapipe.sensor"
#: The first Airflow in which a task can start from its trigger.
_STARTS_FROM_TRIGGER = (3, 3)


class DatapipeSensor(BaseSensorOperator):
    """
    Waits until something is so, in every mode to the same end.

    A look that gets no answer is repeated; contact is lost after 30 minutes without any. What can't become so, such as
    an id that is not there, fails the sensor at once.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    :param deferrable: wait in the triggerer, without a worker slot. The default is Airflow's
        ``[operators] default_deferrable``.
    :param start_from_trigger: begin in the triggerer, so that a worker is needed only for the end (Airflow 3.3 or
        later). Not for mapped tasks, and not with values from other tasks, which Airflow can't give to a trigger.
    """

    template_fields: Sequence[str] = ("datapipe_conn_id",)
    operator_extra_links = (DatapipeLink(),)
    ui_color = "#d7efe9"

    #: Name of the condition.
    condition: ClassVar[str]
    #: The attributes that are the condition's fields.
    condition_fields: ClassVar[tuple[str, ...]] = ()
    #: Fields of the condition that are the same for all of a class.
    condition_constants: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        *,
        datapipe_conn_id: str = "datapipe_default",
        deferrable: bool = DEFERRABLE,
        start_from_trigger: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.datapipe_conn_id = datapipe_conn_id
        # Where Airflow does not start it from its trigger, as under dag.test(), it defers.
        self.deferrable = deferrable or start_from_trigger
        # Mapped tasks get it here from the DAG's default arguments, of which Airflow has not heard: they defer.
        self.start_from_trigger = start_from_trigger and not getattr(self, "_BaseOperator__from_mapped", False)
        # One for all pokes: what was looked up once is not looked up again.
        self._looked: tuple[Condition, Patience] | None = None
        self._kept: dict[str, Any] | None = None
        if start_from_trigger:
            _check_airflow()

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """
        Map the sensor.

        :raises ValueError: it is to start from its trigger.
        """
        if kwargs.get("start_from_trigger"):
            raise ValueError(_NOT_MAPPED)
        return super().partial(**kwargs)

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """
        Look once. A look that gets no answer is no failure until contact is lost for long.

        :raises DatapipeError: it is so, and is a failure; or it can't become so.
        """
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.runs.missing import is_missing

        self._restore(context)
        condition, patience = self._looking()
        with contextlib.closing(self._hook()) as hook:
            if not hasattr(self, ADDRESS):
                # First: what can't be looked at has a page, too.
                self._show_link(hook, context)
            try:
                check = hook.run(condition.check(time.time()))
            except DatapipeError as error:
                if patience.is_final(error, time.time()):
                    raise
                pause = patience.failed(error, time.time(), self.poke_interval)
                self._save(context, is_failing=True)
                self.log.warning("%s", error)
                if not (self._is_rescheduled and is_missing(error)):
                    return False
                # The next poke would run in another process, which does not know of this answer.
                time.sleep(pause)
                return self.poke(context)
            patience.answered(time.time())
            self._show_link(hook, context, check)
            if not check.is_met:
                self._save(context, is_failing=False)
                self.log.info("Not yet: %s.", check.said)
                return False
            return PokeReturnValue(is_done=True, xcom_value=self._judged(hook, check))

    def execute(self, context: Context) -> Any:
        """Poke once; then defer, or go on poking."""
        if not self.deferrable:
            return self._poke_on(context)
        with self._never_failing():
            done = self.poke(context)
        if isinstance(done, PokeReturnValue):
            return done.xcom_value
        return self._wait_in_triggerer(deadline_of(self, context, self.timeout))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """
        Judge what the trigger saw.

        :param event: the event of :class:`~airflow_provider_datapipe.triggers.condition.DatapipeConditionTrigger`.
        :raises AirflowSensorTimeout: it did not become so in time.
        :raises AirflowTaskTimeout: it did not become so within ``execution_timeout``.
        :raises DatapipeError: it is so, and is a failure; or it can't become so.
        """
        from airflow_provider_datapipe.runs.condition import Check
        from airflow_provider_datapipe.runs.errors import LostContactError

        status = event.get("status")
        with self._never_failing():
            if status == "success":
                check = Check.from_dict(event["check"])
                with contextlib.closing(self._hook()) as hook:
                    self._show_link(hook, context, check)
                    return self._judged(hook, check)
            if status not in ("again", "timeout"):
                raise LostContactError(str(event.get("message") or f"the trigger gave {status!r}"))
            # What the trigger could not get over is met again here, and said; or it is over.
            done = self.poke(context)
        if isinstance(done, PokeReturnValue):
            return done.xcom_value
        if status == "timeout":
            self._time_out(f"Time is over: {event.get('said')}.")
        deadline = event.get("deadline") or deadline_of(self, context, self.timeout)
        return self._wait_in_triggerer(deadline, patient=True)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on after the triggerer, telling ``execution_timeout`` from ``timeout`` where Airflow has ended it."""
        from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowTaskTimeout

        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            if self._is_limited_by_execution:
                raise AirflowTaskTimeout(str(error)) from error
            raise

    def _poke_on(self, context: Context) -> Any:
        from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException

        try:
            return super().execute(context)
        except AirflowSensorTimeout as error:
            # Airflow leaves out its own time-out.
            if self.never_fail:
                raise AirflowSkipException(str(error)) from None
            raise

    def _ready(self) -> None:
        """Tell Airflow, once all attributes are there, with which trigger to start. Every class ends so."""
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

    def _wait_in_triggerer(self, deadline: float, *, patient: bool = False) -> NoReturn:
        from airflow_provider_datapipe.triggers.condition import DatapipeConditionTrigger

        condition, _ = self._looking()
        trigger = DatapipeConditionTrigger(
            self.condition, self.datapipe_conn_id, self.poke_interval, deadline, patient, **condition.fields
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    def _fields(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.condition_fields}
        return {**self.condition_constants, **{name: value for name, value in own.items() if value is not None}}

    def _looking(self) -> tuple[Condition, Patience]:
        """Give the condition, and how long the service was not there."""
        from airflow_provider_datapipe.runs.conditions import condition_of
        from airflow_provider_datapipe.runs.patience import Patience

        if self._looked is None:
            condition = condition_of(self.condition, _as_json(self._fields()))
            self._looked = (condition, Patience(time.time(), polled_before=self._is_rescheduled))
        return self._looked

    def _restore(self, context: Context) -> None:
        """Continue with what earlier polls learned: with ``mode="reschedule"`` each poll is a process of its own."""
        from airflow_provider_datapipe.runs.conditions import condition_of
        from airflow_provider_datapipe.runs.patience import Patience

        store: Store | None = context.get("task_state_store")
        if self._looked or not self.reschedule or store is None:
            return
        kept = store.get(_STATE)
        # A retry begins anew, and so does a cleared task.
        if kept and kept["try_number"] == _try_number(context):
            self._kept = kept
            patience = Patience(kept["failing_since"] or time.time(), polled_before=kept["was_answered"])
            patience.was_answered = kept["was_answered"]
            self._looked = (condition_of(self.condition, kept["fields"]), patience)

    def _save(self, context: Context, *, is_failing: bool) -> None:
        """Keep for the next poll what this one learned; Airflow before 3.3 has no place for it."""
        store: Store | None = context.get("task_state_store")
        if not self.reschedule or store is None:
            return
        condition, patience = self._looking()
        before = self._kept or {}
        state = {
            "try_number": _try_number(context),
            "fields": condition.fields,
            "was_answered": patience.was_answered,
            "failing_since": (before.get("failing_since") or time.time()) if is_failing else None,
        }
        if state != before:
            store.set(_STATE, state)
            self._kept = state

    @property
    def _is_rescheduled(self) -> bool:
        """True if each poke runs in its own process."""
        return self.reschedule and not self.deferrable

    def _show_link(self, hook: DatapipeHook, context: Context, check: Check | None = None) -> None:
        """Show the page of what is waited for, as soon as it is known; what an earlier pass has shown stays."""
        condition, _ = self._looking()
        try:
            template = hook.extra.link
        except Exception as error:  # noqa: BLE001 - whatever a secrets backend raises: who needs the connection says it
            self.log.debug("No link: %s", error)
            return
        if address := address_of(template, *condition.page(check)):
            show_link(self, context, address)

    def _hook(self) -> DatapipeHook:
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        return DatapipeHook(self.datapipe_conn_id)

    def _judged(self, hook: DatapipeHook, check: Check) -> Any:
        """Give the result of what has succeeded; skip or fail for anything else."""
        from dataclasses import replace

        from airflow.providers.common.compat.sdk import AirflowSkipException

        from airflow_provider_datapipe.runs.verdict import explain
        from airflow_provider_datapipe.runs.wait import EndReason

        condition, _ = self._looking()
        self.log.info("%s.", check.said[:1].upper() + check.said[1:])
        explained = replace(check, ends=tuple(hook.run(explain(end)) for end in check.ends))
        result, error = condition.verdict(explained)
        if error is None:
            return result
        # Contact that is lost says nothing about a run.
        is_known = all(end.reason is EndReason.RUN_OVER for end in check.ends)
        if self.never_fail or (self.soft_fail and is_known):
            raise AirflowSkipException(str(error))
        raise error

    @contextlib.contextmanager
    def _never_failing(self) -> Iterator[None]:
        """Let ``never_fail`` mean while deferred what it means while poking."""
        from airflow.providers.common.compat.sdk import AirflowSkipException

        from airflow_provider_datapipe.api.errors import DatapipeError

        try:
            yield
        except DatapipeError as error:
            if self.never_fail:
                raise AirflowSkipException(str(error)) from None
            raise

    @property
    def _is_limited_by_execution(self) -> bool:
        limit = self.execution_timeout
        return limit is not None and limit.total_seconds() < self.timeout

    def _time_out(self, message: str) -> NoReturn:
        """End as a poking sensor ends: Airflow retries after ``execution_timeout``, and not after ``timeout``."""
        from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, AirflowTaskTimeout

        if self.soft_fail or self.never_fail:
            raise AirflowSkipException(message)
        if self._is_limited_by_execution:
            raise AirflowTaskTimeout(message)
        raise AirflowSensorTimeout(message)


_NOT_MAPPED = "start_from_trigger is not for mapped tasks, to which Airflow gives no arguments: use deferrable=True."


class DatapipeStreamSensor(DatapipeSensor):
    """
    A sensor for an ELT stream.

    :param stream_id: id of the stream; or give ``sync_id`` and ``stream_name``. (templated)
    :param sync_id: id of the sync that the stream belongs to. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    """

    template_fields: Sequence[str] = ("stream_id", "sync_id", "stream_name")
    condition_fields: ClassVar[tuple[str, ...]] = ("stream_id", "sync_id", "stream_name")
    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "elt_stream"}

    def __init__(
        self,
        *,
        stream_id: str | None = None,
        sync_id: str | None = None,
        stream_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(stream_id=stream_id, stream_name=stream_name)
        together(sync_id=sync_id, stream_name=stream_name)
        self.stream_id = stream_id
        self.sync_id = sync_id
        self.stream_name = stream_name


class DatapipeSyncSensor(DatapipeSensor):
    """
    A sensor for the streams of an ELT sync.

    :param sync_id: id of the sync. (templated)
    :param streams: names or ids of the streams; None for all. (templated)
    """

    template_fields: Sequence[str] = ("sync_id", "streams")
    condition = "sync"
    condition_fields: ClassVar[tuple[str, ...]] = ("sync_id", "streams")

    def __init__(self, *, sync_id: str, streams: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sync_id = sync_id
        self.streams = streams


class DatapipeOrchestrationSensor(DatapipeSensor):
    """
    A sensor for an orchestration.

    :param orchestration_id: id of the orchestration; or give ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)
    """

    template_fields: Sequence[str] = ("orchestration_id", "orchestration_name")
    condition_fields: ClassVar[tuple[str, ...]] = ("orchestration_id", "orchestration_name")
    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "orchestration"}

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        self.orchestration_id = orchestration_id
        self.orchestration_name = orchestration_name


class DatapipeReverseEtlSensor(DatapipeSensor):
    """
    A sensor for a reverse ETL sync.

    :param reverse_etl_sync_id: id of the reverse ETL sync. (templated)
    """

    template_fields: Sequence[str] = ("reverse_etl_sync_id",)
    condition_fields: ClassVar[tuple[str, ...]] = ("reverse_etl_sync_id",)
    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "reverse_etl"}

    def __init__(self, *, reverse_etl_sync_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reverse_etl_sync_id = reverse_etl_sync_id


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
    Refuse a start from the trigger where Airflow can't do it.

    :raises ValueError: it can't.
    """
    version = tuple(int(part) for part in airflow_version.split(".")[:2])
    if version < _STARTS_FROM_TRIGGER:
        raise ValueError(
            f"start_from_trigger needs Airflow 3.3 or later, and this is {airflow_version}: use deferrable=True."
        )


def _check_renders_in_triggerer(name: str, value: Any) -> None:
    """
    Refuse what Airflow does not render for a task that starts from its trigger.

    :raises ValueError: it comes from another task.
    """
    from airflow.sdk import XComArg

    for one in value if isinstance(value, list | tuple) else [value]:
        pulls = isinstance(one, str) and "xcom_pull" in one and "map_indexes" not in one
        if isinstance(one, XComArg) or isinstance(value, XComArg) or pulls:
            raise ValueError(
                f"{name} comes from another task, and Airflow can't give that to a trigger: use deferrable=True in "
                "place of start_from_trigger, or xcom_pull(..., map_indexes=-1) in a template."
            )
