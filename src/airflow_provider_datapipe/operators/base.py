"""What all operators that start runs share. Nothing heavy is imported here: DAG files import this."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator, conf

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.reference import RunResult, Target
    from airflow_provider_datapipe.runs.steps import Steps
    from airflow_provider_datapipe.runs.wait import End, WaitPolicy


def seconds(value: timedelta | float) -> float:
    """Give a duration in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


class DatapipeRunOperator(BaseOperator):
    """
    Starts runs on the service and waits for their end: in a worker slot, or deferred to the triggerer.

    A run that is going already is waited for, and not started again. The service has no way to cancel a run: it goes
    on when the task is stopped.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    :param poll_interval: seconds between two looks at a run; None for the connection's.
    :param timeout: how long to wait for the end, from the start of the task; ``execution_timeout`` counts as well, also
        while the task is deferred.
    :param deferrable: wait in the triggerer, without a worker slot. The default is Airflow's
        ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = ("datapipe_conn_id",)
    ui_color = "#d7efe9"

    #: Name of the kind of run.
    kind: ClassVar[str]

    def __init__(
        self,
        *,
        datapipe_conn_id: str = "datapipe_default",
        poll_interval: timedelta | float | None = None,
        timeout: timedelta | float = timedelta(days=1),
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.datapipe_conn_id = datapipe_conn_id
        self.poll_interval = poll_interval
        self.timeout = timeout
        self.deferrable = deferrable
        if poll_interval is not None and seconds(poll_interval) <= 0:
            raise ValueError(f"poll_interval must be more than 0 seconds, not {poll_interval}")
        if seconds(timeout) <= 0:
            raise ValueError(f"timeout must be more than 0 seconds, not {timeout}")

    def execute(self, context: Context) -> Any:
        """
        Start the runs, wait and give the result.

        :raises DatapipeError: the service refused, could not be reached, or a run did not succeed.
        """
        hook = self._hook()
        try:
            batch = hook.run(self._begin())
            return self._proceed(context, hook, batch, self._policy(context, hook))
        finally:
            hook.close()

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """
        Go on with what the trigger saw.

        :param event: the event of :class:`~airflow_provider_datapipe.triggers.run.DatapipeRunTrigger`.
        :raises DatapipeError: a run did not succeed, or could not be waited for.
        """
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.wait import WaitPolicy
        from airflow_provider_datapipe.triggers.run import check_event

        check_event(event)
        hook = self._hook()
        try:
            return self._proceed(context, hook, Batch.from_dict(event["batch"]), WaitPolicy(**event["policy"]))
        finally:
            hook.close()

    def _begin(self) -> Steps[Batch]:
        """Say what is to be run."""
        raise NotImplementedError

    def _finish(self, batch: Batch) -> tuple[Any, Exception | None]:
        """Give the result, and the error that the task ends with, if any."""
        raise NotImplementedError

    @property
    def _alone(self) -> bool:
        """Whether the batch stands for one run, whose errors are the task's."""
        return True

    def _hook(self) -> DatapipeHook:
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        return DatapipeHook(self.datapipe_conn_id)

    def _policy(self, context: Context, hook: DatapipeHook) -> WaitPolicy:
        from airflow_provider_datapipe.runs.wait import WaitPolicy

        deadline = time.time() + seconds(self.timeout)
        started = getattr(context.get("ti"), "start_date", None)
        # Airflow does not enforce it while a task is deferred, so the wait does.
        if self.deferrable and self.execution_timeout is not None and started is not None:
            deadline = min(deadline, (started + self.execution_timeout).timestamp())
        interval = hook.extra.poll_interval if self.poll_interval is None else seconds(self.poll_interval)
        return WaitPolicy(poll_interval=interval, deadline=deadline)

    def _proceed(self, context: Context, hook: DatapipeHook, batch: Batch, policy: WaitPolicy) -> Any:
        from airflow_provider_datapipe.runs.batch import run_batch, start_queued
        from airflow_provider_datapipe.runs.verdict import explain

        hook.run(start_queued(batch, alone=self._alone))
        self._log_waiting(batch)
        if self.deferrable and (batch.waiting or batch.queued):
            from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger

            self.defer(
                trigger=DatapipeRunTrigger(self.datapipe_conn_id, batch.as_dict(), policy.as_dict()),
                method_name="execute_complete",
            )
        hook.run(run_batch(batch, policy, alone=self._alone))
        batch.ended = [hook.run(explain(end)) for end in batch.ended]
        for end in batch.ended:
            self._log_end(end)
        result, error = self._finish(batch)
        if error is not None:
            # What is known of a run is of use downstream, also where it failed.
            if self.do_xcom_push and "ti" in context:
                context["ti"].xcom_push(key="return_value", value=result)
            raise error
        return result

    def _log_waiting(self, batch: Batch) -> None:
        for reference in batch.waiting:
            how = "was going already; attached" if reference.attached else "requested"
            self.log.info("Run of %s %s %s.", reference.kind, reference.name, how)

    def _log_end(self, end: End) -> None:
        result = end.result
        rows = "unknown" if result is None or result["rows_synced"] is None else f"{result['rows_synced']:,}"
        self.log.info(
            "Run %s of %s %s: %s (%s), rows: %s.",
            result["run_id"] if result else None,
            end.reference.kind,
            end.reference.name,
            end.outcome,
            end.reason,
            rows,
        )


class DatapipeSingleRunOperator(DatapipeRunOperator):
    """An operator that stands for one run, and returns its :class:`~.runs.reference.RunResult`."""

    def _target(self) -> Steps[Target]:
        """Say what is to be run."""
        raise NotImplementedError

    @property
    def _failed_rows_allowed(self) -> int:
        """How many rows may fail in a run that otherwise completed."""
        return 0

    def _begin(self) -> Steps[Batch]:
        from airflow_provider_datapipe.runs.batch import Batch

        target = yield from self._target()
        return Batch(self.kind, queued=[target])

    def _finish(self, batch: Batch) -> tuple[RunResult, Exception | None]:
        from airflow_provider_datapipe.runs.verdict import error_of, result_of

        (end,) = batch.ended
        return result_of(end), error_of(end, max_failed_rows=self._failed_rows_allowed)


def together(**given: object) -> None:
    """
    Check, when a DAG is read, that what belongs together is given together.

    :raises ValueError: only a part is.
    """
    if len({value is None for value in given.values()}) != 1:
        raise ValueError(f"give {' and '.join(given)} together")


def exactly_one(**given: object) -> None:
    """
    Check, when a DAG is read, that one of several ways to say the same was chosen.

    :raises ValueError: none was, or several were.
    """
    if sum(value is not None for value in given.values()) != 1:
        raise ValueError(f"give exactly one of {' and '.join(given)}")
