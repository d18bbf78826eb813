"""The kinds of run: how each is requested, found, read and judged. Pure: they make requests and read answers."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pendulum
from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import (
    elt_stream_runs,
    elt_streams,
    elt_syncs,
    orchestration_runs,
    orchestrations,
    reverse_etl_failed_records,
    reverse_etl_sync_runs,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.errors import ConflictError
from airflow_provider_datapipe.api.models.common import Page, RunRequested, format_timestamp
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun, EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import StreamSnapshot
from airflow_provider_datapipe.api.models.orchestrations import OrchestrationRun
from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSyncRun
from airflow_provider_datapipe.api.models.transforms import Materialization, Transform, TransformStatus
from airflow_provider_datapipe.api.paging import LARGEST_PAGE
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.status_url import status_request, status_url_after
from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of, outcome_of_materialization
from airflow_provider_datapipe.runs.reference import Observation, Reference, RunResult, Target
from airflow_provider_datapipe.runs.steps import Steps, ask

#: How many failed records are quoted in a message.
_QUOTED_RECORDS = 3


class Kind(ABC):
    """One kind of run."""

    #: Name in references and results.
    name: ClassVar[str]
    #: What people call the thing that runs.
    noun: ClassVar[str]

    def prepare(self, target: Target) -> Iterator[Request[Any]]:
        """Give the requests that have to be answered before a run is asked for; all may be repeated."""
        return iter(())

    def needs_own_run(self, target: Target) -> bool:
        """Tell whether a run that began before this task asked for one can't do what is asked for."""
        return False

    @abstractmethod
    def request(self, target: Target) -> Request[Any]:
        """Give the request that asks for a run."""

    @abstractmethod
    def accepted(self, target: Target, answer: Any) -> Observation:
        """Read the answer to that request."""

    @abstractmethod
    def newest(self, resource_id: str) -> Request[Any]:
        """Give the request that shows the newest run."""

    @abstractmethod
    def cursor(self, newest: Any) -> str | None:
        """
        Note what there is before a run is asked for.

        :param newest: the answer to :meth:`newest`.
        """

    @abstractmethod
    def after(self, resource_id: str, cursor: str | None) -> Request[Any]:
        """Give the request that shows the runs after the cursor."""

    @abstractmethod
    def first_after(self, target: Target, cursor: str | None, answer: Any) -> Observation | None:
        """
        Find the first run after the cursor.

        :param answer: the answer to :meth:`after`.
        """

    def awaited(self, target: Target, cursor: str | None) -> Reference | None:
        """Name the first run after the cursor before it is there; None where no list can say which it is."""
        return None

    @abstractmethod
    def conflict(self, target: Target, error: ConflictError, newest: Any) -> Reference:
        """
        Find the run that stands in the way.

        :param newest: the answer to :meth:`newest`; None when the error names the run.
        """

    @abstractmethod
    def look(self, reference: Reference) -> Request[Any]:
        """Give the request that shows where a run stands."""

    @abstractmethod
    def read(self, reference: Reference, answer: Any) -> Observation:
        """Read the answer to that request."""

    def explain(self, observation: Observation) -> Steps[str | None]:
        """Ask the service why a run ended as it did, where the run itself does not say so."""
        yield from ()
        return None

    def disable(self, resource_id: str) -> Steps[str | None]:
        """Take what runs off its schedule, and say what was done; None where the interface has no such thing."""
        yield from ()
        return None


