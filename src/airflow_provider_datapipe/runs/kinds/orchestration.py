"""Runs of orchestrations."""

from __future__ import annotations

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import orchestration_runs, orchestrations
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.kinds.base import ListedKind, outcome_of_run
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.task_state import KnownRuns


class OrchestrationKind(ListedKind):
    """Runs of orchestrations. The request for a run returns the run."""

    name = "orchestration"
    noun = "orchestration"
    owner_field = "orchestration_id"
    _get_run = staticmethod(orchestration_runs.get)
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
    def find_active(self, target: RunTarget, newest: Page[OrchestrationRun]) -> RunState | None:
        # A run that has not started may be planned for later.
        active = (run for run in newest.data if outcome_of_run(run) is Outcome.RUNNING)
        return next((self._attached(target, run) for run in active), None)
