"""Base class of kinds whose runs appear in a list some time after the request."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from math import inf
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.status_url import status_request, status_url_after
from airflow_provider_datapipe.runs.kinds.base import Kind, durations_of
from airflow_provider_datapipe.runs.known_runs import KnownRuns, oldest_new_run
from airflow_provider_datapipe.runs.models import RunRef, RunResult, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.poll_interval import KEPT


class ListedKind(Kind):
    """Kind whose request returns the URL of the list in which the run will appear."""

    @override
    def accepted(self, target: RunTarget, answer: RunRequested, baseline: KnownRuns | None = None) -> RunState:
        # Raise for an invalid status URL now, because the task could not poll it later.
        status_request(answer.status_url, self._listing(target.resource_id))
        reference = RunRef.to(self.name, target, status_url=answer.status_url)
        return RunState(reference, Outcome.SCHEDULED)

    @override
    def newest(self, resource_id: str) -> Request[Page[Any]]:
        return self._listing(resource_id).with_query(limit=KEPT, sort_direction="desc")

    @override
    def oldest_first(self, resource_id: str) -> Request[Page[Any]]:
        return self._listing(resource_id).with_query(limit=LARGEST_PAGE, sort_direction="asc")

    @override
    def baseline(self, target: RunTarget, newest: Page[Any], since: float) -> KnownRuns:
        return KnownRuns.of(newest.data, since, lambda run: self._judge(run).is_over)

    @override
    def durations(self, newest: Page[Any]) -> list[float]:
        return durations_of(newest.data)

    @override
    def find_new(self, target: RunTarget, baseline: KnownRuns, newest: Page[Any], now: float) -> RunState | None:
        run = oldest_new_run(newest.data, baseline, now)
        return None if run is None else self.read(RunRef.to(self.name, target, attached=True), run)

    @override
    def find_run(self, reference: RunRef, newest: Page[Any]) -> RunState | None:
        return next((self.read(reference, run) for run in newest.data if run.id == reference.run_id), None)

    @override
    def find_active(self, target: RunTarget, newest: Page[Any]) -> RunState | None:
        # Runs of one resource do not overlap: those before the newest one have finished.
        # A slice of a load is active, because the load continues.
        seen = [self.read(RunRef.to(self.name, target, attached=True), run) for run in newest.data[:1]]
        return next((each for each in seen if not each.outcome.is_over), None)

    @override
    def expected(self, target: RunTarget, baseline: KnownRuns) -> RunRef:
        return RunRef.to(self.name, target, since=baseline.since, known=list(baseline.known))

    @override
    def awaited(self, target: RunTarget, cursor: str | None) -> RunRef:
        after = status_url_after(self._listing(target.resource_id), cursor)
        return RunRef.to(self.name, target, status_url=after)

    @override
    def poll_request(self, reference: RunRef) -> Request[Any]:
        if reference.run_id is not None:
            return self._one(reference.run_id)
        if reference.status_url is None:
            return self.newest(reference.resource_id)
        return status_request(reference.status_url, self._listing(reference.resource_id))

    @override
    def read(self, reference: RunRef, answer: Any) -> RunState:
        if isinstance(answer, Page):
            first = next(iter(answer.data), None)
            if reference.since is not None:
                baseline = KnownRuns(dict.fromkeys(reference.known, False), reference.since)
                first = oldest_new_run(answer.data, baseline, inf)
            if first is None:
                return RunState(reference, Outcome.SCHEDULED)
            answer = first
        known = replace(reference, run_id=answer.id, status_url=None, since=None, known=[])
        return RunState(known, self._judge(answer), self._result(known, answer))

    @abstractmethod
    def _listing(self, resource_id: str) -> Request[Page[Any]]:
        """Return the request that lists the runs."""

    @abstractmethod
    def _one(self, run_id: str) -> Request[Any]:
        """Return the request that reads one run."""

    @abstractmethod
    def _judge(self, run: Any) -> Outcome:
        """Return the outcome of a run."""

    @abstractmethod
    def _result(self, reference: RunRef, run: Any) -> RunResult:
        """Return the result of a run."""
