"""
Meaning of a 409 (a run is active or scheduled already), and the ``if_running`` policy.

.. code-block:: text

    blocking run                        attach           wait, or an own run is needed   fail     skip
    started by this task                attach           attach                          attach   attach
    active                              attach           wait for it, then request       fail     skip
    finished after the request          take its result  request again                   fail     skip
    finished before, or cannot be read  request again    request again                   fail     skip
    not visible, first refusal          request again, without a pause
    not visible, further refusals       as active: the run is scheduled, and not listed yet

A run counts as started by this task if it is new since the first request, and the service may have executed a request
whose response was lost. While this is possible, and no active run is visible, the request is repeated regardless
of the policy: the refusal may be due to the task's own run, which is not listed yet.

Requests are repeated with a growing pause and for a limited time (``lost_response_timeout``), because a lagging replica
can refuse a request because of a finished run, or not show a run that has just started. After this time, the start
fails, or waits for the task's own run to appear in the list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import Any

from airflow_provider_datapipe.api.errors import AuthenticationError, ConflictError, DatapipeError
from airflow_provider_datapipe.api.retry import backoff_delay
from airflow_provider_datapipe.flows import send, sleep
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import Kind
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.run_history import RunRecord
from airflow_provider_datapipe.runs.task_state import KnownRuns
from airflow_provider_datapipe.runs.wait import SCHEDULE_LIMIT

#: The longest pause between two requests that the service refuses, in seconds.
_LONGEST_PAUSE = 30.0


class IfRunning(StrEnum):
    """Policy for an active run that this task did not start."""

    #: Wait for the active run, and use its result.
    ATTACH = "attach"
    #: Wait until the active run ends, then start another run.
    WAIT = "wait"
    #: Fail the task.
    FAIL = "fail"
    #: Skip the task.
    SKIP = "skip"


class RunSkipped(Exception):  # noqa: N818 - not an error: the DAG's author chose it
    """A run is already active, and ``if_running`` is ``skip``."""


class ActiveRunConflict(Exception):  # noqa: N818 - not an error: another run has to end first
    """
    Another run has to end before the task can start its run.

    :param run_state: state of the other run.
    """

    def __init__(self, run_state: RunState) -> None:
        super().__init__()
        self.run_state = run_state


class BlockingRunState(Enum):
    """State of the run because of which the service refused a request."""

    #: Active, or scheduled and not visible yet.
    ACTIVE = auto()
    #: Finished after the request.
    FINISHED = auto()
    #: Finished before the request, not known to the service, or its state can't be read.
    STALE = auto()


@dataclass(frozen=True, slots=True)
class Conflict:
    """
    A refused request.

    :param state: state of the blocking run.
    :param run: the blocking run.
    """

    state: BlockingRunState
    run: RunState


@dataclass(slots=True, kw_only=True)
class ConflictResolver:
    """
    Decisions about the refused requests of one start.

    :param kind: the kind of run.
    :param target: the resource to run.
    :param if_running: policy for a run that this task did not start.
    :param time_limit: seconds for which a request is repeated that the service refuses without an active run.
    :param first_pause: seconds before the first repetition that follows a pause.
    :param newest: function that requests the newest runs.
    :param clock: function that returns the current time in seconds since the epoch.
    :param service_time: function that returns the current time by the service's clock.
    """

    kind: Kind
    target: RunTarget
    if_running: IfRunning
    time_limit: float
    first_pause: float
    newest: Callable[[], Awaitable[Any]]
    clock: Callable[[], float]
    service_time: Callable[[], float]
    #: Number of refusals, and time of the first one after which the task paused.
    _refusals: int = field(default=0, init=False)
    _since: float | None = field(default=None, init=False)

    def check_active(self, newest: Any) -> None:
        """
        Raise if an active run is visible and ``if_running`` does not allow to start another run now.

        Neither a load whose last slice finished too long ago nor a run that is planned for later counts. If one of them
        prevents another run, the service refuses the request.

        :param newest: the newest runs.
        :raises: see :meth:`resolve`.
        """
        active = self.kind.find_active(self.target, newest)
        if active is not None and not self._is_abandoned(RunRecord.of(active)) and not self._is_planned(active):
            self._apply_policy(Conflict(BlockingRunState.ACTIVE, active))

    async def resolve(self, baseline: KnownRuns, error: ConflictError, *, may_have_started: bool) -> RunState | None:
        """
        Return the run to wait for, or None to send the request again. Pause before, if necessary.

        :param baseline: runs known before the first request.
        :param error: the refusal.
        :param may_have_started: True if the service may have executed an earlier request of this task.
        :raises ActiveRunConflict: if the blocking run has to end first.
        :raises RunSkipped: if the policy is ``skip``.
        :raises RunConflictError: if the policy is ``fail``, or the service keeps refusing without an active run.
        """
        conflict = await self._find_conflict(baseline, error, may_have_started=may_have_started)
        if isinstance(conflict, RunState):
            return conflict
        self._refusals += 1
        if conflict is None and self._refusals == 1:
            # The blocking run is scheduled or has just ended: the service refuses another request if it is scheduled.
            return None
        # The service may have scheduled this task's own run, which is not listed yet.
        may_be_own = may_have_started and (conflict is None or conflict.state is BlockingRunState.STALE)
        if conflict is not None and not may_be_own:
            attached = self._apply_policy(conflict)
            if attached is not None:
                return attached
        if self._since is None:
            self._since = self.clock()
        elif self.clock() >= self._since + self.time_limit:
            expected = self.kind.expected(self.target, baseline)
            if may_be_own and expected is not None:
                return RunState(replace(expected, attached=True), Outcome.SCHEDULED)
            raise self._refused(conflict, error) from None
        await sleep(backoff_delay(self._refusals, first=self.first_pause, longest=_LONGEST_PAUSE))
        return None

    async def _find_conflict(
        self, baseline: KnownRuns, error: ConflictError, *, may_have_started: bool
    ) -> RunState | Conflict | None:
        """Return this task's own run, or the conflict with another run, or None if no run explains the refusal."""
        kind, target = self.kind, self.target
        newest = None
        if may_have_started or not error.active_run_id:
            newest = await self.newest()
        if may_have_started:
            own = kind.find_new(target, baseline, newest, self.service_time())
            if own is not None:
                return own
        if error.active_run_id:
            named = await self._named(baseline, RunRef.to(kind.name, target, run_id=error.active_run_id))
            is_shown = named.state is not BlockingRunState.STALE
            # if_running does not apply to this task's own run.
            is_own = may_have_started and is_shown and baseline.is_new_run(named.run, self.service_time())
            return named.run if is_own else named
        active = kind.find_active(target, newest)
        if active is not None:
            return Conflict(BlockingRunState.ACTIVE, active)
        expected = kind.expected(target, baseline)
        if expected is None or not (may_have_started or self._refusals):
            return None
        scheduled = RunState(replace(expected, attached=True), Outcome.SCHEDULED)
        # The service executed the request whose response was lost. if_running does not apply to this task's own run.
        return scheduled if may_have_started else Conflict(BlockingRunState.ACTIVE, scheduled)

    async def _named(self, baseline: KnownRuns, reference: RunRef) -> Conflict:
        """Return the state of the run that a refusal names."""
        reference = replace(reference, attached=True)
        try:
            state = self.kind.read(reference, await send(self.kind.poll_request(reference)))
        except AuthenticationError:
            raise
        except DatapipeError:
            # Do not attach to this run: it may have finished before the request.
            return Conflict(BlockingRunState.STALE, RunState(reference, Outcome.SCHEDULED))
        if not state.outcome.is_over:
            return Conflict(BlockingRunState.ACTIVE, state)
        was_over = baseline.was_over(state, self.service_time())
        return Conflict(BlockingRunState.STALE if was_over else BlockingRunState.FINISHED, state)

    def _is_abandoned(self, run: RunRecord) -> bool:
        """Return True for a slice after which the next run of its load should have appeared."""
        is_old = run.finished is not None and self.service_time() > run.finished.timestamp() + SCHEDULE_LIMIT
        return run.is_slice and is_old

    def _is_planned(self, state: RunState) -> bool:
        """Return True for a run that is scheduled for a later time than a requested run."""
        due = state.result["started_at"] if state.outcome is Outcome.SCHEDULED and state.result else None
        return due is not None and datetime.fromisoformat(due).timestamp() > self.service_time() + SCHEDULE_LIMIT

    def _apply_policy(self, conflict: Conflict) -> RunState | None:
        """Return the run to attach to, or None to request another run. Raise as in :meth:`resolve`."""
        run_id = conflict.run.reference.run_id
        which = f"run {run_id}" if run_id else "scheduled"
        if self.if_running is IfRunning.SKIP:
            raise RunSkipped(f"{self.kind.noun} {self.target.name} is running already ({which}); skipped.")
        if self.if_running is IfRunning.FAIL:
            raise RunConflictError(
                f"{self.kind.noun} {self.target.name} is running already ({which}), and if_running='fail'.\nWait for "
                "that run to end, or choose another if_running."
            )
        # A run that began before a full refresh, or a retry of records, was requested does not perform it.
        needs_own_run = self.if_running is IfRunning.WAIT or self.kind.needs_own_run(self.target)
        if conflict.state is BlockingRunState.ACTIVE and needs_own_run:
            raise ActiveRunConflict(conflict.run)
        return None if needs_own_run or conflict.state is BlockingRunState.STALE else conflict.run

    def _refused(self, conflict: Conflict | None, error: ConflictError) -> RunConflictError:
        run_id = conflict.run.reference.run_id if conflict else None
        why = (
            f"because of run {run_id}, which is not active or cannot be read"
            if run_id
            else "but shows no run that is active"
        )
        return RunConflictError(
            f"{self.kind.noun} {self.target.name}: the service refused {self._refusals} requests for a run, {why}."
            f"\nThe last refusal: {error}\nCheck the runs in the service, then run this task again."
        )
