"""Kinds whose runs appear in a list, some time after they were requested."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.errors import ConflictError
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.status_url import status_request, status_url_after
from airflow_provider_datapipe.runs.kinds.base import Kind, durations_of
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.pace import KEPT
from airflow_provider_datapipe.runs.reference import Observation, Reference, RunResult, Target


class ListedKind(Kind):
    """A kind whose request is answered by the place in a list where the run will appear."""

    @override
    def accepted(self, target: Target, answer: RunRequested) -> Observation:
        # Refuses, while the answer is at hand, a place that could not be looked at later.
        status_request(answer.status_url, self._listing(target.resource_id))
        reference = Reference.to(self.name, target, status_url=answer.status_url)
        return Observation(reference, Outcome.SCHEDULED)

    @override
    def newest(self, resource_id: str) -> Request[Page[Any]]:
        return self._listing(resource_id).with_query(limit=KEPT, sort_direction="desc")

    @override
    def oldest_first(self, resource_id: str) -> Request[Page[Any]]:
        return self._listing(resource_id).with_query(limit=LARGEST_PAGE, sort_direction="asc")

    @override
    def cursor(self, newest: Page[Any]) -> str | None:
        return newest.data[0].id if newest.data else None

    @override
    def durations(self, newest: Page[Any]) -> list[float]:
        return durations_of(newest.data)

    @override
    def after(self, resource_id: str, cursor: str | None) -> Request[Page[Any]]:
        listing = self._listing(resource_id)
        return status_request(status_url_after(listing, cursor), listing)

    @override
    def first_after(self, target: Target, cursor: str | None, answer: Page[Any]) -> Observation | None:
        if not answer.data:
            return None
        return self.read(Reference.to(self.name, target), answer)

    @override
    def conflict(self, target: Target, error: ConflictError, newest: Page[Any] | None) -> Reference:
        reference = Reference.to(self.name, target, attached=True)
        if error.active_run_id:
            return replace(reference, run_id=error.active_run_id)
        last = newest.data[0] if newest and newest.data else None
        if last and not self._judge(last).is_over:
            return replace(reference, run_id=last.id)
        # Scheduled, not begun: it will be the first run after the last one.
        return replace(self.awaited(target, last.id if last else None), attached=True)

    @override
    def awaited(self, target: Target, cursor: str | None) -> Reference:
        after = status_url_after(self._listing(target.resource_id), cursor)
        return Reference.to(self.name, target, status_url=after)

    @override
    def look(self, reference: Reference) -> Request[Any]:
        if reference.run_id is not None:
            return self._one(reference.run_id)
        if reference.status_url is None:
            return self.newest(reference.resource_id)
        return status_request(reference.status_url, self._listing(reference.resource_id))

    @override
    def read(self, reference: Reference, answer: Any) -> Observation:
        if isinstance(answer, Page):
            if not answer.data:
                return Observation(reference, Outcome.SCHEDULED)
            answer = answer.data[0]
        known = replace(reference, run_id=answer.id, status_url=None)
        return Observation(known, self._judge(answer), self._result(known, answer))

    @abstractmethod
    def _listing(self, resource_id: str) -> Request[Page[Any]]:
        """Give the request that lists the runs."""

    @abstractmethod
    def _one(self, run_id: str) -> Request[Any]:
        """Give the request that reads one run."""

    @abstractmethod
    def _judge(self, run: Any) -> Outcome:
        """Tell where a run stands."""

    @abstractmethod
    def _result(self, reference: Reference, run: Any) -> RunResult:
        """Tell what is known of a run."""
