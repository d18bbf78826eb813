"""What all operators that start runs share. Nothing heavy is imported here: DAG files import this."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseOperator

from airflow_provider_datapipe.links import DatapipeLink, address_of, show_link

# All that differs between versions here: common.compat would be three more modules for each DAG file.
try:
    from airflow.sdk.configuration import conf
except ModuleNotFoundError:  # before Airflow 3.2
    from airflow.configuration import conf

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.records import Records, Store
    from airflow_provider_datapipe.runs.reference import Reference, RunResult, Target
    from airflow_provider_datapipe.runs.start import StartPolicy
    from airflow_provider_datapipe.runs.steps import Steps
    from airflow_provider_datapipe.runs.wait import End, WaitPolicy


#: Whether tasks give up their place while they wait, where they do not say.
DEFERRABLE: bool = conf.getboolean("operators", "default_deferrable", fallback=False)


def seconds(value: timedelta | float) -> float:
    """Give a duration in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def keep_result(task: Any, context: Context, result: Any) -> None:
    """
    Keep the result of a task that is about to fail: what is known, and what did not fail, is of use downstream.

    :param task: the operator.
    :param context: Airflow's context.
    :param result: what it would have returned.
    """
    if task.do_xcom_push and "ti" in context:
        context["ti"].xcom_push(key="return_value", value=result)


def place_of(task: Any, path: str, *, is_folder: bool) -> Path:
    """
    Find a file or folder that a task was given: where the DAG's file is, then in the DAG's ``template_searchpath``.

    :param task: the operator.
    :param path: its path; one that is absolute, or found nowhere, stays as it is.
    :param is_folder: whether it is a folder, and no file.
    """
    from pathlib import Path

    given = Path(path)
    dag = task.get_dag()
    above = [dag.folder, *(dag.template_searchpath or ())] if dag is not None else []
    places = [Path(each) / given for each in above]
    return next((place for place in places if (place.is_dir() if is_folder else place.is_file())), given)


def deadline_of(task: Any, context: Context, timeout: float) -> float:
    """
    Give the time at which waiting ends, as seconds since the epoch.

    :param task: the operator or sensor.
    :param context: Airflow's context.
    :param timeout: how long the task itself waits, in seconds.
    """
    deadline = time.time() + timeout
    started = getattr(context.get("ti"), "start_date", None)
    # Airflow does not enforce it while a task is deferred, so the wait does.
    if task.deferrable and task.execution_timeout is not None and started is not None:
        deadline = min(deadline, (started + task.execution_timeout).timestamp())
    return deadline


