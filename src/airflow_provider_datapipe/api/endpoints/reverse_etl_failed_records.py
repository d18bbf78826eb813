"""Records that the destination of a reverse ETL sync rejected."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.reverse_etl_syncs import FailedRecordCount, FailedRecords, RetryRecordsRequest
from airflow_provider_datapipe.api.request import NO_CONTENT, Repeat


@endpoint("GET", "/reverse_etl_failed_records", answer=FailedRecords, repeat=Repeat.READ)
def list_(reverse_etl_sync_id: str, *, limit: int | None = None) -> None:
    """
    List unresolved record errors. The list has no cursor: at most 100 are accessible.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :param limit: maximum number of records, 1 to 100 (service default: 10).
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("GET", "/reverse_etl_failed_records/count", answer=FailedRecordCount, repeat=Repeat.READ)
def count(reverse_etl_sync_id: str) -> None:
    """
    Count unresolved record errors.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint(
    "POST", "/reverse_etl_failed_records/retry", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT, body=RetryRecordsRequest
)
def retry(reverse_etl_sync_id: str, *, record_ids: Sequence[str]) -> None:
    """
    Mark the listed records to be resent by the next run. This does not start a run.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :param record_ids: IDs of the records.
    :raises NotFoundError: the sync does not exist.
    """


@endpoint("POST", "/reverse_etl_failed_records/retry_all", answer=NO_CONTENT, repeat=Repeat.IDEMPOTENT)
def retry_all(reverse_etl_sync_id: str) -> None:
    """
    Mark all failed records to be resent by the next run. This does not start a run.

    :param reverse_etl_sync_id: ID of the reverse ETL sync.
    :raises NotFoundError: the sync does not exist.
    """
