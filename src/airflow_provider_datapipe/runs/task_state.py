"""Stored state of a task about the run that it starts, for its next tries: known runs, time of the request, run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from math import inf
from typing import Any, Literal, Protocol, TypeVar

import pendulum

from airflow_provider_datapipe.api.models.common import known_time
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget

#: Seconds by which a requested run may seem to begin before its request: timestamps may be cut to whole minutes.
_START_TOLERANCE = 60.0
#: Seconds by which a run may seem to finish before the request: the ``Date`` header has whole seconds.
_FINISH_TOLERANCE = 2.0
#: Seconds after its request in which a run begins. Only used to detect clocks that are wrong by whole hours.
_LATEST_START = 180.0
_HOUR = 3600.0
#: The most hours by which timestamps without a time zone can differ from UTC.
_MOST_HOURS = 14


class AirflowTaskStateStore(Protocol):
    """The methods of Airflow's task state that this package uses."""

    def get(self, key: str) -> Any:
        """Return a value, None if there is none."""

    def set(self, key: str, value: Any) -> None:
        """Store a value."""

    def delete(self, key: str) -> None:
        """Delete a value, if there is one."""


class TaskState(AirflowTaskStateStore, Protocol):
    """Store of records. It must write immediately, and be scoped to one task of one DAG run."""

    def close(self, key: str) -> None:
        """Restrict a record, if there is one, to retries. The task is about to succeed, and may be cleared later."""


class NoTaskState:
    """Store that keeps no records, for Airflow before 3.3, which has no task state."""

    def get(self, key: str) -> Any:
        """Return None."""
        return None

    def set(self, key: str, value: Any) -> None:
        """Do nothing."""

    def delete(self, key: str) -> None:
        """Do nothing."""

    def close(self, key: str) -> None:
        """Do nothing."""


class AirflowTaskState:
    """
    Store of records in Airflow's task state, which persists across retries and clearing.

    A task that has succeeded must start another run when it is cleared. It must not start one if it was killed before
    Airflow stored its success, and retried. Therefore a task that succeeds closes its records: only retries read them.

    :param store: the task state.
    :param life: number that distinguishes a retry from a cleared task: Airflow's ``max_tries``, which clearing
        increases.
    """

    def __init__(self, store: AirflowTaskStateStore, life: int) -> None:
        self._store = store
        self._life = life

    def get(self, key: str) -> Any:
        """Return a record, None if there is none that this try may read."""
        kept = self._store.get(key)
        if kept is None or kept["closed_in"] not in (None, self._life):
            return None
        return kept["record"]

    def set(self, key: str, value: Any) -> None:
        """Store a record."""
        self._store.set(key, {"record": value, "closed_in": None})

    def delete(self, key: str) -> None:
        """Delete a record, if there is one."""
        self._store.delete(key)

    def close(self, key: str) -> None:
        """Restrict a record, if there is one, to retries of the task before it is cleared."""
        record = self.get(key)
        if record is not None:
            self._store.set(key, {"record": record, "closed_in": self._life})


def task_state_of(context: Mapping[str, Any]) -> TaskState:
    """
    Return the state of a task for its next tries: Airflow's task state, available since Airflow 3.3.

    :param context: Airflow's context.
    """
    store: AirflowTaskStateStore | None = context.get("task_state_store")
    return NoTaskState() if store is None else AirflowTaskState(store, context["ti"].max_tries)


def earlier_task_state(context: Mapping[str, Any]) -> TaskState:
    """
    Return the task state of earlier tries. A first try has none, and reading it for many transforms takes long.

    :param context: Airflow's context.
    """
    return NoTaskState() if getattr(context["ti"], "try_number", None) == 1 else task_state_of(context)


class ListedRun(Protocol):
    """The part of a run in a list that identifies new runs; ``due_at`` is optional."""

    @property
    def id(self) -> str:
        """ID of the run."""

    @property
    def started_at(self) -> pendulum.DateTime | None:
        """Start time."""

    @property
    def finished_at(self) -> pendulum.DateTime | None:
        """End time."""


