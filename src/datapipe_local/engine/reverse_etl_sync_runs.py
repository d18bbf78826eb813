"""Runs of reverse ETL syncs: they send rows of a source as records to a destination."""

from __future__ import annotations

import difflib
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName, ReverseEtlSyncRunStatus
from datapipe_local.common.errors import RunError
from datapipe_local.connectors import destinations
from datapipe_local.connectors.destinations.base import Progress, Target
from datapipe_local.engine.delivery import Delivery
from datapipe_local.engine.record_ledger import Ledger
from datapipe_local.engine.record_reader import Candidate, candidate, digest_of
from datapipe_local.services import connections, jobs, reverse_etl_sources, reverse_etl_syncs
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import ReverseEtlSyncRun
from datapipe_local.storage.temporary_data import DiskSet
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from datapipe_local.connectors.destinations.base import Unanswered
    from datapipe_local.engine.stop import Stop
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import Job, Json, ReverseEtlSync
    from datapipe_local.warehouse.warehouse import Place

_ROWS_AT_A_TIME = 1_000
#: Counting takes longer with more records.
_SECONDS_BETWEEN_COUNTS = 1.0


class RecordSender:
    """
    Executor of reverse ETL runs. It sends records that are new, changed or reset; a mirror also deletes removed ones.

    The results of each batch are stored before the next batch, so that a run continues after the last one if the
    process is killed; batches in flight are resolved first. A refused record is not sent again until it changes or is
    reset.

    If a sync is deleted, its active run notices that at the next batch.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def begin(self, job: Job) -> None:
        """Record the run."""
        store, clock = self._context.store, self._context.clock
        with store.transaction():
            # The sync may have been deleted in the meantime.
            if not jobs.is_pending(self._context, job):
                return
            run_id = reverse_etl_syncs.runs(self._context).next_id(job.subject_id, clock.now())
            store.reverse_etl_sync_runs.insert(
                ReverseEtlSyncRun(
                    id=str(run_id),
                    reverse_etl_sync_id=job.subject_id,
                    started_at=run_id.started_at,
                    status=ReverseEtlSyncRunStatus.RUNNING,
                )
            )
            work_at = later(clock.now(), self._context.minimum_duration_of(job.subject_id))
            jobs.begin(self._context, job, str(run_id), work_at)

    def work(self, job: Job, stop: Stop) -> None:
        """
        Send the records.

        :raises RunError: the source cannot be read, or the destination cannot be written.
        """
        stop.check()
        outcome = self._context.run_overrides.outcome(job.subject_id, job.key)
        if outcome.error is not None:
            raise RunError(outcome.error)
        sync = self._context.store.reverse_etl_syncs.get(job.subject_id)
        run = self._context.store.reverse_etl_sync_runs.get(str(job.run_id))
        if sync is None or run is None:
            raise RunError("The reverse ETL sync was deleted before its run started.")
        source = reverse_etl_sources.of(self._context, sync)
        place = source.place
        if place is None:
            raise RunError(f"The source, {source.title}, {source.obstacle}.")
        try:
            columns = self._columns(sync, place)
            self._note(run.id, total_rows=self._context.warehouse.count(place))
            destination = destinations.connect(
                connections.get(self._context, sync.destination_connection_id),
                Target(sync.id, sync.object_type_id, OperationName(sync.operation["mode"]), sync.settings),
                progress=self._progress(run),
                pause=stop.pause,
                rule=self._context.http_destinations,
            )
            try:
                # Store this before the first record: it lets the next process find the records of a killed one.
                self._note(run.id, checkpoint=destination.checkpoint())
                delivery = Delivery(destination, Ledger(self._context, sync, run.id), stop)
                self._resolve_unanswered(delivery, lambda: self._candidates(sync, place, columns))
                self._send_all(sync, run.id, self._candidates(sync, place, columns), delivery)
            finally:
                # In all cases: records that were stored as accepted must become visible.
                destination.close()
        except WarehouseError as error:
            raise RunError(f"The source, {source.title}, cannot be read: {error}") from error

    def finish(self, job: Job, result: None, error: str | None) -> None:
        """Record the end of the run, with the numbers of its records."""
        store, now = self._context.store, self._context.clock.now()
        with store.transaction():
            run, sync = store.reverse_etl_sync_runs.get(str(job.run_id)), store.reverse_etl_syncs.get(job.subject_id)
            if run is None or sync is None or not jobs.is_pending(self._context, job):
                return
            self._note(
                run.id,
                status=ReverseEtlSyncRunStatus.COMPLETED if error is None else ReverseEtlSyncRunStatus.FAILED,
                finished_at=max(now, run.started_at),
                error=error,
                **Ledger(self._context, sync, run.id).counts(),
            )
            jobs.end(self._context, job, failed=error is not None)

    def _columns(self, sync: ReverseEtlSync, place: Place) -> list[str]:
        """Return the present names of the mapped columns."""
        columns = [column.name for column in self._context.warehouse.columns(f"FROM {place.sql}")]
        present = {column.lower(): column for column in columns}
        wanted = [mapping["source_property_id"] for mapping in sync.operation["mappings"]]
        for column in wanted:
            if column.lower() not in present:
                near = difflib.get_close_matches(column, columns, n=1)
                raise RunError(
                    f"{place} has no column {column!r}"
                    + (f" (did you mean {near[0]!r}?)" if near else "")
                    + f": it has {', '.join(columns)}. Correct the mapping."
                )
        return [present[column.lower()] for column in wanted]

    def _candidates(self, sync: ReverseEtlSync, place: Place, columns: Sequence[str]) -> Iterator[list[Candidate]]:
        mappings: list[Json] = sync.operation["mappings"]
        keys = [column for column, mapping in zip(columns, mappings, strict=True) if mapping.get("primary_key")]
        for rows in self._context.warehouse.distinct_rows(place, columns, keys, _ROWS_AT_A_TIME):
            yield [candidate(mappings, row) for row in rows]

    def _progress(self, run: ReverseEtlSyncRun) -> Progress:
        before = reverse_etl_syncs.checkpoint_before(self._context, run)
        return Progress(run.checkpoint, before, lambda checkpoint: self._note(run.id, checkpoint=checkpoint))

    def _resolve_unanswered(self, delivery: Delivery, candidates: Callable[[], Iterator[list[Candidate]]]) -> None:
        """Resolve unanswered records first, with the same content, by which the destination recognizes them."""
        left = delivery.destination.unanswered()
        if left is None:
            return
        # A new request could insert the records twice: only the stored one shows whether they were inserted.
        is_repeated = not left.of_failed_run or delivery.ledger.only_inserts
        if not is_repeated and not _is_source_unchanged(left, candidates()):
            # The source has changed: the records must not be sent as they were.
            delivery.ledger.mark_uncertain(left.records)
        elif left.is_deletion:
            delivery.delete(left.records)
        else:
            delivery.send([Candidate(record, digest_of(record.properties)) for record in left.records])

    def _send_all(
        self, sync: ReverseEtlSync, run_id: str, candidates: Iterator[list[Candidate]], delivery: Delivery
    ) -> None:
        ledger, is_mirror = delivery.ledger, sync.operation["mode"] == OperationName.MIRROR
        distinct_rows, count_at = 0, 0.0
        with closing(DiskSet()) as in_source:
            for batch in candidates:
                distinct_rows += len(batch)
                if is_mirror:
                    in_source.update(each.record.record_id for each in batch)
                due = ledger.due(batch)
                refused = [each for each in due if each.obstacle is not None]
                ledger.sent(refused, [each.obstacle for each in refused], None)
                delivery.send([each for each in due if each.obstacle is None])
                if time.monotonic() >= count_at:
                    self._note(run_id, distinct_rows=distinct_rows, **ledger.counts())
                    count_at = time.monotonic() + _SECONDS_BETWEEN_COUNTS
            self._note(run_id, distinct_rows=distinct_rows)
            if is_mirror:
                for gone in ledger.gone(in_source):
                    delivery.delete(gone)

    def _note(self, run_id: str, **changes: Any) -> None:
        self._context.store.reverse_etl_sync_runs.update(run_id, **changes)


def _is_source_unchanged(left: Unanswered, candidates: Iterator[list[Candidate]]) -> bool:
    """Return True if the source still has the same content for the unanswered records."""
    stored = {record.record_id: digest_of(record.properties) for record in left.records}
    now = {
        each.record.record_id: each.digest for batch in candidates for each in batch if each.record.record_id in stored
    }
    return not now if left.is_deletion else now == stored
