"""A service in a few lines, for tests of decisions: answers requests by endpoint name, and keeps count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun
from airflow_provider_datapipe.api.request import Request

Answer = Any | DatapipeError | Callable[[Request[Any]], Any]


class ModelService:
    """
    Answers each endpoint from a list of answers, and with the last one from then on.

    :param answers: for each endpoint its answers; an error is raised, a function is called with the request.
    """

    def __init__(self, **answers: list[Answer]) -> None:
        self._answers = {name.replace("__", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []
        self.requests: list[Request[Any]] = []
        self.now = 1_000_000.0

    def send(self, request: Request[Any]) -> Any:
        name = request.endpoint.name
        self.asked.append(name)
        self.requests.append(request)
        answers = self._answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, DatapipeError):
            raise answer
        return answer(request) if callable(answer) else answer

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def clock(self) -> float:
        return self.now


def stream_run(status: str | None, run_id: str = "r1", **more: Any) -> EltStreamRun:
    fields = {"id": run_id, "elt_sync_id": "y", "elt_stream_id": "s", "started_at": "2026-01-01T00:00:00.000Z"}
    return EltStreamRun.model_validate(fields | ({"status": status} if status else {}) | more)


def page(*runs: Any) -> Page[Any]:
    return Page(data=tuple(runs), has_more=False)


REQUESTED = RunRequested(status_url="/elt_stream_runs?elt_stream_id=s&starting_after=r0&limit=1&sort_direction=asc")
