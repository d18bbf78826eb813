"""Records that reverse ETL destinations rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.services import reverse_etl_syncs
from datapipe_local.storage.records import RecordState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datapipe_local.services.context import Context


def failed(context: Context, sync_id: str, *, limit: int) -> list[tuple[str, str]]:
    """
    Return the IDs and errors of unresolved failed records, by ID.

    :raises NotFoundError: if the sync does not exist.
    """
    reverse_etl_syncs.get(context, sync_id)
    return [
        (row["record_id"], row["error"])
        for row in context.store.database.rows(
            "SELECT record_id, error FROM reverse_etl_records WHERE sync_id = ? AND state = ?"
            " ORDER BY record_id LIMIT ?",
            sync_id,
            RecordState.FAILED,
            limit,
        )
    ]


def count_failed(context: Context, sync_id: str) -> int:
    """
    Return the number of unresolved failed records.

    :raises NotFoundError: if the sync does not exist.
    """
    reverse_etl_syncs.get(context, sync_id)
    return int(
        context.store.database.value(
            "SELECT count(*) FROM reverse_etl_records WHERE sync_id = ? AND state = ?", sync_id, RecordState.FAILED
        )
    )


def retry(context: Context, sync_id: str, record_ids: Sequence[str] | None = None) -> None:
    """
    Reset failed records, so that the next run sends them again.

    IDs without an unresolved failure are ignored, because the failure may have been resolved in the meantime.

    :param context: Service context.
    :param sync_id: Sync.
    :param record_ids: IDs of the records, by default all failed records.
    :raises NotFoundError: if the sync does not exist.
    """
    with context.store.transaction():
        reverse_etl_syncs.get(context, sync_id)
        reset = "UPDATE reverse_etl_records SET state = ?, error = NULL WHERE sync_id = ? AND state = ?"
        if record_ids is None:
            context.store.database.run(reset, RecordState.RESET, sync_id, RecordState.FAILED)
        else:
            context.store.database.run_many(
                f"{reset} AND record_id = ?",
                [(RecordState.RESET, sync_id, RecordState.FAILED, record_id) for record_id in record_ids],
            )
