"""Receipts of committed batches in the destination database, so that no row is inserted twice."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.connectors.destinations.base import Progress, Record

#: Name of the receipts table.
TABLE = "datapipe_local_receipts"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (sync_id VARCHAR(100) PRIMARY KEY, number INTEGER NOT NULL,"
    " last_batch TEXT NOT NULL, before TEXT NOT NULL)"
)


class Receipts:
    """
    Receipt of one sync: the records of the last committed batch, written in its transaction.

    The service stores the number of the receipt together with the results of the records. If the process is killed in
    between, the continued run finds a receipt with a higher number than the stored one: its records were written. The
    same holds for the next run if the connection broke during a COMMIT. A record that is not sent again at once stays
    in the receipt until it is.

    :param connection: A connection without an open transaction.
    :param sync_id: The sync.
    :param progress: The progress of this run and of earlier runs, with the stored numbers.
    """

    def __init__(self, connection: sa.Connection, sync_id: str, progress: Progress) -> None:
        self._connection = connection
        self._sync_id = sync_id
        with connection.begin():
            connection.execute(sa.text(_CREATE))
            row = connection.execute(
                sa.text(f"SELECT number, last_batch, before FROM {TABLE} WHERE sync_id = :id"),  # noqa: S608 - a fixed name
                {"id": sync_id},
            ).one_or_none()
        self._number = 0 if row is None else int(row[0])
        self._taken: set[str] = set()
        checkpoint = progress.before if progress.checkpoint is None else progress.checkpoint
        if row is not None and checkpoint is not None:
            self._taken.update(json.loads(row[2]))
            if self._number > int(checkpoint):
                self._taken.update(json.loads(row[1]))
        # Never return a number before the results of its batch are stored. The receipts table may also have been
        # emptied.
        self._noted = self._number if checkpoint is None else min(self._number, int(checkpoint))

    @property
    def number(self) -> str:
        """The number to store with the results of the last batch."""
        return str(self._noted)

    def has(self, record: Record) -> bool:
        """Return True if a record was written, but its result was not stored."""
        return _digest(record) in self._taken

    def write(self, records: Sequence[Record]) -> None:
        """Write the receipt of records in the open transaction."""
        batch = [_digest(record) for record in records]
        self._taken.difference_update(batch)
        values = {
            "id": self._sync_id,
            "number": self._number + 1,
            "last": json.dumps(batch),
            "before": json.dumps(sorted(self._taken)),
        }
        self._connection.execute(
            sa.text(
                f"INSERT INTO {TABLE} (sync_id, number, last_batch, before) VALUES (:id, :number, :last, :before)"  # noqa: S608 - a fixed name
                " ON CONFLICT (sync_id) DO UPDATE SET number = excluded.number, last_batch = excluded.last_batch,"
                " before = excluded.before"
            ),
            values,
        )

    def committed(self) -> None:
        """Count the receipt after its transaction was committed."""
        self._number += 1
        self._noted = self._number


def _digest(record: Record) -> str:
    text = json.dumps([record.record_id, record.properties], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