class _ListedKind(Kind):
    """A kind whose request is answered by the place in a list where the run will appear."""

    @override
    def accepted(self, target: Target, answer: RunRequested) -> Observation:
        # Refuses, while the answer is at hand, a place that could not be looked at later.
        status_request(answer.status_url, self._listing(target.resource_id))
        reference = Reference(self.name, target.resource_id, target.name, status_url=answer.status_url)
        return Observation(reference, Outcome.SCHEDULED)

    @override
    def newest(self, resource_id: str) -> Request[Page[Any]]:
        return self._listing(resource_id).with_query(limit=1, sort_direction="desc")

    @override
    def cursor(self, newest: Page[Any]) -> str | None:
        return newest.data[0].id if newest.data else None

    @override
    def after(self, resource_id: str, cursor: str | None) -> Request[Page[Any]]:
        listing = self._listing(resource_id)
        return status_request(status_url_after(listing, cursor), listing)

    @override
    def first_after(self, target: Target, cursor: str | None, answer: Page[Any]) -> Observation | None:
        if not answer.data:
            return None
        return self.read(Reference(self.name, target.resource_id, target.name), answer)

    @override
    def conflict(self, target: Target, error: ConflictError, newest: Page[Any] | None) -> Reference:
        reference = Reference(self.name, target.resource_id, target.name, attached=True)
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
        return Reference(self.name, target.resource_id, target.name, status_url=after)

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


class EltStreamKind(_ListedKind):
    """Runs of ELT streams. Option: ``full_refresh``."""

    name = "elt_stream"
    noun = "ELT stream"

    @override
    def prepare(self, target: Target) -> Iterator[Request[Any]]:
        if target.options.get("full_refresh"):
            yield elt_streams.request_full_refresh(target.resource_id)

    @override
    def needs_own_run(self, target: Target) -> bool:
        return bool(target.options.get("full_refresh"))

    @override
    def request(self, target: Target) -> Request[RunRequested]:
        return elt_streams.request_run(target.resource_id)

    @override
    def read(self, reference: Reference, answer: Any) -> Observation:
        seen = super().read(reference, answer)
        result = seen.result
        if result is None or result["status"] != EltStreamRunStatus.CHUNK_COMPLETED:
            return seen
        # A slice is done, the load goes on in the run after it.
        following = replace(
            seen.reference,
            run_id=None,
            status_url=status_url_after(self._listing(reference.resource_id), seen.reference.run_id),
            rows_before=result["rows_synced"] or 0,
        )
        return Observation(following, Outcome.RUNNING, result)

    @override
    def explain(self, observation: Observation) -> Steps[str | None]:
        # A run carries no reason; the status of its sync does, under the stream's name.
        stream = yield from ask(elt_streams.get(observation.reference.resource_id))
        status = yield from ask(elt_syncs.status(stream.elt_sync_id))
        for snapshots in status.source_streams:
            latest = snapshots.latest_sync
            if snapshots.name == stream.name and latest and _is_of(latest, observation.result):
                return latest.error_message
        return None

    @override
    def disable(self, resource_id: str) -> Steps[str | None]:
        stream = yield from ask(elt_streams.get(resource_id))
        yield from ask(elt_syncs.disable(stream.elt_sync_id))
        return f"ELT sync {stream.elt_sync_id} was disabled"

    @override
    def _listing(self, resource_id: str) -> Request[Page[EltStreamRun]]:
        return elt_stream_runs.list_(resource_id)

    @override
    def _one(self, run_id: str) -> Request[EltStreamRun]:
        return elt_stream_runs.get(run_id)

    @override
    def _judge(self, run: EltStreamRun) -> Outcome:
        return outcome_of(run.status, finished=run.finished_at is not None)

    @override
    def _result(self, reference: Reference, run: EltStreamRun) -> RunResult:
        rows = run.rows_synced
        if reference.rows_before:
            rows = (rows or 0) + reference.rows_before
        return _result(
            reference,
            self._judge(run),
            status=run.status,
            started_at=run.started_at,
            finished_at=run.finished_at,
            rows_synced=rows,
        )


