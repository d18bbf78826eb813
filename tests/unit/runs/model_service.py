"""Models of the service and of Airflow's task state, for tests without HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from airflow_provider_datapipe.api.errors import DatapipeError
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.models.elt_streams import EltStream, EltStreamRun
from airflow_provider_datapipe.api.models.elt_syncs import EltSync
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSyncRun
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import Flow, run_blocking
from airflow_provider_datapipe.runs.models import RunRef, RunResult
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.results import build_run_result
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason
from tests.support import responses
from tests.support.responses import LONG_AGO

T = TypeVar("T")

_RUNS: dict[str, tuple[type[Any], str, dict[str, str]]] = {
    "elt_stream": (EltStreamRun, "elt_stream_id", {"elt_sync_id": "y"}),
    "reverse_etl": (ReverseEtlSyncRun, "reverse_etl_sync_id", {}),
    "orchestration": (OrchestrationRun, "orchestration_id", {"due_at": LONG_AGO}),
}
#: Required fields of an ELT sync, without its ID.
ELT_SYNC: dict[str, Any] = {
    "account_id": "a",
    "source_connection_id": "c",
    "source_integration_id": "files",
    "destination_connection_id": "w",
    "destination_integration_id": "warehouse",
    "enabled": True,
    "status": "RUNNING",
    "created_at": LONG_AGO,
    "updated_at": LONG_AGO,
}
REQUESTED = RunRequested(status_url="/elt_stream_runs?elt_stream_id=s&starting_after=r0&limit=1&sort_direction=asc")

Answer = Any | DatapipeError | Callable[[Request[Any]], Any]


class ModelService:
    """
    Answers the requests of each endpoint with the answers of a list, in order. The last answer repeats.

    :param answers: answers by endpoint. Errors are raised, functions are called with the request.
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

    def run(self, flow: Flow[T]) -> T:
        return run_blocking(flow, self.send, self.sleep)

    def clock(self) -> float:
        return self.now


def run_of(kind: str, run_id: str = "r1", status: str | None = None, *, of: str = "s", **fields: Any) -> Any:
    """Return a run of a resource, in the form of the service."""
    model, resource_field, required = _RUNS[kind]
    known = {"id": run_id, resource_field: of, "started_at": LONG_AGO} | ({"status": status} if status else {})
    return model.model_validate(known | required | fields)


def stream_run(status: str | None, run_id: str = "r1", **fields: Any) -> EltStreamRun:
    run: EltStreamRun = run_of("elt_stream", run_id, status, **fields)
    return run


def result_of(reference: RunRef, outcome: Outcome, **known: Any) -> RunResult:
    """Return the result of a run; ``known`` replaces fields of a run without any."""
    end = WaitOutcome(WaitOutcomeReason.RUN_OVER, reference, outcome)
    return cast("RunResult", {**build_run_result(end), **known})


def stream(stream_id: str = "s", name: str = "orders", **fields: Any) -> EltStream:
    return EltStream.model_validate(responses.elt_stream(stream_id, name=name, **fields))


def sync(sync_id: str = "y", **fields: Any) -> EltSync:
    return EltSync.model_validate(ELT_SYNC | {"id": sync_id} | fields)


def transform(**fields: Any) -> Transform:
    known = {"name": "daily", "folder_path": "sales", "materialization_status": None}
    return Transform.model_validate(responses.transform(**known | fields))


def page(*runs: Any) -> Page[Any]:
    return Page(data=tuple(runs), has_more=False)


def listed(request: Request[Any], ids: list[str]) -> list[str]:
    """Return the IDs of runs after the requested cursor, in the requested order."""
    query = dict(request.query)
    ordered = ids if query.get("sort_direction") == "asc" else ids[::-1]
    after = query.get("starting_after")
    if after is None:
        return ordered
    return ordered[ordered.index(after) + 1 :] if after in ordered else []


@dataclass
class StoredState:
    """Task state that survives a killed process. ``step`` is called before and after each access."""

    kept: dict[str, str] = field(default_factory=dict)
    step: Callable[[], None] = lambda: None

    def get(self, key: str) -> Any:
        self.step()
        return json.loads(self.kept[key]) if key in self.kept else None

    def set(self, key: str, value: Any) -> None:
        self.step()
        self.kept[key] = json.dumps(value)
        self.step()

    def delete(self, key: str) -> None:
        self.step()
        self.kept.pop(key, None)
        self.step()