R = TypeVar("R", bound=ListedRun)


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """
    Known runs of a resource before the task requests one.

    A list can lag, contain planned runs and be ordered by other keys. So a run counts as new only if its ID is not
    known and its times do not contradict: its position in the list proves nothing.

    :param known: IDs of the listed runs that could be mistaken for a new one, and whether each was over.
    :param since: time of the request in seconds since the epoch, by the service's clock; None if not known.
    :param state: state of a resource whose runs have no ID (transforms).
    """

    known: dict[str, bool] = field(default_factory=dict)
    since: float | None = None
    state: dict[str, Any] | None = None

    @classmethod
    def of(cls, runs: Iterable[R], since: float, is_over: Callable[[R], bool]) -> KnownRuns:
        """
        Return the baseline that a list of runs shows.

        :param runs: the newest runs of the resource.
        :param since: see :class:`KnownRuns`.
        :param is_over: returns True if a run has finished.
        """
        # Runs that their times exclude at any later moment need not be stored.
        return cls({run.id: is_over(run) for run in runs if may_be_new(run, since, inf)}, since)

    def is_new(self, run: ListedRun, now: float) -> bool:
        """
        Return True if a run may have been started by the request.

        :param run: the run.
        :param now: current time by the service's clock.
        """
        return run.id not in self.known and (self.since is None or may_be_new(run, self.since, now))

    def was_over(self, state: RunState, now: float) -> bool:
        """
        Return True if a run had finished before the request, or if that is not known.

        :param state: the run as it is now.
        :param now: current time by the service's clock.
        """
        if not state.outcome.is_over:
            return False
        finished = _parsed(state, "finished_at")
        if finished is None or self.since is None:
            return self.known.get(state.reference.run_id or "", True)
        # A service that writes local times without an offset shows ends in the future.
        return not self.since - _FINISH_TOLERANCE <= finished.timestamp() <= now + _START_TOLERANCE

    def is_new_run(self, state: RunState, now: float) -> bool:
        """
        Return True if a run that was read by its ID may have been started by the request.

        :param state: the run.
        :param now: current time by the service's clock.
        """
        run = _Run(state.reference.run_id or "", _parsed(state, "started_at"), _parsed(state, "finished_at"))
        return self.is_new(run, now)


@dataclass(frozen=True, slots=True)
class _Run:
    id: str
    started_at: pendulum.DateTime | None
    finished_at: pendulum.DateTime | None


def _parsed(state: RunState, name: Literal["started_at", "finished_at"]) -> pendulum.DateTime | None:
    text = state.result and state.result[name]
    return pendulum.instance(datetime.fromisoformat(text)) if text else None


def oldest_new_run(runs: Iterable[R], baseline: KnownRuns, now: float) -> R | None:
    """
    Return the first run that may have been started by a request, or None.

    :param runs: the newest runs of the resource, in any order; of runs without times, the newest first.
    :param baseline: runs known before the request.
    :param now: current time by the service's clock.
    """
    new = [run for run in runs if baseline.is_new(run, now)]
    return min(reversed(new), key=lambda run: _began(run) or inf, default=None)


def may_be_new(run: ListedRun, since: float, now: float) -> bool:
    """
    Return True unless the times of a run exclude that it was started by a request.

    :param run: the run.
    :param since: time of the request, by the service's clock.
    :param now: current time by the service's clock.
    """
    began, finished = _began(run), _seconds(run.finished_at)
    if began is None:
        return finished is None or finished >= since - _FINISH_TOLERANCE
    if began > now + _START_TOLERANCE:
        # Planned for later, or canceled before it was due; also where the times are ahead by whole hours, since a run
        # that has started is shown with its start.
        return known_time(run.started_at) is not None
    if began >= since - _START_TOLERANCE:
        return finished is None or finished >= since - _FINISH_TOLERANCE
    # A service that writes local times without an offset is wrong by whole hours.
    latest = min(now, since + _LATEST_START) + _FINISH_TOLERANCE
    return any(since - _FINISH_TOLERANCE <= began + hours * _HOUR <= latest for hours in range(1, _MOST_HOURS + 1))


def _began(run: ListedRun) -> float | None:
    due_at: Any = getattr(run, "due_at", None)
    return _seconds(known_time(run.started_at) or due_at)


def _seconds(time: pendulum.DateTime | None) -> float | None:
    known = known_time(time)
    return None if known is None else known.timestamp()


@dataclass(frozen=True, slots=True)
class StartRecord:
    """
    State of the start of a run.

    :param baseline: runs known before the first request.
    :param intended_at: time of the last request by the service's clock, in seconds since the epoch.
    :param reference: the run; None as long as it is not known.
    :param options: options of the requested run; None if not known.
    """

    baseline: KnownRuns
    intended_at: float
    reference: RunRef | None = None
    options: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"reference": self.reference and self.reference.as_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StartRecord:
        """Return the record that :meth:`as_dict` serialized."""
        reference = data["reference"]
        return cls(
            KnownRuns(**data["baseline"]),
            data["intended_at"],
            RunRef.from_dict(reference) if reference else None,
            data.get("options"),
        )


def task_state_key(kind: str, target: RunTarget) -> str:
    """Return the key of the record of one run. A sync has one record for each stream."""
    return f"datapipe.{kind}.{target.resource_id}"
