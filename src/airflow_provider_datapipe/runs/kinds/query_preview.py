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
from airflow_provider_datapipe.runs.kinds.base import Kind, result_of_run
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.task_state import KnownRuns

_OUTCOMES = {
    QueryPreviewState.RUNNING: Outcome.RUNNING,
    QueryPreviewState.DONE: Outcome.SUCCEEDED,
    QueryPreviewState.FAILED: Outcome.FAILED,
}
#: Reason of the methods that only starts of listed runs call; query operators send their request themselves.
_NO_LIST = "there is no list of query previews"


class QueryPreviewKind(Kind):
    """
    Query previews. They are read-only and not listed, so a query whose response was lost is sent again.

    Option: ``sql_template``.
    """

    name = "query_preview"
    noun = "query preview"
    is_found_again = False

    @override
    def request(self, target: RunTarget) -> Request[QueryPreviewCreated]:
        return query_previews.create(sql_template=target.options["sql_template"])

    @override
    def accepted(self, target: RunTarget, answer: QueryPreviewCreated, baseline: KnownRuns | None = None) -> RunState:
        # A query has no resource, so its execution ID identifies both. SQL is not a valid key of Airflow's task state.
        query_id = answer.query_execution_id
        return RunState(RunRef(self.name, query_id, target.name, run_id=query_id), Outcome.RUNNING)

    @override
    def newest(self, resource_id: str) -> NoReturn:
        raise NotImplementedError(_NO_LIST)

    @override
    def baseline(self, target: RunTarget, newest: Any, since: float) -> NoReturn:
        raise NotImplementedError(_NO_LIST)

    @override
    def find_new(self, target: RunTarget, baseline: KnownRuns, newest: Any, now: float) -> NoReturn:
        raise NotImplementedError(_NO_LIST)

    @override
    def find_run(self, reference: RunRef, newest: Any) -> NoReturn:
        raise NotImplementedError(_NO_LIST)

    @override
    def find_active(self, target: RunTarget, newest: Any) -> NoReturn:
        raise NotImplementedError(_NO_LIST)

    @override
    def poll_request(self, reference: RunRef) -> Request[Any]:
        return query_previews.status(str(reference.run_id))

    @override
    def read(self, reference: RunRef, answer: QueryPreviewStatus) -> RunState:
        # An unknown status counts as running: the deadline of the wait ends it.
        known = answer.status if isinstance(answer.status, QueryPreviewState) else QueryPreviewState.RUNNING
        outcome = _OUTCOMES[known]
        return RunState(reference, outcome, result_of_run(reference, outcome, status=answer.status, error=answer.error))
