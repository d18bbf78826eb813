"""Models of the service and of Airflow's task state, for tests without HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import orchestration_runs
from airflow_provider_datapipe.api.errors import DatapipeError, NotFoundError
from airflow_provider_datapipe.api.models.common import Page, RunRequested
from airflow_provider_datapipe.api.models.elt_streams import EltStream, EltStreamRun
from airflow_provider_datapipe.api.models.elt_syncs import EltSync
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSyncRun
from airflow_provider_datapipe.api.models.transforms import Transform
from airflow_provider_datapipe.api.request import Request
from tests.support.responses import LONG_AGO, elt_stream
from tests.support.tasks import Memory

_RUNS: dict[str, tuple[type[Any], str, dict[str, str]]] = {
    "elt_stream": (EltStreamRun, "elt_stream_id", {"elt_sync_id": "y"}),
    "reverse_etl": (ReverseEtlSyncRun, "reverse_etl_sync_id", {}),
    "orchestration": (OrchestrationRun, "orchestration_id", {"due_at": LONG_AGO}),
}
REQUESTED = RunRequested(status_url="/elt_stream_runs?elt_stream_id=s&starting_after=r0&limit=1&sort_direction=asc")

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


def run_of(kind: str, run_id: str = "r1", status: str | None = None, *, of: str = "s", **fields: Any) -> Any:
    """Return a run of a resource, as the service shows it."""
    model, resource_field, required = _RUNS[kind]
    known = {"id": run_id, resource_field: of, "started_at": LONG_AGO} | ({"status": status} if status else {})
    return model.model_validate(known | required | fields)


def stream_run(status: str | None, run_id: str = "r1", **fields: Any) -> EltStreamRun:
    run: EltStreamRun = run_of("elt_stream", run_id, status, **fields)
    return run


def stream(stream_id: str = "s", name: str = "orders") -> EltStream:
    return EltStream.model_validate(elt_stream(stream_id, name=name))


def sync(sync_id: str = "y", **fields: Any) -> EltSync:
    return EltSync.model_validate(
        {
            "id": sync_id,
            "account_id": "a",
            "source_connection_id": "c",
            "source_integration_id": "files",
            "destination_connection_id": "w",
            "destination_integration_id": "warehouse",
            "enabled": True,
            "status": "RUNNING",
            "created_at": LONG_AGO,
            "updated_at": LONG_AGO,
            **fields,
        }
    )


def page(*runs: Any) -> Page[Any]:
    return Page(data=tuple(runs), has_more=False)


def listed(request: Request[Any], ids: list[str]) -> list[str]:
    """Return the IDs of runs, oldest first, in the order and from the place that a request for a list asks for."""
    query = dict(request.query)
    ordered = ids if query.get("sort_direction") == "asc" else ids[::-1]
    after = query.get("starting_after")
    if after is None:
        return ordered
    return ordered[ordered.index(after) + 1 :] if after in ordered else []


class TaskState(Memory):
    """Task state that survives a killed process. ``step`` is called before and after each access."""

    step: Callable[[], None] = staticmethod(lambda: None)

    @override
    def get(self, key: str) -> Any:
        self.step()
        return super().get(key)

    @override
    def set(self, key: str, value: Any) -> None:
        self.step()
        super().set(key, value)
        self.step()

    @override
    def delete(self, key: str) -> None:
        self.step()
        super().delete(key)
        self.step()


@dataclass(frozen=True)
class Life:
    """
    What becomes of one run, in seconds from the moment at which it is asked for.

    :param appears: when the service first shows it.
    :param slices: how long each of its slices takes; only loads of ELT streams have more than one.
    :param gap: how long the run of the next slice takes to appear.
    :param going: its status while it is going.
    :param ends_as: its status in the end; ``never`` for a run that goes on for ever.
    :param dated: whether the service says when it ended.
    :param failed_rows: rows that a reverse ETL sync could not deliver.
    """

    appears: float
    slices: tuple[float, ...]
    gap: float
    going: str | None
    ends_as: str | None
    dated: bool = True
    failed_rows: int = 0

    @property
    def span(self) -> float:
        """When it is over, if it ever is."""
        return self.appears + sum(self.slices) + self.gap * (len(self.slices) - 1)


@dataclass(frozen=True)
class Shown:
    """An answer of :class:`World`, and what it says: the run is absent, or over, or, with neither, going."""

    answer: Any
    absent: bool = False
    over: bool = False


class World:
    """
    A service whose runs go their way by the clock, and which can be asked for any moment, as if its answer were late.

    Before every run of a resource there was another one, which completed.

    :param kind: name of the kind of run.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        #: The run of each resource that was asked for last, and when.
        self.begun: dict[str, tuple[float, Life]] = {}
        self._counts: Counter[str] = Counter()

    def begin(self, resource_id: str, life: Life, now: float) -> None:
        self.begun[resource_id] = (now, life)
        self._counts[resource_id] += 1

    def old(self, resource_id: str) -> str:
        return self.run_id(resource_id, "old")

    def run_id(self, resource_id: str, number: object) -> str:
        return f"{resource_id}-{self._counts[resource_id]}-{number}"

    def last_run(self, resource_id: str) -> str:
        return self.run_id(resource_id, len(self.begun[resource_id][1].slices) - 1)

    def resource_of(self, request: Request[Any]) -> str:
        query = dict(request.query)
        for name in ("elt_stream_id", "reverse_etl_sync_id", "orchestration_id"):
            if name in query:
                return query[name]
        return request.path.rpartition("/")[2].partition("-")[0]

    def show(self, request: Request[Any], at: float) -> Shown:
        """Answer as things stood at a moment."""
        resource_id = self.resource_of(request)
        if self.kind == "transform":
            return self._transform(resource_id, at)
        times = {"finished_at": "2026-01-01T00:01:00Z"}
        old = self.old(resource_id)
        there = {old: Shown(run_of(self.kind, old, "COMPLETED", of=resource_id, **times))}
        asked, life = self.begun[resource_id]
        begins = asked + life.appears
        for number, seconds in enumerate(life.slices):
            run_id = self.run_id(resource_id, number)
            last = number == len(life.slices) - 1
            ends = begins + seconds
            if at >= begins:
                over = at >= ends and not (last and life.ends_as == "never")
                status = life.going if not over else life.ends_as if last else "CHUNK_COMPLETED"
                known = {"rows_synced": 1, "failed_rows": life.failed_rows} | (times if over and life.dated else {})
                run = run_of(self.kind, run_id, status, of=resource_id, **known)
                there[run_id] = Shown(run, over=over and last)
            begins = ends + life.gap
        if not request.endpoint.name.endswith(".list"):
            wanted = request.path.rpartition("/")[2]
            if wanted not in there:
                raise NotFoundError("not there yet", status=404)
            return there[wanted]
        shown = [there[run_id] for run_id in listed(request, list(there))]
        return replace(shown[0], answer=page(shown[0].answer)) if shown else Shown(page(), absent=True)

    def show_all(self, at: float) -> dict[str, Shown]:
        """Show each orchestration's runs, as the list of all does, by resource; none where they are not there yet."""
        shown: dict[str, Shown] = {}
        for resource_id, (asked, _) in self.begun.items():
            if at >= asked:
                run_id = self.last_run(resource_id)
                single = Request(orchestration_runs.get(run_id).endpoint, f"/orchestration_runs/{run_id}")
                shown[resource_id] = self.show(single, at)
        return shown

    def _transform(self, resource_id: str, at: float) -> Shown:
        asked, life = self.begun[resource_id]
        over = at >= asked + life.span and life.ends_as != "never"
        status = life.ends_as if over else life.going
        return Shown(transform(id=resource_id, materialization_status=status), over=over)


def transform(**more: Any) -> Transform:
    fields = {
        "id": "t",
        "name": "daily",
        "folder_path": "sales",
        "status": "published",
        "materialization": "table",
        "sql_template": "SELECT 1",
        "parameters": [],
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    return Transform.model_validate(fields | more)
