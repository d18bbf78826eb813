"""Runs of orchestrations."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import orchestration_runs, orchestrations
from airflow_provider_datapipe.api.errors import ConflictError
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.kinds.base import Kind, durations_of, result_of_run
from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of
from airflow_provider_datapipe.runs.pace import KEPT
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target


class OrchestrationKind(Kind):
    """Runs of orchestrations: the request is answered by the run itself."""

    name = "orchestration"
    noun = "orchestration"
    # The interface declares no conflict for them.
    may_overlap = True

    @override
    def request(self, target: Target) -> Request[OrchestrationRun]:
        return orchestrations.request_run(target.resource_id)

    @override
    def accepted(self, target: Target, answer: OrchestrationRun) -> Observation:
        return self.read(Reference.to(self.name, target), answer)

    @override
    def newest(self, resource_id: str) -> Request[Page[OrchestrationRun]]:
        return orchestration_runs.list_(orchestration_id=resource_id, limit=KEPT)

    @override
    def cursor(self, newest: Page[OrchestrationRun]) -> str | None:
        return newest.data[0].id if newest.data else None

    @override
    def durations(self, newest: Page[OrchestrationRun]) -> list[float]:
        return durations_of(newest.data)

    @override
    def after(self, resource_id: str, cursor: str | None) -> Request[Page[OrchestrationRun]]:
        return orchestration_runs.list_(orchestration_id=resource_id, limit=LARGEST_PAGE)

    @override
    def first_after(self, target: Target, cursor: str | None, answer: Page[OrchestrationRun]) -> Observation | None:
        # The list is newest first: what stands before the cursor came after it.
        newer = list(itertools.takewhile(lambda run: run.id != cursor, answer.data))
        return self.accepted(target, newer[-1]) if newer else None

    @override
    def conflict(self, target: Target, error: ConflictError, newest: Page[OrchestrationRun] | None) -> Reference:
        # The interface declares no conflict; a service that has one is read as the other kinds are.
        going = Reference.to(self.name, target, run_id=error.active_run_id, attached=True)
        if going.run_id is None and newest is not None:
            seen = self.read(going, newest)
            if seen.result is None or seen.outcome.is_over:
                # Nothing shows what stands in the way, and a run that is over says nothing about this one.
                raise error
            going = seen.reference
        return going

    @override
    def look(self, reference: Reference) -> Request[Any]:
        if reference.run_id is None:
            return self.newest(reference.resource_id)
        return orchestration_runs.get(reference.run_id)

    @override
    def read(self, reference: Reference, answer: Any) -> Observation:
        if isinstance(answer, Page):
            if not answer.data:
                return Observation(reference, Outcome.SCHEDULED)
            answer = answer.data[0]
        run: OrchestrationRun = answer
        known = replace(reference, run_id=run.id)
        outcome = outcome_of(run.status, finished=run.finished_at is not None)
        result = result_of_run(
            known, outcome, status=run.status, started_at=run.started_at, finished_at=run.finished_at
        )
        return Observation(known, outcome, result)
