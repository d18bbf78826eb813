"""What names a run, and what is known of it: plain data that fits into JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from airflow_provider_datapipe.runs.outcome import Outcome


class RunResult(TypedDict):
    """
    What an operator returns of a run (its XCom). Counts are None where the service gives none.

    ``kind``: ``elt_stream``, ``orchestration``, ``transform`` or ``reverse_etl``.
    ``resource_id``, ``name``: what ran.
    ``run_id``: the run; None for transforms, whose materializations have no id.
    ``status``: the service's own word; ``outcome``: ours (:class:`~airflow_provider_datapipe.runs.outcome.Outcome`).
    ``started_at``, ``finished_at``: ISO 8601, UTC; ``duration``: seconds.
    ``attached``: whether another client may have started the run: it was active when this task requested one, or it was
    found in a list after the response was lost, which does not say who requested it.
    ``error``: why it failed, as far as the service says so.
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
class Target:
    """
    What is to be run.

    :param resource_id: id of the stream, orchestration, transform or reverse ETL sync.
    :param name: what people call it; the id where there is no name.
    :param options: what the kind of run takes, such as ``full_refresh``.
    :param sync_id: of a stream, the ELT sync that it belongs to.
    """

    resource_id: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    sync_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Reference:
    """
    Which run is waited for.

    :param kind: name of the kind of run.
    :param resource_id: what runs.
    :param name: what people call it.
    :param run_id: the run, once it is known.
    :param status_url: where the run will appear, until it is known.
    :param attached: whether the run was not started by this task.
    :param rows_before: rows of the earlier slices of the same load.
    :param absent_since: since when a run that was asked for has not appeared, as seconds since the epoch.
    :param sync_id: of a stream, the ELT sync that it belongs to, whose status shows all its streams at once.
    :param durations: seconds that earlier runs took, newest first (:class:`~.pace.History`).
    :param since: time of the request by the service's clock, in seconds since the epoch. Of a transform: its
        ``updated_at`` after the request. Older answers show the time before the request.
    :param known: IDs of the runs that were listed before a run was requested that no list shows yet.
    :param earlier_state: state of a transform before the request.
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

    @classmethod
    def to(cls, kind: str, target: Target, **known: Any) -> Reference:
        """
        Refer to a run of a target.

        :param kind: name of the kind of run.
        :param target: what runs.
        :param known: what else is known of the run.
        """
        return cls(kind, target.resource_id, target.name, sync_id=target.sync_id, **known)

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Observation:
    """
    What one look at a run showed.

    :param reference: what to look at next time.
    :param outcome: where the run stands.
    :param result: what is known of the run; None while it has not appeared.
    :param may_be_stale: whether the answer equals the one before the request, so that it may show an earlier run.
    """

    reference: Reference
    outcome: Outcome
    result: RunResult | None = None
    may_be_stale: bool = False

    @property
    def is_final(self) -> bool:
        """True if the run has finished and the answer is not stale."""
        return self.outcome.is_over and not self.may_be_stale
