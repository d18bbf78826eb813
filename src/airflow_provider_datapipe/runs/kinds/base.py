"""Base classes of the kinds of run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any, ClassVar

import pendulum
from typing_extensions import override

from airflow_provider_datapipe.api.models.common import Page, RunRequested, format_timestamp, known_time
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.status_url import status_request, status_url_after
from airflow_provider_datapipe.runs.models import (
    KEPT_DURATIONS,
    RunRef,
    RunResult,
    RunState,
    RunTarget,
    valid_durations,
)
from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of
from airflow_provider_datapipe.runs.task_state import KnownRuns, oldest_new_run


class Kind(ABC):
    """One kind of run."""

    #: Name in references and results.
    name: ClassVar[str]
    #: Noun for the resource in messages.
    noun: ClassVar[str]
    #: Field of a listed run with the ID of its resource.
    owner_field: ClassVar[str]
    #: True if several runs of a resource can be active at a time.
    may_overlap: ClassVar[bool] = False
    #: True if the next try of a task continues with the run of the earlier try. Otherwise there is no list of runs.
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
        """Return the state of a run from the answer to :meth:`poll_request`, or from a listed run."""

    async def explain(self, state: RunState) -> str | None:
        """Return the reason of a failure if the run does not contain it and another resource does, else None."""
        return None

    async def failed_records(self, state: RunState, most: int) -> list[dict[str, str]]:
        """
        Return records that failed in a run. Empty for kinds without failed records.

        :param most: the most records, at least 1.
        :return: ``record_id`` and ``error`` of each.
        """
        return []

    async def disable(self, reference: RunRef) -> str | None:
        """Disable the schedule of a resource, and return a description; None if the interface cannot disable it."""
        return None


def outcome_of_run(run: Any) -> Outcome:
    """Return the outcome of a listed run."""
    # Models keep unknown fields as attributes: an undocumented count of another kind must not decide its outcome.
    failed_rows = run.failed_rows if "failed_rows" in type(run).model_fields else None
    return outcome_of(run.status, finished=run.finished_at is not None, failed_rows=failed_rows)


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


class ListedKind(Kind):
    """Kind whose runs appear in lists."""

    #: Endpoint that reads one run.
    _get_run: ClassVar[staticmethod[[str], Request[Any]]]

    @override
    def baseline(self, target: RunTarget, newest: Page[Any], since: float) -> KnownRuns:
        return KnownRuns.of(newest.data, since, lambda run: outcome_of_run(run).is_over)

    @override
    def durations(self, newest: Page[Any]) -> list[float]:
        # Failed runs and slices of a load do not show the duration of a whole load.
        return valid_durations(
            _duration(known_time(run.started_at), run.finished_at) for run in newest.data if run.status == "COMPLETED"
        )

    @override
    def find_new(self, target: RunTarget, baseline: KnownRuns, newest: Page[Any], now: float) -> RunState | None:
        run = oldest_new_run(newest.data, baseline, now)
        return None if run is None else self._attached(target, run)

    @override
    def find_run(self, reference: RunRef, newest: Page[Any]) -> RunState | None:
        return next((self.read(reference, run) for run in newest.data if run.id == reference.run_id), None)

    @override
    def poll_request(self, reference: RunRef) -> Request[Any]:
        return self.newest(reference.resource_id) if reference.run_id is None else self._get_run(reference.run_id)

    @override
    def read(self, reference: RunRef, answer: Any) -> RunState:
        if isinstance(answer, Page):
            run = self._first(reference, answer)
            if run is None:
                return RunState(reference, Outcome.SCHEDULED)
            answer = run
        known = replace(reference, run_id=answer.id, status_url=None, since=None, known=[])
        outcome = outcome_of_run(answer)
        result = result_of_run(
            known,
            outcome,
            status=answer.status,
            started_at=answer.started_at,
            finished_at=answer.finished_at,
            **self._details(known, answer),
        )
        return RunState(known, outcome, result)

    def _first(self, reference: RunRef, page: Page[Any]) -> Any | None:
        """Return the run of a reference without a run ID."""
        return next(iter(page.data), None)

    def _details(self, reference: RunRef, run: Any) -> dict[str, Any]:
        """Return further fields of the result of a run."""
        return {}

    def _attached(self, target: RunTarget, run: Any) -> RunState:
        return self.read(RunRef.to(self.name, target, attached=True), run)


class ScheduledKind(ListedKind):
    """Kind whose request returns the URL of the list in which the run will appear. Its runs do not overlap."""

    #: Endpoint that lists the runs of a resource.
    _list_runs: ClassVar[staticmethod[[str], Request[Page[Any]]]]

    @override
    def accepted(self, target: RunTarget, answer: RunRequested, baseline: KnownRuns | None = None) -> RunState:
        # Raise for an invalid status URL now, because the task could not poll it later.
        status_request(answer.status_url, self._list_runs(target.resource_id))
        reference = RunRef.to(self.name, target, status_url=answer.status_url)
        return RunState(reference, Outcome.SCHEDULED)

    @override
    def newest(self, resource_id: str) -> Request[Page[Any]]:
        return self._list_runs(resource_id).with_query(limit=KEPT_DURATIONS, sort_direction="desc")

    @override
    def oldest_first(self, resource_id: str) -> Request[Page[Any]]:
        return self._list_runs(resource_id).with_query(limit=LARGEST_PAGE, sort_direction="asc")

    @override
    def find_active(self, target: RunTarget, newest: Page[Any]) -> RunState | None:
        # Scheduled runs, which can be planned for later, precede a run that has started. The runs before that one have
        # finished. A slice of a load is active, because the load continues.
        scheduled: RunState | None = None
        for run in newest.data:
            state = self._attached(target, run)
            if state.outcome is not Outcome.SCHEDULED:
                return scheduled if state.outcome.is_over else state
            scheduled = state
        return scheduled

    @override
    def expected(self, target: RunTarget, baseline: KnownRuns) -> RunRef:
        return RunRef.to(self.name, target, since=baseline.since, known=list(baseline.known))

    @override
    def awaited(self, target: RunTarget, cursor: str | None) -> RunRef:
        after = status_url_after(self._list_runs(target.resource_id), cursor)
        return RunRef.to(self.name, target, status_url=after)

    @override
    def poll_request(self, reference: RunRef) -> Request[Any]:
        if reference.run_id is None and reference.status_url is not None:
            return status_request(reference.status_url, self._list_runs(reference.resource_id))
        return super().poll_request(reference)

    @override
    def _first(self, reference: RunRef, page: Page[Any]) -> Any | None:
        if reference.since is None:
            return super()._first(reference, page)
        baseline = KnownRuns(dict.fromkeys(reference.known, False), reference.since)
        return oldest_new_run(page.data, baseline, inf)
