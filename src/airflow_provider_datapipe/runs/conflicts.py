"""
Meaning of a 409 (a run is active or scheduled already), and the ``if_running`` policy.

.. code-block:: text

    the run in the way                attach           wait, or an own run is needed   fail     skip
    active                            attach           wait for it, then request       fail     skip
    scheduled, not visible yet        attach           wait for it, then request       fail     skip
    finished since the request        take its result  request again                   fail     skip
    finished before, or can't be read request again    request again                   fail     skip

``request again`` happens with a growing delay and for a limited time (:mod:`.start`): a lagging replica can refuse a
request because of a finished run, or not show a run that has just started.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import Kind
from airflow_provider_datapipe.runs.models import RunState, RunTarget


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


class RunSkipped(Exception):  # noqa: N818 - no error: the DAG's author chose it
    """A run is already active, and ``if_running`` is ``skip``."""


class ActiveRunConflict(Exception):  # noqa: N818 - no error: a run has to end first
    """
    Another run has to end before the task can start its run.

    :param observation: the other run.
    """

    def __init__(self, observation: RunState) -> None:
        super().__init__()
        self.observation = observation


class RunInTheWay(Enum):
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

    :param state: state of the run in the way.
    :param run: the run in the way.
    """

    state: RunInTheWay
    run: RunState


def decide(kind: Kind, target: RunTarget, conflict: Conflict, policy: IfRunning) -> RunState | None:
    """
    Return the run to attach to, or None if the run is to be requested again.

    :param kind: the kind of run.
    :param target: the resource to run.
    :param conflict: the run in the way.
    :param policy: ``if_running``.
    :raises Blocked: if the run in the way has to end first.
    :raises RunSkipped: if the policy is ``skip``.
    :raises RunConflictError: if the policy is ``fail``.
    """
    run_id = conflict.run.reference.run_id
    which = f"run {run_id}" if run_id else "scheduled"
    if policy is IfRunning.SKIP:
        raise RunSkipped(f"{kind.noun} {target.name} is running already ({which}); skipped.")
    if policy is IfRunning.FAIL:
        raise RunConflictError(
            f"{kind.noun} {target.name} is running already ({which}), and if_running='fail'.\nWait for "
            "that run to end, or choose another if_running."
        )
    # A run that began before a full refresh, or a retry of records, was requested does not perform it.
    needs_own_run = policy is IfRunning.WAIT or kind.needs_own_run(target)
    if conflict.state is RunInTheWay.ACTIVE:
        if needs_own_run:
            raise ActiveRunConflict(conflict.run)
        return conflict.run
    return conflict.run if conflict.state is RunInTheWay.FINISHED and not needs_own_run else None
