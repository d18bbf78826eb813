"""Declarative faults of the hostile service."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

#: How the service loses the response to a request that starts a run. "executed" requests start the run, the others do
#: not. "late" executes the request some seconds after the connection was dropped.
Loss = Literal["executed_drop", "executed_502", "executed_malformed", "drop", "502", "late"]
#: A single bad response to a read.
Glitch = Literal["400", "401", "404", "429", "500", "502", "503", "drop", "malformed", "html", "empty"]


def changed_fields(value: Any) -> str:
    """Return the ``repr`` of a dataclass without the fields that have their defaults."""
    reported = []
    for each in fields(value):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if getattr(value, each.name) != default:
            reported.append(f"{each.name}={getattr(value, each.name)!r}")
    return f"{type(value).__name__}({', '.join(reported)})"


@dataclass(frozen=True, slots=True)
class Window:
    """
    Span of time, in seconds since the creation of the service.

    :param begin: first second of the span.
    :param end: end of the span, exclusive.
    """

    begin: float = 0.0
    end: float = math.inf

    def __contains__(self, seconds: float) -> bool:
        """Return True if the time is within the span."""
        return self.begin <= seconds < self.end


@dataclass(frozen=True, slots=True, repr=False)
class Faults:
    """
    Faults of the whole service or of one resource.

    :param lags: seconds by which the replicas are behind. Each read goes to one of them.
    :param sticky: reads of one TCP connection go to one replica; otherwise each read chooses at random.
    :param losses: how the responses to the first requests for a run are lost, in order.
    :param late_by: seconds after which a "late" request is executed.
    :param glitches: responses to single reads, by the number of the read of this resource (from 0).
    :param broken: when all reads of the resource and its runs answer ``broken_as``.
    :param broken_as: the response of these reads.
    :param stranger: when the first request for a run is lost and not executed, another user's run starts.
    :param not_found: when reads of a single run answer 404.
    :param bad_request: when reads of a single run answer 400.
    :param id_change_at: when the format of run IDs changes. Earlier IDs answer 400 from then on.
    :param timestamps: format of timestamps.
    :param absent_times: how a time is shown that is not known yet.
    :param zero_started: started_at is the zero time also for runs that have started.
    :param omit_status: leave out the optional status of ELT stream runs until they have ended.
    :param planned: number of planned runs of an orchestration or reverse ETL sync, due tomorrow and later.
    :param planned_canceled: planned runs are CANCELED.
    :param conflict: the ``active_run_id`` of a 409.
    :param stuck_conflict: when every request for a run answers 409 although no run is active.
    :param unavailable: when all requests answer ``unavailable_status``.
    :param unavailable_status: 429, 503 or another status.
    :param retry_after: the header ``Retry-After`` of these responses.
    :param other_account: when all requests answer as if the resource belonged to another account.
    :param other_account_status: 404 or 401.
    :param echo_key: failed runs repeat the API key in ``error``.
    :param fixed_updated_at: ``updated_at`` of transforms does not change when they are built.
    """

    lags: tuple[float, ...] = (0.0,)
    sticky: bool = False
    losses: tuple[Loss, ...] = ()
    late_by: float = 20.0
    glitches: tuple[tuple[int, Glitch], ...] = ()
    broken: Window | None = None
    broken_as: Glitch = "malformed"
    stranger: bool = False
    not_found: Window | None = None
    bad_request: Window | None = None
    id_change_at: float | None = None
    timestamps: Literal["milliseconds", "seconds", "nanoseconds", "lowercase", "offset"] = "milliseconds"
    absent_times: Literal["omitted", "null", "zero"] = "omitted"
    zero_started: bool = False
    omit_status: bool = False
    planned: int = 0
    planned_canceled: bool = False
    conflict: Literal["named", "unnamed", "finished", "missing"] = "named"
    stuck_conflict: Window | None = None
    unavailable: Window | None = None
    unavailable_status: int = 503
    retry_after: str | None = None
    other_account: Window | None = None
    other_account_status: int = 404
    echo_key: bool = False
    fixed_updated_at: bool = False

    def __repr__(self) -> str:
        """Return only the fields that differ from their defaults."""
        return changed_fields(self)


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """
    Course of one requested run.

    :param duration: seconds from start to end.
    :param outcome: final status.
    :param delay: seconds from the request to the start.
    :param failed_rows: number of rows that a reverse ETL destination refuses.
    """

    duration: float = 60.0
    outcome: Literal["COMPLETED", "FAILED", "CANCELED", "CHUNK_COMPLETED"] = "COMPLETED"
    delay: float = 0.0
    rows: int = 100
    failed_rows: int = 0

    def __repr__(self) -> str:
        """Return only the fields that differ from their defaults."""
        return changed_fields(self)


@dataclass(frozen=True, slots=True)
class Response:
    """
    Response to one request.

    :param status: HTTP status; 0 closes the connection without a response.
    :param body: JSON value, or raw bytes; None for no body.
    :param headers: further headers.
    :param fault: the fault that made the response, if any.
    """

    status: int = 200
    body: object = None
    headers: tuple[tuple[str, str], ...] = field(default=())
    fault: str | None = None
