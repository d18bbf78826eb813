"""Sensors that wait for runs which others start. Nothing heavy is imported here: DAG files import this."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import BaseSensorOperator, PokeReturnValue, conf

from airflow_provider_datapipe.operators.base import exactly_one, together

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.api.errors import DatapipeError
    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.reference import RunResult, Target
    from airflow_provider_datapipe.runs.steps import Steps
    from airflow_provider_datapipe.runs.wait import End, Watch


class DatapipeRunSensor(BaseSensorOperator):
    """
    Waits for the end of a run, and returns its :class:`~airflow_provider_datapipe.runs.reference.RunResult`.

    Without ``run_id`` it is the newest run at the first look: the one that is going, or, if none is, the one that ended
    last; with no run so far, the first. In mode ``reschedule``, where nothing is kept between two looks, it is the
    newest run at each look. A run that did not succeed fails the sensor, or skips it with ``soft_fail`` or
    ``never_fail``. A look that gets no answer is repeated; contact is lost after 30 minutes without any.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    :param run_id: the run; None for the newest. (templated)
    :param deferrable: wait in the triggerer, without a worker slot. The default is Airflow's
        ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = ("datapipe_conn_id", "run_id")
    ui_color = "#d7efe9"

    #: Name of the kind of run.
    kind: ClassVar[str]

    def __init__(
        self,
        *,
        run_id: str | None = None,
        datapipe_conn_id: str = "datapipe_default",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_id = run_id
        # One wait over all pokes: the name is looked up once, the run that was seen is the one that is waited for.
        self._watch: Watch | None = None
        self.datapipe_conn_id = datapipe_conn_id
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """
        Look at the run once. A look that gets no answer is no failure until contact is lost for long.

        :raises DatapipeError: the run did not succeed, or can't be waited for.
        """
        from airflow_provider_datapipe.api.errors import DatapipeError
        from airflow_provider_datapipe.runs.kinds import KINDS
        from airflow_provider_datapipe.runs.verdict import error_of, explain
        from airflow_provider_datapipe.runs.wait import EndReason

        hook = self._hook()
        try:
            watch = self._watched(hook)
            kind = KINDS[self.kind]
            try:
                request = replace(kind.look(watch.reference), once=True)
                end = watch.seen(kind.read(watch.reference, hook.send(request)), time.time())
            except DatapipeError as error:
                end = watch.failed(error, time.time())
                if _is_final(error) and not watch.was_seen:
                    raise
                self.log.warning("%s", error)
            if end is None:
                self.log.info("Run %s of %s is %s.", watch.reference.run_id, watch.reference.name, watch.outcome)
                return False
            if end.reason is EndReason.RUN_OVER:
                return PokeReturnValue(is_done=True, xcom_value=self._judged(hook.run(explain(end))))
            raise error_of(end) or AssertionError("no such end is a success")
        finally:
            hook.close()

    def execute(self, context: Context) -> Any:
        """Poke once; then defer, or go on poking."""
        if not self.deferrable:
            return super().execute(context)
        from airflow_provider_datapipe.operators.base import deadline_of
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.wait import WaitPolicy
        from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger

        with self._never_failing():
            done = self.poke(context)
        if done:
            return done.xcom_value if isinstance(done, PokeReturnValue) else None
        hook = self._hook()
        try:
            batch = Batch(self.kind, waiting=[self._watched(hook).reference])
        finally:
            hook.close()
        policy = WaitPolicy(
            poll_interval=max(self.poke_interval, 0.1),
            deadline=deadline_of(self, context, self.timeout),
            # A run that nobody asked for may be hours away: only the sensor's own time-out counts.
            schedule_limit=self.timeout,
        )
        return self.defer(
            trigger=DatapipeRunTrigger(self.datapipe_conn_id, batch.as_dict(), policy.as_dict()),
            method_name="execute_complete",
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> RunResult:
        """
        Judge what the trigger saw.

        :param event: the event of :class:`~airflow_provider_datapipe.triggers.run.DatapipeRunTrigger`.
        :raises AirflowSensorTimeout: the run did not end in time.
        :raises AirflowTaskTimeout: the run did not end within ``execution_timeout``.
        :raises DatapipeError: the run did not succeed, or could not be waited for.
        """
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.verdict import error_of, explain
        from airflow_provider_datapipe.runs.wait import EndReason
        from airflow_provider_datapipe.triggers.run import check_event

        with self._never_failing():
            check_event(event)
            (end,) = Batch.from_dict(event["batch"]).ended
            hook = self._hook()
            try:
                end = hook.run(explain(end))
                if end.reason in (EndReason.TIMEOUT, EndReason.NOT_SCHEDULED):
                    self._time_out(str(error_of(end)))
                return self._judged(end)
            finally:
                hook.close()

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

    def _time_out(self, message: str) -> NoReturn:
        """End as a poking sensor ends: Airflow retries after ``execution_timeout``, and not after ``timeout``."""
        from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, AirflowTaskTimeout

        if self.soft_fail or self.never_fail:
            raise AirflowSkipException(message)
        limit = self.execution_timeout
        if limit is not None and limit.total_seconds() < self.timeout:
            raise AirflowTaskTimeout(message)
        raise AirflowSensorTimeout(message)

    def _hook(self) -> DatapipeHook:
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        return DatapipeHook(self.datapipe_conn_id)

    def _target(self) -> Steps[Target]:
        """Say what runs."""
        raise NotImplementedError

    def _watched(self, hook: DatapipeHook) -> Watch:
        from airflow_provider_datapipe.runs.reference import Reference
        from airflow_provider_datapipe.runs.targets import required
        from airflow_provider_datapipe.runs.wait import WaitPolicy, Watch

        if self._watch is None:
            target = hook.run(self._target())
            run_id = None if self.run_id is None else required("run_id", self.run_id)
            reference = Reference.to(self.kind, target, run_id=run_id)
            # Airflow's own loop has the sensor's time-out.
            policy = WaitPolicy(poll_interval=max(self.poke_interval, 0.1), schedule_limit=math.inf)
            self._watch = Watch(reference, policy, time.time())
        return self._watch

    def _judged(self, end: End) -> RunResult:
        """Give the result of a run that succeeded; skip or fail for any other."""
        from airflow.providers.common.compat.sdk import AirflowSkipException

        from airflow_provider_datapipe.runs.verdict import error_of, result_of

        error = error_of(end)
        if error is None:
            return result_of(end)
        if self.soft_fail or self.never_fail:
            raise AirflowSkipException(str(error))
        raise error


def _is_final(error: DatapipeError) -> bool:
    """Tell whether looking again would not help a wait that has not begun: something is set wrongly."""
    from airflow_provider_datapipe.api.errors import (
        AuthenticationError,
        ConfigurationError,
        InvalidInputError,
        InvalidRequestError,
        NotFoundError,
        PermissionDeniedError,
    )

    return isinstance(
        error,
        AuthenticationError
        | ConfigurationError
        | InvalidInputError
        | InvalidRequestError
        | NotFoundError
        | PermissionDeniedError,
    )


class EltStreamRunSensor(DatapipeRunSensor):
    """
    Waits for the end of a run of an ELT stream. See :class:`DatapipeRunSensor` for the other parameters.

    :param stream_id: id of the stream; or give ``sync_id`` and ``stream_name``. (templated)
    :param sync_id: id of the sync that the stream belongs to. (templated)
    :param stream_name: name of the stream in its sync. (templated)

    .. seealso:: interface.md, "GET /elt_stream_runs".
    """

    template_fields: Sequence[str] = (*DatapipeRunSensor.template_fields, "stream_id", "sync_id", "stream_name")
    kind = "elt_stream"

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

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import stream_target

        return stream_target(self.stream_id, self.sync_id, self.stream_name)


class OrchestrationRunSensor(DatapipeRunSensor):
    """
    Waits for the end of a run of an orchestration. See :class:`DatapipeRunSensor` for the other parameters.

    :param orchestration_id: id of the orchestration; or give ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)

    .. seealso:: interface.md, "GET /orchestration_runs".
    """

    template_fields: Sequence[str] = (*DatapipeRunSensor.template_fields, "orchestration_id", "orchestration_name")
    kind = "orchestration"

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        self.orchestration_id = orchestration_id
        self.orchestration_name = orchestration_name

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import orchestration_target

        return orchestration_target(self.orchestration_id, self.orchestration_name)


class ReverseEtlRunSensor(DatapipeRunSensor):
    """
    Waits for the end of a run of a reverse ETL sync. See :class:`DatapipeRunSensor` for the other parameters.

    :param reverse_etl_sync_id: id of the reverse ETL sync. (templated)

    .. seealso:: interface.md, "GET /reverse_etl_sync_runs".
    """

    template_fields: Sequence[str] = (*DatapipeRunSensor.template_fields, "reverse_etl_sync_id")
    kind = "reverse_etl"

    def __init__(self, *, reverse_etl_sync_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reverse_etl_sync_id = reverse_etl_sync_id

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import by_id

        return by_id("reverse_etl_sync_id", self.reverse_etl_sync_id)
