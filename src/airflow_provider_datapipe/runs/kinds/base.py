"""Base class of the kinds of run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pendulum

from airflow_provider_datapipe.api.models.common import format_timestamp, known_time
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.known_runs import KnownRuns
from airflow_provider_datapipe.runs.models import RunRef, RunResult, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.poll_interval import RunDurations


class Kind(ABC):
    """One kind of run."""

    #: Name in references and results.
    name: ClassVar[str]
    #: Noun for the resource in messages.
    noun: ClassVar[str]
    #: True if several runs of a resource can be active at a time.
    may_overlap: ClassVar[bool] = False
    #: True if the next try of a task continues with the run of the earlier try.
    is_found_again: ClassVar[bool] = True

    def prepare(self, target: RunTarget) -> Iterator[Request[Any]]:
        """Return the idempotent requests that must precede the request for a run."""
        return iter(())

    def needs_own_run(self, target: RunTarget) -> bool:
        """Return True if an active run that this task did not request cannot fulfill the options of the target."""
        return False

    @abstractmethod
    def request(self, target: RunTarget) -> Request[Any]:
        """Return the request that starts a run."""

    def undo_prepare(self, target: RunTarget) -> Iterator[Request[Any]]:
        """Return the requests that undo :meth:`prepare` if no run was started; empty if the interface has none."""
        return iter(())

    @abstractmethod
    def accepted(self, target: RunTarget, answer: Any, baseline: KnownRuns | None = None) -> RunState:
        """
        Return the requested run.

        :param target: the resource to run.
        :param answer: the answer to :meth:`request`.
        :param baseline: runs known before the request.
        """

    @abstractmethod
    def newest(self, resource_id: str) -> Request[Any]:
        """Return the request that shows the newest runs."""

    def oldest_first(self, resource_id: str) -> Request[Any] | None:
        """Return the request that lists all stored runs, oldest first; None if there is no such list."""
        return None

    @abstractmethod
    def baseline(self, target: RunTarget, newest: Any, since: float) -> KnownRuns:
        """
        Return the runs that are known before a run is requested.

        :param target: the resource to run.
        :param newest: the answer to :meth:`newest`.
        :param since: current time by the service's clock.
        """

    def durations(self, newest: Any) -> list[float]:
        """
        Return the durations of earlier successful runs in seconds, newest first.

        :param newest: the answer to :meth:`newest`.
        """
        return []

    @abstractmethod
    def find_new(self, target: RunTarget, baseline: KnownRuns, newest: Any, now: float) -> RunState | None:
        """
        Return the first run that may have been started since the baseline, or None.

        The interface does not show which client requested a run, so the result is marked as attached.

        :param target: the resource to run.
        :param baseline: runs known before the request.
        :param newest: the answer to :meth:`newest`.
        :param now: current time by the service's clock.
        """

    @abstractmethod
    def find_run(self, reference: RunRef, newest: Any) -> RunState | None:
        """
        Return the run of a reference if the list of the newest runs shows it.

        :param reference: the run.
        :param newest: the answer to :meth:`newest`.
        """

    @abstractmethod
    def find_active(self, target: RunTarget, newest: Any) -> RunState | None:
        """
        Return the run that has not finished, if the newest runs show one.

        :param target: the resource to run.
        :param newest: the answer to :meth:`newest`.
        """

    def expected(self, target: RunTarget, baseline: KnownRuns) -> RunRef | None:
        """Return a reference to the first run after the baseline; None if no list will show it."""
        return None

    def awaited(self, target: RunTarget, cursor: str | None) -> RunRef | None:
        """Return a reference to the first run after a cursor, before it exists; None if no list can identify it."""
        return None

    @abstractmethod
    def poll_request(self, reference: RunRef) -> Request[Any]:
        """Return the request that polls a run."""

    @abstractmethod
    def read(self, reference: RunRef, answer: Any) -> RunState:
        """Return the state of a run from the answer to :meth:`poll`, or from a listed run."""

    async def explain(self, observation: RunState) -> str | None:
        """Return the reason of a failure if the service reports it apart from the run, else None."""
        return None

    async def failed_records(self, observation: RunState, most: int) -> list[dict[str, str]]:
        """
        Return records that failed in a run. Empty for kinds without failed records.

        :param most: the most records, at least 1.
        :return: ``record_id`` and ``error`` of each.
        """
        return []

    async def disable(self, reference: RunRef) -> str | None:
        """Disable the schedule of a resource, and return a description; None if the interface cannot disable it."""
        return None


def durations_of(runs: Sequence[Any]) -> list[float]:
    """Return the durations of the successful runs in seconds."""
    # Failed runs and slices of a load do not show the duration of a whole load.
    took = [_duration(known_time(run.started_at), run.finished_at) for run in runs if run.status == "COMPLETED"]
    return RunDurations.of(took).as_json()


def _duration(started_at: pendulum.DateTime | None, finished_at: pendulum.DateTime | None) -> float | None:
    return (finished_at - started_at).total_seconds() if started_at and finished_at else None


def result_of_run(
    reference: RunRef,
    outcome: Outcome,
    *,
    status: str | None,
    started_at: pendulum.DateTime | None = None,
    finished_at: pendulum.DateTime | None = None,
    rows_synced: float | None = None,
    rows_failed: float | None = None,
    rows_total: float | None = None,
    error: str | None = None,
) -> RunResult:
    """Return the result of a run."""
    started_at, finished_at = known_time(started_at), known_time(finished_at)
    return RunResult(
        kind=reference.kind,
        resource_id=reference.resource_id,
        name=reference.name,
        run_id=reference.run_id,
        # A plain string, so that readers of the XCom do not need an enum of this package.
        status=None if status is None else str(status),
        outcome=str(outcome),
        started_at=None if started_at is None else format_timestamp(started_at),
        finished_at=None if finished_at is None else format_timestamp(finished_at),
        duration=_duration(started_at, finished_at),
        rows_synced=rows_synced,
        rows_failed=rows_failed,
        rows_total=rows_total,
        attached=reference.attached,
        error=error,
    )
