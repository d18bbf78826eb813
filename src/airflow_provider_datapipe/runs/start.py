"""
Starting a run: one decision, for blocking and deferred tasks alike.

Crash-safe starting (a record of the intent, and a look-up after an ambiguous answer) belongs here, in :func:`start`.
"""

from __future__ import annotations

from airflow_provider_datapipe.api.errors import ConflictError
from airflow_provider_datapipe.runs.errors import RunConflictError
from airflow_provider_datapipe.runs.kinds import Kind
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Observation, Target
from airflow_provider_datapipe.runs.steps import Steps, ask


def start(kind: Kind, target: Target) -> Steps[Observation]:
    """
    Ask for a run, or attach to the one that is going already.

    :param kind: the kind of run.
    :param target: what is to be run.
    :return: the run, as far as it is known at once.
    :raises RunConflictError: a run is going that does not do what was asked for, such as a full refresh.
    :raises DatapipeError: the service refused, or could not be reached.
    """
    for request in kind.prepare(target):
        yield from ask(request)
    try:
        answer = yield from ask(kind.request(target))
    except ConflictError as error:
        if target.options.get("full_refresh"):
            raise RunConflictError(
                f"{kind.noun} {target.name}: a run began before this task asked for a full refresh, so it is none. "
                "The run after it will be one: wait for the run to end, then run this task again."
            ) from None
        newest = None if error.active_run_id else (yield from ask(kind.newest(target.resource_id)))
        return Observation(kind.conflict(target, error, newest), Outcome.SCHEDULED)
    return kind.accepted(target, answer)