class ReverseEtlKind(_ListedKind):
    """Runs of reverse ETL syncs. Option: ``retry_failed_records``, True for all or the ids of some."""

    name = "reverse_etl"
    noun = "reverse ETL sync"

    @override
    def prepare(self, target: Target) -> Iterator[Request[Any]]:
        records = target.options.get("retry_failed_records")
        if records is True:
            yield reverse_etl_failed_records.retry_all(target.resource_id)
        elif records:
            yield reverse_etl_failed_records.retry(target.resource_id, record_ids=records)

    @override
    def needs_own_run(self, target: Target) -> bool:
        return bool(target.options.get("retry_failed_records"))

    @override
    def request(self, target: Target) -> Request[RunRequested]:
        return reverse_etl_syncs.request_run(target.resource_id)

    @override
    def explain(self, observation: Observation) -> Steps[str | None]:
        result = observation.result
        if not result or not result["rows_failed"]:
            return None
        listed = yield from ask(
            reverse_etl_failed_records.list_(observation.reference.resource_id, limit=_QUOTED_RECORDS)
        )
        quoted = "; ".join(f"record {record.record_id}: {record.error}" for record in listed.data)
        return f"for example {quoted}" if quoted else None

    @override
    def disable(self, resource_id: str) -> Steps[str | None]:
        yield from ask(reverse_etl_syncs.deactivate(resource_id))
        return f"reverse ETL sync {resource_id} was deactivated"

    @override
    def _listing(self, resource_id: str) -> Request[Page[ReverseEtlSyncRun]]:
        return reverse_etl_sync_runs.list_(resource_id)

    @override
    def _one(self, run_id: str) -> Request[ReverseEtlSyncRun]:
        return reverse_etl_sync_runs.get(run_id)

    @override
    def _judge(self, run: ReverseEtlSyncRun) -> Outcome:
        return outcome_of(run.status, finished=run.finished_at is not None, failed_rows=run.failed_rows)

    @override
    def _result(self, reference: Reference, run: ReverseEtlSyncRun) -> RunResult:
        return _result(
            reference,
            self._judge(run),
            status=run.status,
            started_at=run.started_at,
            finished_at=run.finished_at,
            rows_synced=run.synced_rows,
            rows_failed=run.failed_rows,
            rows_total=run.total_rows,
            error=run.error,
        )


class OrchestrationKind(Kind):
    """Runs of orchestrations: the request is answered by the run itself."""

    name = "orchestration"
    noun = "orchestration"

    @override
    def request(self, target: Target) -> Request[OrchestrationRun]:
        return orchestrations.request_run(target.resource_id)

    @override
    def accepted(self, target: Target, answer: OrchestrationRun) -> Observation:
        return self.read(Reference(self.name, target.resource_id, target.name), answer)

    @override
    def newest(self, resource_id: str) -> Request[Page[OrchestrationRun]]:
        return orchestration_runs.list_(orchestration_id=resource_id, limit=1)

    @override
    def cursor(self, newest: Page[OrchestrationRun]) -> str | None:
        return newest.data[0].id if newest.data else None

    @override
    def after(self, resource_id: str, cursor: str | None) -> Request[Page[OrchestrationRun]]:
        return orchestration_runs.list_(orchestration_id=resource_id, limit=LARGEST_PAGE)

    @override
    def first_after(self, target: Target, cursor: str | None, answer: Page[OrchestrationRun]) -> Observation | None:
        # The list is newest first: what stands before the cursor came after it.
        newer = list(itertools.takewhile(lambda run: run.id != cursor, answer.data))
        return self.accepted(target, newer[-1]) if newer else None

    @override
    def conflict(self, target: Target, error: ConflictError, newest: Page[OrchestrationRun] | None) -> Reference:
        # The interface declares no conflict; a service that has one is read as the other kinds are.
        going = Reference(self.name, target.resource_id, target.name, run_id=error.active_run_id, attached=True)
        if going.run_id is None and newest is not None:
            seen = self.read(going, newest)
            if seen.result is None or seen.outcome.is_over:
                # Nothing shows what stands in the way, and a run that is over says nothing about this one.
                raise error
            going = seen.reference
        return going

    @override
    def look(self, reference: Reference) -> Request[Any]:
        if reference.run_id is None:
            return self.newest(reference.resource_id)
        return orchestration_runs.get(reference.run_id)

    @override
    def read(self, reference: Reference, answer: Any) -> Observation:
        if isinstance(answer, Page):
            if not answer.data:
                return Observation(reference, Outcome.SCHEDULED)
            answer = answer.data[0]
        run: OrchestrationRun = answer
        known = replace(reference, run_id=run.id)
        outcome = outcome_of(run.status, finished=run.finished_at is not None)
        result = _result(known, outcome, status=run.status, started_at=run.started_at, finished_at=run.finished_at)
        return Observation(known, outcome, result)


