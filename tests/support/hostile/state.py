"""Resources and runs of the hostile service. Their state follows from the times of the runs."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from tests.support.hostile.faults import Faults, Plan

Kind = Literal["elt_stream", "orchestration", "reverse_etl", "transform"]

DAY = 86_400.0
ZERO_TIME = "0001-01-01T00:00:00Z"


@dataclass(eq=False)
class Run:
    """
    Run, or build of a transform.

    :param number: counts all runs of the service.
    :param resource: the resource of the run.
    :param requested_at: time of the request, or of the plan.
    :param request: number of the journal entry that started it; None for a run of the schedule.
    :param full_refresh: it loads everything.
    :param retried: IDs of the failed records that it sends again.
    :param continues: the previous run of the same load in slices.
    :param due_at: due time of an orchestration run.
    """

    number: int
    resource: Resource
    requested_at: float
    started_at: float
    plan: Plan
    request: int | None
    full_refresh: bool = False
    retried: tuple[str, ...] = ()
    continues: Run | None = None
    due_at: float = 0.0

    @property
    def finished_at(self) -> float:
        """Return the time of its end."""
        return self.started_at + self.plan.duration

    @property
    def place(self) -> tuple[float, int]:
        """Return the place in lists: by due date for orchestrations, else by start date."""
        return (self.due_at if self.resource.kind == "orchestration" else self.started_at, self.number)

    def status_at(self, at: float) -> str | None:
        """Return the status at a time; None before the run was requested."""
        if at < self.requested_at:
            return None
        if self.plan.outcome == "CANCELED" and self.started_at - self.requested_at >= DAY / 2:
            # A planned run that was canceled never starts.
            return "CANCELED"
        if at < self.started_at:
            return "SCHEDULED"
        return "RUNNING" if at < self.finished_at else self.plan.outcome

    def is_active_at(self, at: float) -> bool:
        """Return True if the run is scheduled or running at a time."""
        return self.status_at(at) in ("SCHEDULED", "RUNNING") and not self.is_planned

    @property
    def is_planned(self) -> bool:
        """Return True for a run of the schedule that is due in the future."""
        return self.request is None and self.started_at - self.requested_at >= DAY / 2

    def id_in(self, form: int) -> str:
        """Return the ID in one of two formats."""
        text = f"{self.resource.id}-{self.number}|{iso(self.started_at)}"
        if form == 0:
            return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"run_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


@dataclass(eq=False)
class Resource:
    """
    ELT stream, orchestration, reverse ETL sync or transform.

    :param parent_id: the ELT sync of a stream.
    :param plans: courses of the requested runs, in order; the last one repeats.
    :param failed_records: IDs of the failed records of a reverse ETL sync.
    """

    kind: Kind
    id: str
    parent_id: str | None = None
    plans: tuple[Plan, ...] = (Plan(),)
    faults: Faults = field(default_factory=Faults)
    failed_records: list[str] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    created_at: float = 0.0
    #: Requested, and not yet taken up by a run.
    full_refresh: bool = False
    to_retry: list[str] = field(default_factory=list)
    #: Requests for a run, and reads, so far.
    start_requests: int = 0
    reads: int = 0

    def visible_at(self, at: float) -> list[Run]:
        """Return the runs that a list shows at a time, oldest first."""
        # The interface gives ELT stream runs no status for "scheduled".
        hidden = ("SCHEDULED", None) if self.kind == "elt_stream" else (None,)
        return sorted((run for run in self.runs if run.status_at(at) not in hidden), key=lambda run: run.place)

    def active_at(self, at: float) -> Run | None:
        """Return the run that is scheduled or running at a time."""
        return next((run for run in self.runs if run.is_active_at(at)), None)

    @property
    def requested_runs(self) -> list[Run]:
        """Return the runs that were requested, in order."""
        return [run for run in self.runs if run.request is not None]


def iso(at: float, form: str = "milliseconds") -> str:
    """Return a time as the service writes it."""
    moment = datetime.fromtimestamp(at, UTC)
    whole = f"{moment:%Y-%m-%dT%H:%M:%S}"
    return {
        "seconds": f"{whole}Z",
        "nanoseconds": f"{whole}.{moment.microsecond:06d}789Z",
        "lowercase": f"{moment:%Y-%m-%dt%H:%M:%S}.{moment.microsecond // 1000:03d}z",
        "offset": f"{whole}.{moment.microsecond // 1000:03d}+00:00",
    }.get(form, f"{whole}.{moment.microsecond // 1000:03d}Z")
