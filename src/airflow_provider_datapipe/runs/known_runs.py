"""Runs that a task knows before it requests one, and the runs that are new since then. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any, Literal, Protocol, TypeVar

import pendulum

from airflow_provider_datapipe.api.models.common import known_time
from airflow_provider_datapipe.runs.models import RunState

#: Seconds by which a requested run may seem to begin before its request: timestamps may be cut to whole minutes.
_START_TOLERANCE = 60.0
#: Seconds by which a run may seem to finish before the request: the ``Date`` header has whole seconds.
_FINISH_TOLERANCE = 2.0
#: Seconds after its request in which a run begins, as far as a clock that is wrong by whole hours is considered.
_LATEST_START = 180.0
_HOUR = 3600.0
#: The most hours by which timestamps without a time zone can differ from UTC.
_MOST_HOURS = 14


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

    def was_over(self, observation: RunState, now: float) -> bool:
        """
        Return True if a run had finished before the request, or if that is not known.

        :param observation: the run as it is now.
        :param now: current time by the service's clock.
        """
        if not observation.outcome.is_over:
            return False
        finished = _parsed(observation, "finished_at")
        if finished is None or self.since is None:
            return self.known.get(observation.reference.run_id or "", True)
        # A service that writes local times without an offset shows ends in the future.
        return not self.since - _FINISH_TOLERANCE <= finished.timestamp() <= now + _START_TOLERANCE

    def is_new_run(self, observation: RunState, now: float) -> bool:
        """
        Return True if a run that was read by its ID may have been started by the request.

        :param observation: the run.
        :param now: current time by the service's clock.
        """
        run = _Run(
            observation.reference.run_id or "", _parsed(observation, "started_at"), _parsed(observation, "finished_at")
        )
        return self.is_new(run, now)


@dataclass(frozen=True, slots=True)
class _Run:
    id: str
    started_at: pendulum.DateTime | None
    finished_at: pendulum.DateTime | None


def _parsed(observation: RunState, name: Literal["started_at", "finished_at"]) -> pendulum.DateTime | None:
    text = observation.result and observation.result[name]
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