class DatapipeRunOperator(BaseOperator):
    """
    Starts runs on the service and waits for their end: in a worker slot, or deferred to the triggerer.

    A run is started once: a task that was killed, or lost the answer, finds the run that it started when it is tried
    again (with Airflow 3.3 or later by what it noted before; see "Exactly once" in the documentation).
    The service has no way to cancel a run: it goes on when the task is stopped.

    :param datapipe_conn_id: the :ref:`Datapipe connection <connection>`. (templated)
    :param poll_interval: seconds between two looks at a run; None for the connection's, or, where that has none, for
        what the history of the runs says (see "How often it looks" in the documentation).
    :param timeout: how long to wait for the end, from the start of the task; ``execution_timeout`` counts as well, also
        while the task is deferred.
    :param if_running: what happens when a run is going already that this task did not start: ``attach`` to it, ``wait``
        for its end and then start one, ``fail``, or ``skip`` the task.
    :param on_kill: what happens when the task is stopped or times out: ``leave`` the run and say where to look, or also
        ``disable`` the ELT sync or reverse ETL sync, so that it does not run on its schedule. A task that is cleared,
        or whose worker is shut down, is not stopped: it goes on with its run.
    :param emit_assets: whether what the task makes new is an outlet of it, on which DAGs can be scheduled
        (:mod:`~airflow_provider_datapipe.assets`). A query or a plan makes nothing new.
    :param deferrable: wait in the triggerer, without a worker slot. The default is Airflow's
        ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = ("datapipe_conn_id",)
    operator_extra_links = (DatapipeLink(),)
    ui_color = "#d7efe9"

    #: Name of the kind of run.
    kind: ClassVar[str]
    #: What is made new; None where nothing is. And the argument that has its id, where there is one.
    asset_kind: ClassVar[str | None] = None
    asset_argument: ClassVar[str | None] = None
    #: Names of the endpoints that it may start and prepare runs with; ``on_kill`` may disable what runs, besides.
    endpoints: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        datapipe_conn_id: str = "datapipe_default",
        poll_interval: timedelta | float | None = None,
        timeout: timedelta | float = timedelta(days=1),
        if_running: Literal["attach", "wait", "fail", "skip"] = "attach",
        on_kill: Literal["leave", "disable"] = "leave",
        emit_assets: bool = False,
        deferrable: bool = DEFERRABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.datapipe_conn_id = datapipe_conn_id
        self.poll_interval = poll_interval
        self.timeout = timeout
        self.if_running = if_running
        # ``on_kill`` is the name of Airflow's method.
        self.kill_policy = on_kill
        self.deferrable = deferrable
        self.emit_assets = emit_assets
        self._under_way: Batch | None = None
        self._failure: Exception | None = None
        self._instance: Any = None
        self._timed_out = False
        if if_running not in ("attach", "wait", "fail", "skip"):
            raise ValueError(f"if_running must be 'attach', 'wait', 'fail' or 'skip', not {if_running!r}")
        if on_kill not in ("leave", "disable"):
            raise ValueError(f"on_kill must be 'leave' or 'disable', not {on_kill!r}")
        if poll_interval is not None and not 0 < seconds(poll_interval) < inf:
            raise ValueError(f"poll_interval must be a finite number of more than 0 seconds, not {poll_interval}")
        if not 0 < seconds(timeout) < inf:
            raise ValueError(f"timeout must be a finite number of more than 0 seconds, not {timeout}")

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """Map it: what the tasks will make new is not known yet, so that they tell of it through an alias."""
        mapped: OperatorPartial = super().partial(**kwargs)
        # Airflow looks at the defaults of a DAG or a group for its own arguments only.
        above = [place.default_args for name in ("dag", "task_group") if (place := mapped.kwargs.get(name))]
        all_given = (*above, kwargs.get("default_args") or {}, kwargs)
        said = [given["emit_assets"] for given in all_given if "emit_assets" in given]
        if cls.asset_kind is not None and said and said[-1]:
            from airflow_provider_datapipe.assets import declared

            mapped.kwargs["outlets"] = declared(cls.asset_kind, None, None, mapped.kwargs.get("outlets") or ())
        return mapped

    def execute(self, context: Context) -> Any:
        """
        Start the runs, wait and give the result.

        :raises DatapipeError: the service refused, could not be reached, or a run did not succeed.
        """
        from airflow_provider_datapipe.runs.kinds import KINDS
        from airflow_provider_datapipe.runs.start import going_first

        hook = self._hook()
        try:
            if self.asset_kind is not None and self.asset_argument is not None:
                # A service that is down has a page, and so has what is not there.
                given = getattr(self, self.asset_argument)
                known = given if isinstance(given, str) else None
                show_link(self, context, address_of(hook.extra.link, self.asset_kind, known))
            batch = hook.run(self._begin())
            if batch.at_a_time is not None:
                batch.queued = hook.run(going_first(KINDS[batch.kind], batch.queued, records_of(context)))
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

    def _declare_assets(self) -> None:
        """Add what is made new to the outlets, if it is to be there; each class calls this when its id is set."""
        if self.asset_kind is not None and self.emit_assets:
            from airflow_provider_datapipe.assets import declared

            resource_id = None if self.asset_argument is None else getattr(self, self.asset_argument)
            self.outlets = declared(self.asset_kind, resource_id, self.datapipe_conn_id, self.outlets)

    def _tell_of_assets(self, context: Context, result: Any) -> None:
        """Say in the events of the outlets what the runs came to."""
        if self.asset_kind is not None and self.outlets and "outlet_events" in context:
            from airflow_provider_datapipe.assets import tell

            tell(self.outlets, context["outlet_events"], self.datapipe_conn_id, result)

    def _works_on(self, batch: Batch) -> tuple[str, str | None]:
        """Say what the task's link leads to: kind and id."""
        known: list[Reference | Target] = [*batch.waiting, *(end.reference for end in batch.ended), *batch.queued]
        known += [hindered.target for hindered in batch.hindered]
        return self.kind, known[0].resource_id if known else None

    def _address(self, hook: DatapipeHook, batch: Batch) -> str:
        """Give the address of the page of what the task works on; of its run, once that is known."""
        runs = [*batch.waiting, *(end.reference for end in batch.ended)]
        run_id = runs[0].run_id if runs and self._alone else None
        return address_of(hook.extra.link, *self._works_on(batch), run_id)

    def _go_on(self, batch: Batch) -> Steps[None]:
        """Do what is left once all runs so far have ended; what it puts into the queue is run as well."""
        yield from ()

    def _finish(self, batch: Batch) -> tuple[Any, Exception | None]:
        """Give the result, and the error that the task ends with, if any."""
        raise NotImplementedError

    @property
    def _alone(self) -> bool:
        """Whether the batch stands for one run, whose errors are the task's."""
        return True

    def _hook(self) -> DatapipeHook:
        from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

        hook = DatapipeHook(self.datapipe_conn_id)
        hook.tells_lineage = False
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
        """Say that the run goes on, and where to look; by policy take it off its schedule, too."""
        from airflow_provider_datapipe.runs.stop import stop

        if self._under_way is None:
            return
        hook = self._hook()
        try:
            disable = self.kill_policy == "disable" and self._is_stopped_for_good()
            for line in hook.run(stop(self._under_way, disable=disable)):
                self.log.warning(line)
        finally:
            hook.close()

    def _is_stopped_for_good(self) -> bool:
        """Tell whether the task is out of time or was ended by a person, and will not be run again at once."""
        from airflow_provider_datapipe.triggers.stopped import is_ended

        try:
            return self._timed_out or is_ended(self._instance)
        except Exception:
            # Whatever Airflow raises: a sync that is stopped by mistake is seen, one that runs on by mistake is not.
            self.log.exception("Airflow can't be asked whether this task was ended by a person. It is taken to be.")
            return True

    @property
    def _failed_rows_allowed(self) -> int:
        """How many rows may fail in a run that otherwise completed."""
        return 0

    def get_openlineage_facets_on_start(self) -> Any:
        """Tell OpenLineage what is going to be read and written."""
        from airflow_provider_datapipe.lineage.tasks import TaskOfRuns, lineage_of_task

        # Once the task has got to its runs, in this process, they are told as well.
        finding = self._lineage_targets, self._lineage_queries, self._lineage_version()
        return lineage_of_task(TaskOfRuns(self.datapipe_conn_id, self.kind, *finding, self._under_way))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Tell OpenLineage what was read and written."""
        return self.get_openlineage_facets_on_start()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """Tell OpenLineage what was to be read and written, and why it was not."""
        return self.get_openlineage_facets_on_start()

    def _lineage_targets(self) -> Steps[list[Target]]:
        """Find what is going to be run, for lineage: nothing is run."""
        yield from ()
        return []

    def _lineage_queries(self) -> dict[str, str]:
        """Give the SQL that is going to be run as it is, by what each is for, for lineage."""
        return {}

    def _lineage_version(self) -> str | None:
        """Say which SQL of transforms is run, for lineage: ``published``, a version's id, or None for the newest."""
        return None

    @property
    def _records_shown(self) -> int:
        """How many of the records that failed are asked for, and shown."""
        return 0

    def _start_policy(self) -> StartPolicy:
        from airflow_provider_datapipe.runs.conflicts import IfRunning
        from airflow_provider_datapipe.runs.start import StartPolicy

        return StartPolicy(if_running=IfRunning(self.if_running), max_failed_rows=self._failed_rows_allowed)

    def _proceed(self, context: Context, hook: DatapipeHook, batch: Batch, policy: WaitPolicy) -> Any:
        from airflow.providers.common.compat.sdk import AirflowSkipException, AirflowTaskTimeout

        from airflow_provider_datapipe.runs.batch import settle_records
        from airflow_provider_datapipe.runs.conflicts import RunSkipped
        from airflow_provider_datapipe.runs.verdict import error_of, explain

        self._under_way, self._instance = batch, context.get("ti")
        records = records_of(context)
        try:
            going_on = True
            while going_on:
                self._carry_out(context, hook, batch, policy)
                batch.ended = [hook.run(explain(end, most_records=self._records_shown)) for end in batch.ended]
                hook.run(self._go_on(batch))
                going_on = not batch.is_over
        except RunSkipped as skipped:
            raise AirflowSkipException(str(skipped)) from None
        except AirflowTaskTimeout:
            self._timed_out = True
            raise
        show_link(self, context, self._address(hook, batch))
        for end in batch.ended:
            self._log_end(end)
        result, error = self._finish(batch)
        failed = [end for end in batch.ended if error_of(end, max_failed_rows=self._failed_rows_allowed)]
        settle_records(batch, records, failed, succeeded=error is None)
        if self.kill_policy == "disable":
            self._disable_late(hook, batch)
        if error is not None:
            self._failure = error
            keep_result(self, context, result)
            raise error
        self._tell_of_assets(context, result)
        return result

    def _carry_out(self, context: Context, hook: DatapipeHook, batch: Batch, policy: WaitPolicy) -> None:
        """Start what is queued, and wait until all has ended, here or in the triggerer."""
        from airflow_provider_datapipe.runs.batch import run_batch, start_queued

        records, start_policy = records_of(context), self._start_policy()
        known = len(batch.waiting)
        # First: a run that can't be started has a page to look at, too.
        show_link(self, context, self._address(hook, batch))
        hook.run(start_queued(batch, records, start_policy, alone=self._alone))
        self._log_started(batch, known)
        if self.deferrable and not batch.is_over:
            from airflow_provider_datapipe.triggers.run import DatapipeRunTrigger

            self.defer(
                trigger=DatapipeRunTrigger(self.datapipe_conn_id, batch.as_dict(), policy.as_dict(), self.kill_policy),
                method_name="execute_complete",
            )
        hook.run(run_batch(batch, records, start_policy, policy, alone=self._alone, tell=self.log.info))

    def _disable_late(self, hook: DatapipeHook, batch: Batch) -> None:
        """Do for runs that were waited for in vain what is done when a person stops the task."""
        from airflow_provider_datapipe.runs.batch import Batch
        from airflow_provider_datapipe.runs.stop import stop
        from airflow_provider_datapipe.runs.wait import EndReason

        late = [end.reference for end in batch.ended if end.reason is EndReason.TIMEOUT]
        for line in hook.run(stop(Batch(self.kind, waiting=late), disable=True)):
            self.log.warning(line)

    def _log_started(self, batch: Batch, known: int) -> None:
        from airflow_provider_datapipe.runs.progress import usual_duration

        for reference in batch.waiting[known:]:
            how = " that was going already" if reference.attached else ""
            usual = usual_duration(reference.durations)
            known_of_it = f"; {usual}" if usual else ""
            self.log.info("Waiting for the run of %s %s%s%s.", reference.kind, reference.name, how, known_of_it)

    def _log_end(self, end: End) -> None:
        from airflow_provider_datapipe.runs.outcome import Outcome
        from airflow_provider_datapipe.runs.verdict import result_of

        result = result_of(end)
        rows = "unknown" if result["rows_synced"] is None else f"{result['rows_synced']:,}"
        is_well = end.outcome is Outcome.SUCCEEDED
        self.log.log(
            logging.INFO if is_well else logging.WARNING,
            "Run %s of %s %s: %s (%s), rows: %s.%s",
            result["run_id"],
            end.reference.kind,
            end.reference.name,
            end.outcome,
            end.reason,
            rows,
            "" if is_well or not result["error"] else f" The service says: {result['error']}",
        )
        if end.records:
            self.log.warning(
                "Records of %s that failed, the first %d:%s",
                end.reference.name,
                len(end.records),
                "".join(f"\n  {record['record_id']}: {record['error']}" for record in end.records),
            )


def records_of(context: Context) -> Records:
    """Give the place where this task remembers its runs: Airflow's task state, which is there since 3.3."""
    from airflow_provider_datapipe.runs.records import NoRecords, TaskStateRecords

    store: Store | None = context.get("task_state_store")
    return NoRecords() if store is None else TaskStateRecords(store, context["ti"].max_tries)


class DatapipeSingleRunOperator(DatapipeRunOperator):
    """An operator that stands for one run, and returns its :class:`~.runs.reference.RunResult`."""

    def _target(self) -> Steps[Target]:
        """Say what is to be run."""
        raise NotImplementedError

    def _begin(self) -> Steps[Batch]:
        from airflow_provider_datapipe.runs.batch import Batch

        target = yield from self._target()
        return Batch(self.kind, queued=[target])

    def _lineage_targets(self) -> Steps[list[Target]]:
        return [(yield from self._target())]

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
