"""References to runs, their state and their results: plain data that can be serialized to JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypedDict

from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.serialization import JsonData

#: The most durations of earlier runs that are kept.
KEPT_DURATIONS = 20
#: The longest valid duration in seconds: 30 years.
LONGEST_DURATION = 1e9


class RunResult(TypedDict):
    """
    Result of a run, which an operator returns (its XCom). Counts that the service does not report are None.

    ``kind``: ``elt_stream``, ``orchestration``, ``transform`` or ``reverse_etl``.
    ``resource_id``, ``name``: ID and name of the resource.
    ``run_id``: ID of the run; None for transforms, whose materializations have no ID.
    ``status``: status of the service; ``outcome``: its
    :class:`~airflow_provider_datapipe.runs.outcome.Outcome`, which has the same values for all kinds.
    ``started_at``, ``finished_at``: ISO 8601, UTC; ``duration``: seconds.
    ``attached``: True if another client may have started the run: it was active when this task requested one, or it was
    found in a list after the response was lost, because a list does not show which client requested a run.
    ``error``: reason of a failure, None if the service reports none.
    """

    kind: str
    resource_id: str
    name: str
    run_id: str | None
    status: str | None
    outcome: str
    started_at: str | None
    finished_at: str | None
    duration: float | None
    rows_synced: float | None
    rows_failed: float | None
    rows_total: float | None
    attached: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class RunTarget(JsonData):
    """
    Resource to run.

    :param resource_id: ID of the stream, orchestration, transform or reverse ETL sync.
    :param name: name for messages; the ID if there is no name.
    :param options: options of the kind of run, such as ``full_refresh``.
    :param sync_id: ID of the ELT sync of a stream.
    """

    resource_id: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    sync_id: str | None = None


@dataclass(frozen=True, slots=True)
class RunRef(JsonData):
    """
    Reference to a run.

    :param kind: name of the kind of run.
    :param resource_id: ID of the resource.
    :param name: name of the resource for messages.
    :param run_id: ID of the run; None as long as it is not known.
    :param status_url: URL at which the run will appear, as long as its ID is not known.
    :param attached: True if another client may have started the run.
    :param rows_before: number of rows in the earlier slices of the same load.
    :param absent_since: time since which a requested run has not appeared, in seconds since the epoch.
    :param sync_id: ID of the ELT sync of a stream. The status of the sync shows all its streams at once.
    :param durations: durations of earlier runs in seconds, newest first (:class:`~.poll_interval.RunDurations`).
    :param since: time of the request by the service's clock, in seconds since the epoch. For a transform: its
        ``updated_at`` after the request; answers with an earlier time are out of date.
    :param known: IDs of the runs that were listed before the request, for a run that is not listed yet.
    :param earlier_state: state of a transform before the request.
    :param stale_until: time until which a state equal to ``earlier_state`` can be out of date, in seconds since the
        epoch.
    """

    kind: str
    resource_id: str
    name: str
    run_id: str | None = None
    status_url: str | None = None
    attached: bool = False
    rows_before: float = 0
    absent_since: float | None = None
    sync_id: str | None = None
    durations: list[float] = field(default_factory=list)
    since: float | None = None
    known: list[str] = field(default_factory=list)
    earlier_state: dict[str, Any] | None = None
    stale_until: float | None = None

    @classmethod
    def to(cls, kind: str, target: RunTarget, **known: Any) -> RunRef:
        """
        Return a reference to a run of a target.

        :param kind: name of the kind of run.
        :param target: the resource.
        :param known: further attributes of the reference.
        """
        return cls(kind, target.resource_id, target.name, sync_id=target.sync_id, **known)


@dataclass(frozen=True, slots=True)
class RunState:
    """
    State of a run at one poll.

    :param reference: reference for the next poll.
    :param outcome: state of the run.
    :param result: result of the run; None if it has not appeared yet.
    :param may_be_stale: True if the answer equals the state before the request, so that it may show an earlier run.
    """

    reference: RunRef
    outcome: Outcome
    result: RunResult | None = None
    may_be_stale: bool = False

    @property
    def is_final(self) -> bool:
        """True if the run has finished and the answer is not stale."""
        return self.outcome.is_over and not self.may_be_stale


def valid_durations(durations: Iterable[Any]) -> list[float]:
    """
    Return the first durations, rounded to three digits.

    Invalid values are ignored: None, NaN, negative values, values above 30 years, and other types than numbers.

    :param durations: durations in seconds, newest first.
    """
    valid = (
        float(f"{seconds:.3g}")
        for seconds in durations
        if isinstance(seconds, int | float) and 0 <= seconds <= LONGEST_DURATION
    )
    return list(islice(valid, KEPT_DURATIONS))
