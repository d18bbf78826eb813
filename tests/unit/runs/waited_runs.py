"""Runs drawn by hypothesis, and a service that shows their state at any time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from airflow_provider_datapipe.api.endpoints import orchestration_runs
from airflow_provider_datapipe.api.errors import NotFoundError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.outcome import Outcome
from tests.unit.runs.model_service import listed, page, run_of, transform

#: Outcomes by the last status. With another status, a run has ended with an unknown outcome.
OUTCOMES = {
    "COMPLETED": Outcome.SUCCEEDED,
    "completed": Outcome.SUCCEEDED,
    "FAILED": Outcome.FAILED,
    "failed": Outcome.FAILED,
    "CANCELED": Outcome.CANCELED,
}
GOING: dict[str, list[str | None]] = {
    "elt_stream": ["RUNNING", None, "REHEARSING"],
    "reverse_etl": ["SCHEDULED", "RUNNING", "REHEARSING"],
    "orchestration": ["NOT_STARTED", "RUNNING", "REHEARSING"],
    "transform": ["running", None, "rehearsing"],
}
ENDS: dict[str, list[str | None]] = {
    "elt_stream": ["COMPLETED", "COMPLETED", "FAILED", "CANCELED", "EVAPORATED", None, "never"],
    "reverse_etl": ["COMPLETED", "COMPLETED", "FAILED", "CANCELED", "EVAPORATED", "never"],
    "orchestration": ["COMPLETED", "COMPLETED", "FAILED", "CANCELED", "EVAPORATED", "never"],
    "transform": ["completed", "completed", "failed", "never"],
}


@dataclass(frozen=True)
class Life:
    """
    Course of one run, in seconds since its request.

    :param appears: time at which the service first shows it.
    :param slices: durations of its slices; only loads of ELT streams have several.
    :param gap: time until the run of the next slice appears.
    :param going: status while it is active.
    :param ends_as: status at its end; ``never`` for a run that does not end.
    :param dated: True if the service shows the time of its end.
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
        """Time of its end, if it ends."""
        return self.appears + sum(self.slices) + self.gap * (len(self.slices) - 1)


@dataclass(frozen=True)
class Shown:
    """Answer of :class:`World` and its state: the run is absent, over, or (if neither is set) active."""

    answer: Any
    absent: bool = False
    over: bool = False


class World:
    """
    Service whose runs depend on the clock. It can answer with an earlier state, like a lagging replica.

    Each resource has an earlier, completed run.

    :param kind: name of the kind of run.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        #: The last requested run of each resource, and the time of the request.
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
        """Answer with the state at a time."""
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
        """Return the run of each orchestration that is in the list of all runs, by resource."""
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


@st.composite
def lives(draw: st.DrawFn, kind: str, *, may_last: bool) -> Life:
    may_be_late, has_slices = kind in ("elt_stream", "reverse_etl"), kind == "elt_stream"
    ends_as = draw(st.sampled_from([end for end in ENDS[kind] if may_last or end != "never"]))
    return Life(
        # A publication is visible at once, and the request for an orchestration's run returns the run.
        appears=draw(st.sampled_from([0.0, 0.0, 12.0, 70.0])) if may_be_late else 0.0,
        slices=tuple(draw(st.lists(st.sampled_from([0.0, 3.0, 25.0, 60.0]), min_size=1, max_size=1 + 2 * has_slices))),
        gap=draw(st.sampled_from([0.0, 7.0, 30.0])),
        going=draw(st.sampled_from(GOING[kind])),
        ends_as=ends_as,
        dated=ends_as not in OUTCOMES or draw(st.booleans()),
        failed_rows=draw(st.sampled_from([0, 0, 2])) if kind == "reverse_etl" else 0,
    )


@dataclass(frozen=True)
class Part:
    """
    One resource of the batch.

    :param life: course of its run.
    :param place: initial list of the resource: ``waiting``, ``blocked`` or ``queued``.
    :param before: course of the run that blocks it.
    """

    life: Life
    place: str
    before: Life


@dataclass(frozen=True)
class Setup:
    """A batch, the limits of its wait as seconds, and the state of the service at the end of the test."""

    kind: str
    parts: list[Part]
    deadline: float | None = None
    contact_limit: float = 60.0
    schedule_limit: float = 300.0
    at_a_time: int | None = None
    finale: str = "honest"


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    # Query previews have no run history. tests/contract/test_query.py tests their waits.
    kind = draw(st.sampled_from(list(ENDS)))
    deadline = draw(st.sampled_from([None, None, 0.0, 35.0, 100.0, 400.0, 1000.0]))
    # The wait for a run that never ends needs a deadline.
    life = lives(kind, may_last=deadline is not None)
    # Only runs of these kinds have conflicts.
    places = ["waiting", "waiting", "queued"] + ["blocked"] * (kind in ("elt_stream", "reverse_etl"))
    return Setup(
        kind,
        draw(st.lists(st.builds(Part, life, st.sampled_from(places), life), min_size=1, max_size=4)),
        deadline,
        draw(st.sampled_from([5.0, 60.0, 200.0, 1000.0])),
        draw(st.sampled_from([0.0, 50.0, 300.0, 300.0])),
        draw(st.sampled_from([None, 1, 2])),
        draw(st.sampled_from(["honest", "down", "absent", "gone"])),
    )
