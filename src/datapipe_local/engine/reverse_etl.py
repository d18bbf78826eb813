"""Runs of reverse ETL syncs: rows of a transform become records of a destination."""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.reverse_etl import OperationName, ReverseEtlSyncRunStatus
from datapipe_local import destinations
from datapipe_local.clock import later
from datapipe_local.destinations.base import Record
from datapipe_local.engine.values import json_value
from datapipe_local.errors import RunError
from datapipe_local.service import connections, jobs, reverse_etl, transforms
from datapipe_local.store.records import RecordState, ReverseEtlSyncRun
from datapipe_local.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from datapipe_local.destinations.base import Destination
    from datapipe_local.engine.stop import Stop
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import Job, Json, ReverseEtlSync
    from datapipe_local.warehouse import Place

_ROWS_AT_A_TIME = 1_000
# Between the values of a key of several columns, in a record's id.
_SEPARATOR = "|"


@dataclass(frozen=True)
class Candidate:
    """
    A row that may be sent.

    :param record: What would be sent.
    :param digest: Tells whether it is still what was sent before.
    :param obstacle: Why it cannot be sent to any destination.
    """

    record: Record
    digest: str
    obstacle: str | None = None


class RecordSender:
    """
    Sends what is new, what has changed, and what was reset for a retry.

    What the destination took or refused is noted after each batch of the destination's size, so that a run
    that is carried on after a crash goes on after it. A record that was refused is not sent again until it
    changes or is reset.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def begin(self, job: Job) -> None:
        """Note the run."""
        store, clock = self._context.store, self._context.clock
        with store.transaction():
            run_id = reverse_etl.runs(self._context).next_id(job.subject_id, clock.now())
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
        Send.

        :raises RunError: the source cannot be read, or the destination takes nothing.
        """
        stop.check()
        outcome = self._context.script.outcome(job.subject_id, job.key)
        if outcome.error is not None:
            raise RunError(outcome.error)
        sync = reverse_etl.get(self._context, job.subject_id)
        run = reverse_etl.runs(self._context).get(str(job.run_id))
        try:
            place, columns = self._source(sync)
            self._note(run.id, total_rows=self._context.warehouse.count(place))
            destination = destinations.connect(
                connections.get(self._context, sync.destination_connection_id),
                sync.object_type_id,
                checkpoint=run.checkpoint,
                pause=stop.pause,
            )
            try:
                # Before the first record: what a killed process has written is found after this.
                self._note(run.id, checkpoint=destination.checkpoint())
                self._send_all(sync, run.id, self._candidates(sync, place, columns), destination, stop)
            finally:
                destination.close()
        except WarehouseError as error:
            raise RunError(f"The source, the transform {sync.source_id!r}, cannot be read: {error}") from error

    def finish(self, job: Job, result: None, error: str | None) -> None:
        """Note the end, with what the records of this run became."""
        store, now = self._context.store, self._context.clock.now()
        with store.transaction():
            run = reverse_etl.runs(self._context).get(str(job.run_id))
            self._note(
                run.id,
                status=ReverseEtlSyncRunStatus.COMPLETED if error is None else ReverseEtlSyncRunStatus.FAILED,
                finished_at=max(now, run.started_at),
                error=error,
                **self._counts(run.id),
            )
            jobs.end(self._context, job, failed=error is not None)

    def _source(self, sync: ReverseEtlSync) -> tuple[Place, list[str]]:
        """Give where the source stands and its columns, by the names that it has now."""
        place = transforms.stands_at(transforms.get(self._context, sync.source_id))
        if place is None:
            raise RunError(f"The transform {sync.source_id!r} is no longer in the warehouse: publish it.")
        columns = self._context.warehouse.columns(f"FROM {place.sql}")
        present = {column.name.lower(): column.name for column in columns}
        for wanted in _columns(sync.operation):
            if wanted.lower() not in present:
                near = difflib.get_close_matches(wanted, present.values(), n=1)
                raise RunError(
                    f"{place} has no column {wanted!r}"
                    + (f" (did you mean {near[0]!r}?)" if near else "")
                    + f": it has {', '.join(present.values())}. Correct the mapping."
                )
        return place, [present[wanted.lower()] for wanted in _columns(sync.operation)]

    def _candidates(self, sync: ReverseEtlSync, place: Place, columns: Sequence[str]) -> Iterator[list[Candidate]]:
        mappings: list[Json] = sync.operation["mappings"]
        keys = [column for column, mapping in zip(columns, mappings, strict=True) if mapping.get("primary_key")]
        for rows in self._context.warehouse.distinct_rows(place, columns, keys, _ROWS_AT_A_TIME):
            yield [_candidate(mappings, row) for row in rows]

    def _send_all(
        self,
        sync: ReverseEtlSync,
        run_id: str,
        candidates: Iterator[list[Candidate]],
        destination: Destination,
        stop: Stop,
    ) -> None:
        distinct_rows = 0
        for batch in candidates:
            distinct_rows += len(batch)
            due = self._due(sync, batch)
            refused = [candidate for candidate in due if candidate.obstacle is not None]
            self._remember(sync, run_id, refused, [candidate.obstacle for candidate in refused], destination)
            sendable = [candidate for candidate in due if candidate.obstacle is None]
            for start in range(0, len(sendable), destination.batch_size):
                stop.check()
                part = sendable[start : start + destination.batch_size]
                reasons = destination.send([candidate.record for candidate in part])
                self._remember(sync, run_id, part, reasons, destination)
            self._note(run_id, distinct_rows=distinct_rows, **self._counts(run_id))
        self._note(run_id, distinct_rows=distinct_rows)

    def _due(self, sync: ReverseEtlSync, batch: Sequence[Candidate]) -> list[Candidate]:
        """Give those that the destination does not have, or has otherwise."""
        ids = [candidate.record.record_id for candidate in batch]
        marks = ", ".join("?" * len(ids))
        known = {
            row["record_id"]: row
            for row in self._context.store.database.rows(
                "SELECT record_id, state, digest FROM reverse_etl_records"  # noqa: S608 - marks only
                f" WHERE sync_id = ? AND record_id IN ({marks})",
                sync.id,
                *ids,
            )
        }
        due: dict[str, Candidate] = {}
        for candidate in batch:
            before = known.get(candidate.record.record_id)
            if before is not None and before["state"] != RecordState.RESET:
                only_new = sync.operation["mode"] == OperationName.INSERT and before["state"] == RecordState.SYNCED
                if only_new or before["digest"] == candidate.digest:
                    continue
            # Keys that differ in the warehouse can have one id, such as a null and the text null.
            due.setdefault(candidate.record.record_id, candidate)
        return list(due.values())

    def _remember(
        self,
        sync: ReverseEtlSync,
        run_id: str,
        sent: Sequence[Candidate],
        reasons: Sequence[str | None],
        destination: Destination,
    ) -> None:
        if not sent:
            return
        store = self._context.store
        with store.transaction():
            store.database.run_many(
                "INSERT OR REPLACE INTO reverse_etl_records (sync_id, record_id, state, digest, error, run_id)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (
                        sync.id,
                        candidate.record.record_id,
                        RecordState.SYNCED if reason is None else RecordState.FAILED,
                        candidate.digest,
                        reason,
                        run_id,
                    )
                    for candidate, reason in zip(sent, reasons, strict=True)
                ],
            )
            checkpoint = destination.checkpoint()
            if checkpoint is not None:
                self._note(run_id, checkpoint=checkpoint)

    def _counts(self, run_id: str) -> dict[str, int]:
        """Count what the records of a run became: right also if several processes worked on it."""
        by_state = {
            row["state"]: row["n"]
            for row in self._context.store.database.rows(
                "SELECT state, count(*) AS n FROM reverse_etl_records WHERE run_id = ? GROUP BY state", run_id
            )
        }
        synced = by_state.get(RecordState.SYNCED, 0)
        failed = by_state.get(RecordState.FAILED, 0) + by_state.get(RecordState.RESET, 0)
        return {"new_rows": synced + failed, "synced_rows": synced, "failed_rows": failed}

    def _note(self, run_id: str, **changes: Any) -> None:
        self._context.store.reverse_etl_sync_runs.update(run_id, **changes)


def _columns(operation: Json) -> list[str]:
    return [mapping["source_property_id"] for mapping in operation["mappings"]]


def _candidate(mappings: Sequence[Json], row: Sequence[Any]) -> Candidate:
    values = [json_value(value) for value in row]
    properties = {mapping["destination_property_id"]: value for mapping, value in zip(mappings, values, strict=True)}
    digest = hashlib.sha256(json.dumps(properties, sort_keys=True).encode()).hexdigest()
    key = [
        (mapping["source_property_id"], value)
        for mapping, value in zip(mappings, values, strict=True)
        if mapping.get("primary_key")
    ]
    missing = [name for name, value in key if value is None]
    obstacle = None
    if missing:
        obstacle = f"The key column {missing[0]} is null, so that the record cannot be told from others."
    record_id = _SEPARATOR.join(_as_text(value, alone=len(key) == 1) for _, value in key) if key else digest
    return Candidate(Record(record_id, properties), digest, obstacle)


def _as_text(value: Any, *, alone: bool) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    # Otherwise the keys (a|b, c) and (a, b|c) would be one record.
    return text if alone else text.replace("\\", "\\\\").replace(_SEPARATOR, f"\\{_SEPARATOR}")
