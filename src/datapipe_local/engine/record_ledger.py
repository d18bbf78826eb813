"""Record ledger: the state of each record at its destination, and the changes that a run has to send."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.base import ABSENT, Record
from datapipe_local.storage.records import RecordState

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from datapipe_local.connectors.destinations.base import Outcome
    from datapipe_local.engine.record_reader import Candidate
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import ReverseEtlSync

_AT_A_TIME = 1_000
#: Digest of records that should not exist any more.
_GONE = ""
#: Digest of records whose content at the destination is unknown.
_UNKNOWN = "?"


class Ledger:
    """
    Record states of one sync, for one run.

    :param context: The service.
    :param sync: The sync.
    :param run_id: The run that sends.
    """

    def __init__(self, context: Context, sync: ReverseEtlSync, run_id: str) -> None:
        self._store = context.store
        self._sync_id = sync.id
        #: True if accepted records are never sent again, also if they change.
        self.only_inserts = sync.operation["mode"] == OperationName.INSERT
        self._run_id = run_id

    def due(self, batch: Sequence[Candidate]) -> list[Candidate]:
        """Return the records that the destination lacks, or has with other values."""
        ids = [candidate.record.record_id for candidate in batch]
        marks = ", ".join("?" * len(ids))
        known = {
            row["record_id"]: row
            for row in self._store.database.rows(
                "SELECT record_id, state, digest FROM reverse_etl_records"  # noqa: S608 - marks only
                f" WHERE sync_id = ? AND record_id IN ({marks})",
                self._sync_id,
                *ids,
            )
        }
        due: dict[str, Candidate] = {}
        for candidate in batch:
            before = known.get(candidate.record.record_id)
            if before is not None and before["state"] in (RecordState.SYNCED, RecordState.FAILED):
                only_new = self.only_inserts and before["state"] == RecordState.SYNCED
                if only_new or before["digest"] == candidate.digest:
                    continue
            # Different keys can have the same record ID, such as NaN and null.
            due.setdefault(candidate.record.record_id, candidate)
        return list(due.values())

    def sent(self, candidates: Sequence[Candidate], outcomes: Sequence[Outcome], checkpoint: str | None) -> None:
        """
        Store the results of sent records.

        A record that does not exist in the destination is forgotten, so that later runs send it again.

        :param checkpoint: The checkpoint of the destination.
        :raises RunError: the sync was deleted.
        """
        noted = [
            (
                self._sync_id,
                candidate.record.record_id,
                RecordState.SYNCED if outcome is None else RecordState.FAILED,
                candidate.digest,
                json.dumps(candidate.record.identity),
                outcome is None,
                outcome,
                self._run_id,
            )
            for candidate, outcome in zip(candidates, outcomes, strict=True)
            if outcome is not ABSENT
        ]
        absent = [
            candidate.record.record_id
            for candidate, outcome in zip(candidates, outcomes, strict=True)
            if outcome is ABSENT
        ]
        with self._store.transaction():
            self._save_checkpoint(checkpoint)
            self._store.database.run_many(
                "INSERT INTO reverse_etl_records"
                " (sync_id, record_id, state, digest, identity, present, error, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                # If a change is refused, the record is still present.
                " ON CONFLICT (sync_id, record_id) DO UPDATE SET state = excluded.state, digest = excluded.digest,"
                " identity = excluded.identity, present = max(present, excluded.present), error = excluded.error,"
                " run_id = excluded.run_id",
                noted,
            )
            self._forget(absent)

    def gone(self, present: Container[str]) -> Iterator[list[Record]]:
        """
        Yield the records that this sync has created and that its source no longer has.

        Failed records that are neither in the source nor in the destination are forgotten.

        :param present: The record IDs in the source.
        """
        # The empty text is a valid key.
        after, compare = "", ">="
        while rows := self._store.database.rows(
            "SELECT record_id, state, digest, identity, present FROM reverse_etl_records"  # noqa: S608 - as above
            f" WHERE sync_id = ? AND record_id {compare} ? ORDER BY record_id LIMIT ?",
            self._sync_id,
            after,
            _AT_A_TIME,
        ):
            after, compare = rows[-1]["record_id"], ">"
            left = [row for row in rows if row["state"] != RecordState.DELETED and row["record_id"] not in present]
            with self._store.transaction():
                self._forget([row["record_id"] for row in left if not row["present"]])
            due = [
                Record(row["record_id"], {}, json.loads(row["identity"]))
                for row in left
                # A refused deletion is not repeated until the record is reset.
                if row["present"] and (row["state"] != RecordState.FAILED or row["digest"] != _GONE)
            ]
            if due:
                yield due

    def deleted(self, records: Sequence[Record], outcomes: Sequence[Outcome], checkpoint: str | None) -> None:
        """
        Store the results of deletions.

        :param checkpoint: The checkpoint of the destination.
        :raises RunError: the sync was deleted.
        """
        with self._store.transaction():
            self._save_checkpoint(checkpoint)
            self._store.database.run_many(
                "UPDATE reverse_etl_records SET state = ?, digest = ?, present = ?, error = ?, run_id = ?"
                " WHERE sync_id = ? AND record_id = ?",
                [
                    (
                        RecordState.DELETED if outcome is None else RecordState.FAILED,
                        _GONE,
                        outcome is not None,
                        None
                        if outcome is None
                        else f"The source no longer has the record, and it could not be deleted: {outcome}",
                        self._run_id,
                        self._sync_id,
                        record.record_id,
                    )
                    for record, outcome in zip(records, outcomes, strict=True)
                ],
            )

    def mark_uncertain(self, records: Sequence[Record]) -> None:
        """Mark records as unknown at the destination, so that they are sent or deleted again."""
        self._store.database.run_many(
            "INSERT INTO reverse_etl_records (sync_id, record_id, state, digest, identity, present, run_id)"
            " VALUES (?, ?, ?, ?, ?, TRUE, '') ON CONFLICT (sync_id, record_id) DO UPDATE SET digest = excluded.digest,"
            " present = TRUE, state = CASE state WHEN ? THEN excluded.state ELSE state END",
            [
                (
                    self._sync_id,
                    record.record_id,
                    RecordState.SYNCED,
                    _UNKNOWN,
                    json.dumps(record.identity),
                    RecordState.DELETED,
                )
                for record in records
            ],
        )

    def counts(self) -> dict[str, int]:
        """Return the number of records of the run by result, also if several processes executed it."""
        by_state = {
            row["state"]: row["n"]
            for row in self._store.database.rows(
                "SELECT state, count(*) AS n FROM reverse_etl_records WHERE run_id = ? GROUP BY state", self._run_id
            )
        }
        synced = by_state.get(RecordState.SYNCED, 0) + by_state.get(RecordState.DELETED, 0)
        failed = by_state.get(RecordState.FAILED, 0) + by_state.get(RecordState.RESET, 0)
        return {"new_rows": synced + failed, "synced_rows": synced, "failed_rows": failed}

    def _save_checkpoint(self, checkpoint: str | None) -> None:
        if self._store.reverse_etl_sync_runs.get(self._run_id) is None:
            raise RunError("The reverse ETL sync was deleted while it was running.")
        if checkpoint is not None:
            self._store.reverse_etl_sync_runs.update(self._run_id, checkpoint=checkpoint)

    def _forget(self, record_ids: Sequence[str]) -> None:
        self._store.database.run_many(
            "DELETE FROM reverse_etl_records WHERE sync_id = ? AND record_id = ?",
            [(self._sync_id, record_id) for record_id in record_ids],
        )