class TransformKind(Kind):
    """
    Materializations of transforms, which have no id: the transform itself shows where they stand.

    Options: the overrides of :func:`~airflow_provider_datapipe.api.endpoints.transforms.publish`.
    """

    name = "transform"
    noun = "transform"

    @override
    def request(self, target: Target) -> Request[Transform]:
        return transforms.publish(target.resource_id, **target.options)

    @override
    def accepted(self, target: Target, answer: Transform) -> Observation:
        return self.read(Reference(self.name, target.resource_id, target.name), answer)

    @override
    def newest(self, resource_id: str) -> Request[Transform]:
        return transforms.get(resource_id)

    @override
    def cursor(self, newest: Transform) -> str | None:
        return format_timestamp(newest.updated_at)

    @override
    def after(self, resource_id: str, cursor: str | None) -> Request[Transform]:
        return transforms.get(resource_id)

    @override
    def first_after(self, target: Target, cursor: str | None, answer: Transform) -> Observation | None:
        # Publishing leaves no other trace than a change of the transform.
        changed = format_timestamp(answer.updated_at) != cursor
        return self.accepted(target, answer) if changed and answer.status == TransformStatus.PUBLISHED else None

    @override
    def conflict(self, target: Target, error: ConflictError, newest: Transform | None) -> Reference:
        return Reference(self.name, target.resource_id, target.name, attached=True)

    @override
    def look(self, reference: Reference) -> Request[Transform]:
        return transforms.get(reference.resource_id)

    @override
    def read(self, reference: Reference, answer: Transform) -> Observation:
        known = replace(reference, name=f"{answer.folder_path}/{answer.name}".lstrip("/"))
        is_table = answer.materialization != Materialization.VIEW
        outcome = outcome_of_materialization(answer.materialization_status, is_table=is_table)
        status = answer.materialization_status or answer.status
        return Observation(known, outcome, _result(known, outcome, status=status, error=answer.materialization_error))


def _is_of(snapshot: StreamSnapshot, result: RunResult | None) -> bool:
    """Tell whether a snapshot, which has no run id, may be that of a run: by when it started."""
    started = result and result["started_at"]
    return not started or snapshot.started_at is None or format_timestamp(snapshot.started_at) == started


def _result(
    reference: Reference,
    outcome: Outcome,
    *,
    status: str | None,
    started_at: pendulum.DateTime | None = None,
    finished_at: pendulum.DateTime | None = None,
    rows_synced: float | None = None,
    rows_failed: float | None = None,
    rows_total: float | None = None,
    error: str | None = None,
) -> RunResult:
    return RunResult(
        kind=reference.kind,
        resource_id=reference.resource_id,
        name=reference.name,
        run_id=reference.run_id,
        # A plain text, so that no enum of this package has to be known where an XCom is read.
        status=None if status is None else str(status),
        outcome=str(outcome),
        started_at=None if started_at is None else format_timestamp(started_at),
        finished_at=None if finished_at is None else format_timestamp(finished_at),
        duration=(finished_at - started_at).total_seconds() if started_at and finished_at else None,
        rows_synced=rows_synced,
        rows_failed=rows_failed,
        rows_total=rows_total,
        attached=reference.attached,
        error=error,
    )


#: Every kind by its name.
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (EltStreamKind(), OrchestrationKind(), TransformKind(), ReverseEtlKind())
}
