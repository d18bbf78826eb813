"""What every kind of run has to say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pendulum

from airflow_provider_datapipe.api.models.common import format_timestamp, known_time
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.baseline import Baseline
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.pace import History
from airflow_provider_datapipe.runs.reference import Observation, Reference, RunResult, Target
from airflow_provider_datapipe.runs.steps import Steps


class Kind(ABC):
    """One kind of run."""

    #: Name in references and results.
    name: ClassVar[str]
    #: What people call the thing that runs.
    noun: ClassVar[str]
    #: Whether a run may begin while an earlier one of the same thing goes on.
    may_overlap: ClassVar[bool] = False
    #: Whether a task that is run again goes on with the run that it started before.
    is_found_again: ClassVar[bool] = True

    def prepare(self, target: Target) -> Iterator[Request[Any]]:
        """Give the requests that have to be answered before a run is asked for; all may be repeated."""
        return iter(())

    def needs_own_run(self, target: Target) -> bool:
        """Tell whether a run that began before this task asked for one can't do what is asked for."""
        return False

    @abstractmethod
    def request(self, target: Target) -> Request[Any]:
        """Give the request that asks for a run."""

    def undo_prepare(self, target: Target) -> Iterator[Request[Any]]:
        """Return the requests that take back :meth:`prepare` if no run was started; empty if the interface has none."""
        return iter(())

    @abstractmethod
    def accepted(self, target: Target, answer: Any, baseline: Baseline | None = None) -> Observation:
        """
        Read the answer to that request.

        :param target: the resource to run.
        :param answer: the answer.
        :param baseline: runs known before the request.
        """

    @abstractmethod
    def newest(self, resource_id: str) -> Request[Any]:
        """Return the request that shows the newest runs."""

    def oldest_first(self, resource_id: str) -> Request[Any] | None:
        """Give the request that lists all runs that are kept, oldest first; None where there is no such list."""
        return None

    @abstractmethod
    def baseline(self, target: Target, newest: Any, since: float) -> Baseline:
        """
        Return what the newest runs show before a run is requested.

        :param target: the resource to run.
        :param newest: the answer to :meth:`newest`.
        :param since: current time by the service's clock.
        """

    def durations(self, newest: Any) -> list[float]:
        """
        Tell how long earlier runs took that succeeded, in seconds, newest first.

        :param newest: the answer to :meth:`newest`.
        """
        return []

    @abstractmethod
    def find_new(self, target: Target, baseline: Baseline, newest: Any, now: float) -> Observation | None:
        """
        Return the first run that may have been started since the baseline, or None.

        The interface does not say who requested a run, so the result is marked as attached.

        :param target: the resource to run.
        :param baseline: runs known before the request.
        :param newest: the answer to :meth:`newest`.
        :param now: current time by the service's clock.
        """

    @abstractmethod
    def find_run(self, reference: Reference, newest: Any) -> Observation | None:
        """
        Return the run of a reference if the list of the newest runs shows it.

        :param reference: the run.
        :param newest: the answer to :meth:`newest`.
        """

    @abstractmethod
    def find_active(self, target: Target, newest: Any) -> Observation | None:
        """
        Return the run that has not finished, if the newest runs show one.

        :param target: the resource to run.
        :param newest: the answer to :meth:`newest`.
        """

    def expected(self, target: Target, baseline: Baseline) -> Reference | None:
        """Return a reference to the first run after the baseline; None if no list will show it."""
        return None

    def awaited(self, target: Target, cursor: str | None) -> Reference | None:
        """Name the first run after the cursor before it is there; None where no list can say which it is."""
        return None

    @abstractmethod
    def look(self, reference: Reference) -> Request[Any]:
        """Give the request that shows where a run stands."""

    @abstractmethod
    def read(self, reference: Reference, answer: Any) -> Observation:
        """Read the answer to that request."""

    def explain(self, observation: Observation) -> Steps[str | None]:
        """Ask the service why a run ended as it did, where the run itself does not say so."""
        yield from ()
        return None

    def failed_records(self, observation: Observation, most: int) -> Steps[list[dict[str, str]]]:
        """
        Ask the service which records failed, where a run sends such.

        :param most: the most to ask for, 1 at the least.
        :return: ``record_id`` and ``error`` of each.
        """
        yield from ()
        return []

    def disable(self, reference: Reference) -> Steps[str | None]:
        """Take what runs off its schedule, and say what was done; None where the interface has no such thing."""
        yield from ()
        return None


def durations_of(runs: Sequence[Any]) -> list[float]:
    """Give how long runs took that succeeded, in seconds."""
    # Neither those that failed nor the slices of a load say how long a whole one takes.
    took = [_duration(known_time(run.started_at), run.finished_at) for run in runs if run.status == "COMPLETED"]
    return History.of(took).as_json()


def _duration(started_at: pendulum.DateTime | None, finished_at: pendulum.DateTime | None) -> float | None:
    return (finished_at - started_at).total_seconds() if started_at and finished_at else None


def result_of_run(
    reference: Reference,
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
    """Put together what is known of a run."""
    started_at, finished_at = known_time(started_at), known_time(finished_at)
    return RunResult(
        kind=reference.kind,
        resource_id=reference.resource_id,
        name=reference.name,
        run_id=reference.run_id,
        # A plain text, so that no enum of this package has to be known where an XCom is read.
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
