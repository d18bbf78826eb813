"""Query previews: SQL queries whose results can be read."""

from __future__ import annotations

from typing import Any, NoReturn

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import query_previews
from airflow_provider_datapipe.api.models.query_previews import (
    QueryPreviewCreated,
    QueryPreviewState,
    QueryPreviewStatus,
)
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.baseline import Baseline
from airflow_provider_datapipe.runs.kinds.base import Kind, result_of_run
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target

_OUTCOMES = {
    QueryPreviewState.RUNNING: Outcome.RUNNING,
    QueryPreviewState.DONE: Outcome.SUCCEEDED,
    QueryPreviewState.FAILED: Outcome.FAILED,
}


class QueryPreviewKind(Kind):
    """
    Query previews. They are read-only and not listed, so a query whose response was lost is sent again.

    Option: ``sql_template``.
    """

    name = "query_preview"
    noun = "query preview"
    is_found_again = False

    @override
    def request(self, target: Target) -> Request[QueryPreviewCreated]:
        return query_previews.create(sql_template=target.options["sql_template"])

    @override
    def accepted(self, target: Target, answer: QueryPreviewCreated, baseline: Baseline | None = None) -> Observation:
        # A query has no resource, so the ID of its execution identifies both. SQL is no valid key of Airflow's state.
        query_id = answer.query_execution_id
        return Observation(Reference(self.name, query_id, target.name, run_id=query_id), Outcome.RUNNING)

    @override
    def look(self, reference: Reference) -> Request[Any]:
        return query_previews.status(str(reference.run_id))

    @override
    def read(self, reference: Reference, answer: QueryPreviewStatus) -> Observation:
        # An unknown status counts as running: the deadline of the wait ends it.
        known = answer.status if isinstance(answer.status, QueryPreviewState) else QueryPreviewState.RUNNING
        outcome = _OUTCOMES[known]
        return Observation(
            reference, outcome, result_of_run(reference, outcome, status=answer.status, error=answer.error)
        )

    @override
    def newest(self, resource_id: str) -> NoReturn:
        raise NotImplementedError("there is no list of query previews")

    @override
    def baseline(self, target: Target, newest: Any, since: float) -> NoReturn:
        raise NotImplementedError("there is no list of query previews")

    @override
    def find_new(self, target: Target, baseline: Baseline, newest: Any, now: float) -> NoReturn:
        raise NotImplementedError("there is no list of query previews")

    @override
    def find_run(self, reference: Reference, newest: Any) -> NoReturn:
        raise NotImplementedError("there is no list of query previews")

    @override
    def find_active(self, target: Target, newest: Any) -> NoReturn:
        raise NotImplementedError("there is no list of query previews")
