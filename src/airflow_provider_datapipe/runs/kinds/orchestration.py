"""Runs of orchestrations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import orchestration_runs, orchestrations
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.kinds.base import Kind, durations_of, result_of_run
from airflow_provider_datapipe.runs.known_runs import KnownRuns, oldest_new_run
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of
from airflow_provider_datapipe.runs.poll_interval import KEPT


class OrchestrationKind(Kind):
    """Runs of orchestrations. The request for a run returns the run."""

    name = "orchestration"
    noun = "orchestration"
    # The interface declares no conflict for orchestrations.
    may_overlap = True

    @override
    def request(self, target: RunTarget) -> Request[OrchestrationRun]:
        return orchestrations.request_run(target.resource_id)

    @override
    def accepted(self, target: RunTarget, answer: OrchestrationRun, baseline: KnownRuns | None = None) -> RunState:
        return self.read(RunRef.to(self.name, target), answer)

    @override
    def newest(self, resource_id: str) -> Request[Page[OrchestrationRun]]:
        # Planned runs come first, so the page must be large.
        return orchestration_runs.list_(orchestration_id=resource_id, limit=LARGEST_PAGE)

    @override
    def baseline(self, target: RunTarget, newest: Page[OrchestrationRun], since: float) -> KnownRuns:
        return KnownRuns.of(newest.data, since, lambda run: _outcome(run).is_over)

    @override
    def durations(self, newest: Page[OrchestrationRun]) -> list[float]:
        return durations_of(newest.data)[:KEPT]

    @override
    def find_new(
        self, target: RunTarget, baseline: KnownRuns, newest: Page[OrchestrationRun], now: float
    ) -> RunState | None:
        run = oldest_new_run(newest.data, baseline, now)
        return None if run is None else self.read(RunRef.to(self.name, target, attached=True), run)

    @override
    def find_run(self, reference: RunRef, newest: Page[OrchestrationRun]) -> RunState | None:
        return next((self.read(reference, run) for run in newest.data if run.id == reference.run_id), None)

    @override
    def find_active(self, target: RunTarget, newest: Page[OrchestrationRun]) -> RunState | None:
        # A run that has not started may be planned for later.
        active = (run for run in newest.data if _outcome(run) is Outcome.RUNNING)
        return next((self.read(RunRef.to(self.name, target, attached=True), run) for run in active), None)

    @override
    def poll_request(self, reference: RunRef) -> Request[Any]:
        if reference.run_id is None:
            return self.newest(reference.resource_id)
        return orchestration_runs.get(reference.run_id)

    @override
    def read(self, reference: RunRef, answer: Any) -> RunState:
        if isinstance(answer, Page):
            if not answer.data:
                return RunState(reference, Outcome.SCHEDULED)
            answer = answer.data[0]
        run: OrchestrationRun = answer
        known = replace(reference, run_id=run.id)
        outcome = _outcome(run)
        result = result_of_run(
            known, outcome, status=run.status, started_at=run.started_at, finished_at=run.finished_at
        )
        return RunState(known, outcome, result)


def _outcome(run: OrchestrationRun) -> Outcome:
    return outcome_of(run.status, finished=run.finished_at is not None)
