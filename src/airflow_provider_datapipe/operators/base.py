"""Base classes of operators that start runs. DAG files import this module, so it imports nothing heavy."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseOperator

from airflow_provider_datapipe.arguments import CheckedArguments, Duration, check_range, seconds
from airflow_provider_datapipe.links import ADDRESS, DatapipeLink, MapLabel, address_of, show_link

# Only the import path depends on the version of Airflow. Importing common.compat would load three more modules.
try:
    from airflow.sdk.configuration import conf
except ModuleNotFoundError:  # before Airflow 3.2
    from airflow.configuration import conf


if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.models import RunResult, RunTarget
    from airflow_provider_datapipe.runs.start import StartPolicy
    from airflow_provider_datapipe.runs.task_state import TaskState
    from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitPolicy


#: Default of ``deferrable`` for operators and sensors.
DEFERRABLE: bool = conf.getboolean("operators", "default_deferrable", fallback=False)
#: Default of ``timeout`` for sensors, in seconds.
SENSOR_TIMEOUT: float = conf.getfloat("sensors", "default_timeout")


def push_result(task: Any, context: Context, result: Any) -> None:
    """
    Store the result of a task that fails, for downstream tasks.

    :param task: the operator.
    :param context: Airflow's context.
    :param result: return value of the task if it had succeeded.
    """
    if task.do_xcom_push and "ti" in context:
        context["ti"].xcom_push(key="return_value", value=result)


def deadline_of(task: Any, context: Context, timeout: float) -> float:
    """
    Return the time at which waiting ends, in seconds since the epoch.

    :param task: the operator or sensor.
    :param context: Airflow's context.
    :param timeout: the longest wait of the task, in seconds.
    """
    deadline = time.time() + timeout
    started = getattr(context.get("ti"), "start_date", None)
    # Airflow does not enforce execution_timeout while a task is deferred, so the wait does.
    if task.deferrable and task.execution_timeout is not None and started is not None:
        deadline = min(deadline, (started + task.execution_timeout).timestamp())
    return deadline


class DatapipeRunOperator(CheckedArguments, MapLabel, BaseOperator):
    """
    Start runs on the service and wait until they end, in a worker slot or deferred to the triggerer.

    A run is started once. If the worker was killed or a response was lost, the next try of the task finds the run that
    was started. With Airflow 3.3 or later it uses the stored task state; see :ref:`exactly-once`.
    The service cannot cancel runs: a run continues when its task is stopped.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    :param poll_interval: time between two polls of a run. None for the setting of the connection; without it, the
        interval depends on the duration of earlier runs, see :ref:`polling`.
    :param timeout: the longest wait, from the start of the task. ``execution_timeout`` applies as well, also while the
        task is deferred.
    :param if_running: policy if a run that this task did not start is active: ``attach`` to it, ``wait`` until it ends
        and then start a run, ``fail``, or ``skip`` the task.
    :param on_kill: policy if the task is stopped or times out: ``leave`` the run and log where to find it, or also
        ``disable`` the ELT sync or reverse ETL sync, so that it does not run on its schedule. If the task is cleared or
        its worker is shut down, the next try continues with the run.
    :param emit_assets: if True, the refreshed resource becomes an outlet of the task, so that DAGs can be scheduled on
        it (:mod:`~airflow_provider_datapipe.assets`). Queries and plans refresh no resource.
    :param deferrable: wait in the triggerer, without a worker slot. The default is Airflow's
        ``[operators] default_deferrable``.
    :param defer_after: time that a deferrable task waits in the worker before it defers; 0 defers at once. None for the
        ``defer_after`` of the connection, then ``[datapipe] defer_after``. Without these, the task waits in the worker
        for a run that should finish within about 10 s, and for 6 s if there are no earlier runs.
    """

    template_fields: Sequence[str] = ("datapipe_conn_id",)
    operator_extra_links: Collection[DatapipeLink] = (DatapipeLink(),)
    ui_color = "#d7efe9"

    #: Name of the kind of run.
    kind: ClassVar[str]
    #: Kind of the asset that a run refreshes, None if there is none, and the argument with its ID, if there is one.
    asset_kind: ClassVar[str | None] = None
    asset_argument: ClassVar[str | None] = None
    #: Names of the endpoints that change something. ``on_kill`` can call the endpoints that disable a sync as well.
    endpoints: ClassVar[tuple[str, ...]] = ()
    #: Verb of the log line for a success without a row count; None for that of the kind of run.
    result_verb: ClassVar[str | None] = None
    #: Stored state of earlier tries, set by :meth:`execute`.
    _task_state: TaskState

    def __init__(
        self,
        *,
        datapipe_conn_id: str = "datapipe_default",
        poll_interval: Duration | None = None,
        timeout: Duration = timedelta(days=1),
        if_running: Literal["attach", "wait", "fail", "skip"] = "attach",
        on_kill: Literal["leave", "disable"] = "leave",
        emit_assets: bool = False,
        deferrable: bool = DEFERRABLE,
        defer_after: Duration | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.datapipe_conn_id = datapipe_conn_id
        self.poll_interval = poll_interval
        self.timeout = timeout
        self.if_running = if_running
        # Not ``self.on_kill``, which is a method of Airflow's operators.
        self.kill_policy = on_kill
        self.deferrable = deferrable
        self.defer_after = defer_after
        self.emit_assets = emit_assets
        self._batch: Batch | None = None
        self._failure: Exception | None = None
        self._task_instance: Any = None
        self._timed_out = False
        check_range("poll_interval", poll_interval)
        check_range("timeout", timeout)
        check_range("defer_after", defer_after, can_be_zero=True)

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """
        Map the task. Its outlet is an asset alias, because the resources are not known when the DAG is parsed.

        :raises ValueError: if an argument has a wrong form.
        """
        mapped: OperatorPartial = super().partial(**kwargs)
        # Airflow applies the default_args of a DAG or a task group only when the mapped task runs.
        above = [place.default_args for name in ("dag", "task_group") if (place := mapped.kwargs.get(name))]
        all_given = (*above, kwargs.get("default_args") or {}, kwargs)
        settings = [given["emit_assets"] for given in all_given if "emit_assets" in given]
        if cls.asset_kind is not None and settings and settings[-1]:
            from airflow_provider_datapipe.assets import declared

            mapped.kwargs["outlets"] = declared(cls.asset_kind, None, None, mapped.kwargs.get("outlets") or ())
        return mapped

    def execute(self, context: Context) -> Any:
        """
        Start the runs, wait until they end, and return the result.

        :raises DatapipeError: if the service refuses a request or cannot be reached, or a run does not succeed.
        """
        from airflow_provider_datapipe.runs.kinds import KINDS
        from airflow_provider_datapipe.runs.start import resumable_first
        from airflow_provider_datapipe.runs.task_state import task_state_of

        self._task_state = task_state_of(context)
        hook = self._hook()
        try:
            if self.deferrable:
                # Raise for an invalid setting before a run is started.
                self._defer_after_setting(hook)
            # Show the link before the first request, so that the task has it even if the service is down.
            show_link(self, context, address_of(hook.page_template, *self._page_of_arguments()))
            began = time.monotonic()
            batch = hook.run(self._create_batch())
            if batch.at_a_time is not None:
                batch.queued = hook.run(resumable_first(KINDS[batch.kind], batch.queued, self._task_state))
            return self._run_until_finished(context, hook, batch, self._policy(context, hook), began)
        except Exception:
            if not hasattr(self, ADDRESS):
                show_link(self, context, address_of(hook.named_pages, *self._page_of_arguments()))
            raise
        finally:
            hook.close()

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """
        Continue after the deferral: start further runs, or return the result.

        :param event: the event of :class:`~airflow_provider_datapipe.triggers.run.DatapipeRunTrigger`.
        :raises DatapipeError: if a run did not succeed, or the trigger failed.
        """
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.wait import WaitPolicy
        from airflow_provider_datapipe.triggers.run import check_event

        check_event(event)
        hook = self._hook()
        try:
            return self._run_until_finished(
                context, hook, Batch.from_dict(event["batch"]), WaitPolicy.from_dict(event["policy"])
            )
        finally:
            hook.close()

    def _create_batch(self) -> Flow[Batch]:
        """Return a batch with the runs to start."""
        raise NotImplementedError

    def _declare_assets(self) -> None:
        """Add the asset of the resource to the outlets. Subclasses call this after they have set their arguments."""
        if self.asset_kind is not None and self.emit_assets:
            from airflow_provider_datapipe.assets import declared

            resource_id = None if self.asset_argument is None else getattr(self, self.asset_argument)
            self.outlets = declared(self.asset_kind, resource_id, self.datapipe_conn_id, self.outlets)

    def _report_assets(self, context: Context, result: Any) -> None:
        """Add the results of the runs to the events of the outlets."""
        if self.asset_kind is not None and self.outlets and "outlet_events" in context:
            from airflow_provider_datapipe.assets import report

            report(self.outlets, context["outlet_events"], self.datapipe_conn_id, result)

    def _page_of_arguments(self) -> tuple[str, str | None]:
        """Return kind and ID of the page that the arguments name; the ID is None if they name none."""
        return self.asset_kind or self.kind, self.asset_argument and getattr(self, self.asset_argument)

    def _page_of_batch(self, batch: Batch) -> tuple[str, str | None]:
        """Return kind and ID of the resource that the task links to."""
        return self.kind, next((each.resource_id for each in batch.resources), None)

    def _show_links(self, context: Context, hook: DatapipeHook, batch: Batch) -> None:
        """Show the link to the resource of the task, with the run as soon as it is known."""
        run_id = next((each.run_id for each in batch.references), None) if self._has_single_run else None
        show_link(self, context, address_of(hook.page_template, *self._page_of_batch(batch), run_id))

    async def _after_runs(self, batch: Batch) -> None:
        """Continue after all runs have ended. Subclasses can queue further runs here."""

    def _finish(self, batch: Batch) -> tuple[Any, Exception | None]:
        """Return the result, and the error that fails the task, if there is one."""
        raise NotImplementedError

    @property
    def _has_single_run(self) -> bool:
        """True if the task has exactly one run, whose error the task raises."""
        return True

    def _hook(self) -> DatapipeHook:
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        hook = DatapipeHook(self.datapipe_conn_id)
        hook.reports_lineage = False
        return hook

    def _policy(self, context: Context, hook: DatapipeHook) -> WaitPolicy:
        from airflow_provider_datapipe.runs.wait import WaitPolicy

        interval = hook.extra.poll_interval if self.poll_interval is None else seconds(self.poll_interval)
        return WaitPolicy(
            poll_interval=interval,
            deadline=deadline_of(self, context, seconds(self.timeout)),
            slowest=hook.extra.max_poll_interval,
        )

    def on_kill(self) -> None:
        """Log where to find the run, which continues. Disable its sync if ``on_kill`` is ``disable``."""
        from airflow_provider_datapipe.runs.stop import stop

        if self._batch is None:
            return
        hook = self._hook()
        try:
            disable = self.kill_policy == "disable" and self._is_stopped_for_good()
            for line in hook.run(stop(self._batch, disable=disable)):
                self.log.warning(line)
        finally:
            hook.close()

    def _is_stopped_for_good(self) -> bool:
        """Return True if the task timed out or a user ended it, so that it does not continue soon."""
        from airflow_provider_datapipe.triggers.stopped import is_ended

        try:
            return self._timed_out or is_ended(self._task_instance)
        except Exception:
            # A sync that was disabled by mistake is noticed, a sync that stays enabled by mistake is not.
            self.log.exception("The state of this task cannot be read from Airflow. It is treated as ended by a user.")
            return True

    @property
    def _failed_rows_allowed(self) -> int:
        """Number of rows that can fail in a run that otherwise succeeds."""
        return 0

    def _error_of(self, end: WaitOutcome) -> Exception | None:
        """Return the error of a run, None if it counts as a success."""
        from airflow_provider_datapipe.runs.results import exception_for

        return exception_for(end, max_failed_rows=self._failed_rows_allowed)

    def get_openlineage_facets_on_start(self) -> Any:
        """Return the inputs and outputs of the task for OpenLineage."""
        from airflow_provider_datapipe.lineage.tasks import TaskOfRuns, lineage_of_task

        # After the start of the runs, the batch contains them.
        finding = self._lineage_targets, self._lineage_queries, self._lineage_version()
        return lineage_of_task(TaskOfRuns(self.datapipe_conn_id, self.kind, *finding, self._batch))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the inputs and outputs of the task for OpenLineage."""
        return self.get_openlineage_facets_on_start()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """Return the inputs and outputs of the task for OpenLineage, and the error."""
        return self.get_openlineage_facets_on_start()

    async def _lineage_targets(self) -> list[RunTarget]:
        """Return the resources whose runs the task starts, for lineage. Starts no run."""
        return []

    def _lineage_queries(self) -> dict[str, str]:
        """Return the queries of the task by argument, for lineage."""
        return {}

    def _lineage_version(self) -> str | None:
        """Return the version of a transform that runs, for lineage: ``published``, an ID, or None for the newest."""
        return None

    @property
    def _records_shown(self) -> int:
        """Number of failed records to request and show."""
        return 0

    def _start_policy(self) -> StartPolicy:
        from airflow_provider_datapipe.runs.conflicts import IfRunning
        from airflow_provider_datapipe.runs.start import StartPolicy

        return StartPolicy(if_running=IfRunning(self.if_running), max_failed_rows=self._failed_rows_allowed)

    def _run_until_finished(
        self, context: Context, hook: DatapipeHook, batch: Batch, policy: WaitPolicy, began: float | None = None
    ) -> Any:
        from airflow.providers.common.compat.sdk import AirflowSkipException, AirflowTaskTimeout

        from airflow_provider_datapipe.runs.batch import finalize_task_state
        from airflow_provider_datapipe.runs.conflicts import RunSkipped
        from airflow_provider_datapipe.runs.results import explain
        from airflow_provider_datapipe.runs.task_state import task_state_of

        self._batch, self._task_instance = batch, context.get("ti")
        task_state = task_state_of(context)
        try:
            has_more = True
            while has_more:
                self._start_and_wait(context, hook, batch, policy)
                batch.ended = [hook.run(explain(end, most_records=self._records_shown)) for end in batch.ended]
                hook.run(self._after_runs(batch))
                has_more = not batch.is_over
        except RunSkipped as skipped:
            raise AirflowSkipException(str(skipped)) from None
        except AirflowTaskTimeout:
            self._timed_out = True
            raise
        self._show_links(context, hook, batch)
        # The time of the request is not known after a deferral.
        elapsed = None if began is None or len(batch.ended) > 1 else time.monotonic() - began
        for end in batch.ended:
            self._log_outcome(end, elapsed)
        result, error = self._finish(batch)
        failed = [end for end in batch.ended if self._error_of(end)]
        finalize_task_state(batch, task_state, failed, succeeded=error is None)
        if self.kill_policy == "disable":
            self._disable_late(hook, batch)
        if error is not None:
            self._failure = error
            push_result(self, context, result)
            raise error
        self._report_assets(context, result)
        return result

    def _start_and_wait(self, context: Context, hook: DatapipeHook, batch: Batch, policy: WaitPolicy) -> None:
        """Start queued runs and wait until all runs end, in the worker or in the triggerer."""
        from airflow_provider_datapipe.runs.batch import start_queued
        from airflow_provider_datapipe.runs.batch_wait import run_batch
        from airflow_provider_datapipe.runs.task_state import task_state_of
        from airflow_provider_datapipe.runs.worker_wait import FIRST_INTERVAL

        task_state, start_policy = task_state_of(context), self._start_policy()
        known = len(batch.waiting)
        # Before the start, so that a resource whose run fails to start is linked as well.
        self._show_links(context, hook, batch)
        hook.run(start_queued(batch, task_state, start_policy, alone=self._has_single_run))
        self._show_links(context, hook, batch)
        self._log_started(batch, known)
        limit = self._worker_limit(hook, policy.poll_interval) if self.deferrable else None
        dense = replace(policy, first_interval=FIRST_INTERVAL)
        hook.run(
            run_batch(
                batch, task_state, start_policy, dense, alone=self._has_single_run, report=self.log.log, limit=limit
            )
        )
        if not batch.is_over:
            from airflow_provider_datapipe.operators.deferral import DEFERRED, hold_arguments
            from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger

            self.log.info(DEFERRED)
            self.defer(
                trigger=DatapipeRunTrigger(
                    self.datapipe_conn_id, batch.as_dict(), policy.as_dict(), self.kill_policy, **hold_arguments(self)
                ),
                method_name="execute_complete",
            )

    def _worker_limit(self, hook: DatapipeHook, poll_interval: float | None) -> Callable[[Batch], float]:
        """Return a function that returns the seconds to wait in the worker for the active runs."""
        from airflow_provider_datapipe.runs.worker_wait import seconds_in_worker

        setting = self._defer_after_setting(hook)

        def limit(batch: Batch) -> float:
            active = [*batch.waiting, *(blocked.by for blocked in batch.blocked)]
            histories = [reference.durations for reference in active]
            found = seconds_in_worker(histories, defer_after=setting, any_of_them=bool(batch.queued))
            # The second poll would come after the wait.
            return 0.0 if poll_interval is not None and poll_interval >= found else found

        return limit

    def _defer_after_setting(self, hook: DatapipeHook) -> float | None:
        from airflow_provider_datapipe.operators.deferral import defer_after_setting, minimum_deferral_time

        minimum_deferral_time(self)
        argument = None if self.defer_after is None else seconds(self.defer_after)
        return defer_after_setting(argument, hook.extra.defer_after)

    def _disable_late(self, hook: DatapipeHook, batch: Batch) -> None:
        """Disable the syncs of runs that timed out, as if a user had stopped the task."""
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.stop import stop
        from airflow_provider_datapipe.runs.wait import WaitOutcomeReason

        late = [end.reference for end in batch.ended if end.reason is WaitOutcomeReason.TIMEOUT]
        for line in hook.run(stop(Batch(self.kind, waiting=late), disable=True)):
            self.log.warning(line)

    def _log_started(self, batch: Batch, known: int) -> None:
        from airflow_provider_datapipe.runs.log_lines.results import started_line

        for reference in batch.waiting[known:]:
            self.log.info("%s", started_line(reference))

    def _log_outcome(self, end: WaitOutcome, elapsed: float | None) -> None:
        from airflow_provider_datapipe.runs.log_lines.results import records_lines, result_line
        from airflow_provider_datapipe.runs.outcome import Outcome

        level = logging.INFO if end.outcome is Outcome.SUCCEEDED else logging.WARNING
        self.log.log(level, "%s", result_line(end, verb=self.result_verb, elapsed=elapsed))
        if records := records_lines(end):
            self.log.warning("%s", records)


class DatapipeSingleRunOperator(DatapipeRunOperator):
    """Base class of operators with one run. They return a :class:`~airflow_provider_datapipe.runs.models.RunResult`."""

    def _target(self) -> Flow[RunTarget]:
        """Return the resource whose run the task starts."""
        raise NotImplementedError

    async def _create_batch(self) -> Batch:
        from airflow_provider_datapipe.runs.batch import Batch

        target = await self._target()
        return Batch(self.kind, queued=[target])

    async def _lineage_targets(self) -> list[RunTarget]:
        return [await self._target()]

    def _finish(self, batch: Batch) -> tuple[RunResult, Exception | None]:
        from airflow_provider_datapipe.runs.results import build_run_result

        (end,) = batch.ended
        return build_run_result(end), self._error_of(end)
