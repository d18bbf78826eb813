"""
Tasks for each kind of run that kill their own process at planned steps.

Each plan in the folder ``chaos_plans`` next to this file is a DAG. tests/system/chaos writes the plans.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import pendulum
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, get_parsing_context

from airflow_provider_datapipe.hooks.datapipe import DatapipeHook
from airflow_provider_datapipe.operators.base import DatapipeRunOperator
from airflow_provider_datapipe.operators.elt_streams import EltStreamRunOperator
from airflow_provider_datapipe.operators.elt_syncs import EltSyncRunOperator
from airflow_provider_datapipe.operators.orchestrations import OrchestrationRunOperator
from airflow_provider_datapipe.operators.reverse_etl_syncs import ReverseEtlRunOperator
from airflow_provider_datapipe.operators.transforms import TransformPublishOperator
from airflow_provider_datapipe.runs.errors import RunFailedError
from airflow_provider_datapipe.runs.wait import WaitOutcomeReason

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.runs.batch import Batch
    from airflow_provider_datapipe.runs.start import StartPolicy
    from airflow_provider_datapipe.runs.task_state import AirflowTaskStateStore

T = TypeVar("T")

PLANS = Path(__file__).with_name("chaos_plans")
#: Endpoints that start runs.
STARTERS = frozenset({"request_run", "publish"})
#: Endpoints that set an option of the next run.
OPTIONS = frozenset({"request_full_refresh", "retry_all"})
#: Seconds after which the service has received a request, but not yet sent its delayed response.
REQUEST_RECEIVED_AFTER = 0.7


class PlannedKills:
    """Kills of this process at given steps."""

    def __init__(self, strikes: Sequence[str], marks: str, victim: str, *, worker: bool) -> None:
        self._strikes = frozenset(strikes)
        self._marks = Path(marks)
        self._victim = victim
        self._worker = worker
        self._reached: Counter[str] = Counter()
        #: True if all runs have ended, and only the task state and the result remain to be stored.
        self.is_over = False

    def reach(self, step: str, after: float = 0) -> None:
        """Kill this process if the step is planned."""
        self._reached[step] += 1
        strike = f"{step}:{self._reached[step]}"
        # Recorded before the kill, because no code runs after it.
        if strike not in self._strikes or not self.is_first(strike):
            return
        if after:
            threading.Timer(after, self._die).start()
        else:
            self._die()

    def is_first(self, event: str) -> bool:
        """Return True at the first call with an event in any process."""
        try:
            (self._marks / f"{self._victim}.{event}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _die(self) -> NoReturn:
        """Kill this process immediately: no handler runs, and nothing is flushed."""
        if self._worker:
            # Worker process of LocalExecutor, which supervises the task.
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process survived its SIGKILL")


class DoomedTaskState:
    """Task state with a possible kill before and after each change."""

    def __init__(self, task_state: AirflowTaskStateStore, kills: PlannedKills) -> None:
        self._task_state = task_state
        self._kills = kills

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task_state, name)

    def set(self, key: str, value: Any, **options: Any) -> None:
        what = "final" if self._kills.is_over else "reference" if value["record"].get("reference") else "intent"
        self._kills.reach(f"before_{what}")
        self._task_state.set(key, value, **options)
        self._kills.reach(f"after_{what}")

    def delete(self, key: str) -> None:
        what = "final" if self._kills.is_over else "delete"
        self._kills.reach(f"before_{what}")
        self._task_state.delete(key)
        self._kills.reach(f"after_{what}")


class DoomedHook(DatapipeHook):
    """Hook with possible kills: before and after a request for a run or an option, and before each other request."""

    def __init__(self, datapipe_conn_id: str, kills: PlannedKills, *, rival: bool) -> None:
        super().__init__(datapipe_conn_id)
        self._kills = kills
        self._rival = rival

    def send(self, request: Request[T]) -> T:
        name = request.endpoint.name.rpartition(".")[2]
        if name in STARTERS:
            return self._send(request, "post")
        if name in OPTIONS:
            return self._send(request, "option")
        self._kills.reach("poll")
        return super().send(request)

    def _send(self, request: Request[T], what: str) -> T:
        self._kills.reach(f"before_{what}")
        if self._rival and what == "post" and self._kills.is_first("rival"):
            super().send(request)
        self._kills.reach(f"during_{what}", REQUEST_RECEIVED_AFTER)
        answer = super().send(request)
        self._kills.reach(f"after_{what}")
        return answer


class DoomedOperator(DatapipeRunOperator):
    """Operator with planned kills."""

    def __init__(
        self,
        *,
        strikes: Sequence[str],
        marks: str,
        worker: bool,
        rival: bool,
        lost_response_timeout: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.strikes = strikes
        self.marks = marks
        self.worker = worker
        self.rival = rival
        self.lost_response_timeout = lost_response_timeout
        self._deferred_before = False

    def execute(self, context: Context) -> Any:
        self._kills = PlannedKills(self.strikes, self.marks, self.task_id, worker=self.worker)
        self._kills.reach("begin")
        try:
            result = super().execute(self._doomed(context))
        except RunFailedError as error:
            self._end(error)
        self._kills.reach("done")
        return result

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        self._kills = PlannedKills(self.strikes, self.marks, self.task_id, worker=self.worker)
        self._deferred_before = True
        self._kills.reach("resume")
        try:
            result = super().execute_complete(self._doomed(context), event)
        except RunFailedError as error:
            self._end(error)
        self._kills.reach("done")
        return result

    def _finish(self, batch: Batch) -> tuple[Any, Exception | None]:
        self._kills.is_over = True
        return super()._finish(batch)

    def _end(self, error: RunFailedError) -> NoReturn:
        """Fail without a retry, which would correctly start another run. Here each task has only one run."""
        ended = self._batch.ended if self._batch else []
        if any(end.reason is not WaitOutcomeReason.RUN_OVER for end in ended):
            # Another stream of the sync has no run yet.
            raise error
        raise AirflowFailException(str(error)) from error

    def defer(self, **arguments: Any) -> NoReturn:
        self._kills.reach("defer_again" if self._deferred_before else "defer")
        super().defer(**arguments)
        raise AssertionError("deferring raises")

    def _doomed(self, context: Context) -> Context:
        doomed = cast("dict[str, Any]", context)
        doomed["task_state_store"] = DoomedTaskState(doomed["task_state_store"], self._kills)
        return context

    def _hook(self) -> DatapipeHook:
        return DoomedHook(self.datapipe_conn_id, self._kills, rival=self.rival)

    def _start_policy(self) -> StartPolicy:
        return replace(super()._start_policy(), lost_response_timeout=self.lost_response_timeout, search_interval=1)


class DoomedStream(DoomedOperator, EltStreamRunOperator):
    """Runs an ELT stream."""


class DoomedSync(DoomedOperator, EltSyncRunOperator):
    """Runs the streams of an ELT sync."""


class DoomedOrchestration(DoomedOperator, OrchestrationRunOperator):
    """Runs an orchestration."""


class DoomedTransform(DoomedOperator, TransformPublishOperator):
    """Publishes a transform."""


class DoomedReverseEtl(DoomedOperator, ReverseEtlRunOperator):
    """Runs a reverse ETL sync."""


OPERATORS: dict[str, type[DoomedOperator]] = {
    "elt_stream": DoomedStream,
    "elt_sync": DoomedSync,
    "orchestration": DoomedOrchestration,
    "transform": DoomedTransform,
    "reverse_etl": DoomedReverseEtl,
}

# The process of a task needs only its own DAG.
for file in sorted(PLANS.glob(f"{get_parsing_context().dag_id or '*'}.json")):
    plan = json.loads(file.read_text(encoding="utf-8"))
    with DAG(
        dag_id=plan["dag_id"],
        start_date=pendulum.datetime(2026, 1, 1),
        schedule=None,
        max_active_tasks=1000,
        default_args={
            # A killed scheduler ends all tasks, also those of other cases.
            "retries": 30,
            "retry_delay": timedelta(seconds=2),
            "datapipe_conn_id": plan["conn_id"],
            "poll_interval": 1,
            "marks": plan["marks"],
            "lost_response_timeout": plan["lost_response_timeout"],
        },
    ) as dag:
        for task in plan["tasks"]:
            OPERATORS[task["kind"]](
                task_id=task["task_id"],
                deferrable=task["deferrable"],
                strikes=task["strikes"],
                worker=task["worker"],
                rival=task["rival"],
                priority_weight=task["priority_weight"],
                **task["arguments"],
            )
    globals()[plan["dag_id"]] = dag
