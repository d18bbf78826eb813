"""Runs of reverse ETL syncs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import reverse_etl_failed_records, reverse_etl_sync_runs, reverse_etl_syncs
from airflow_provider_datapipe.api.errors import one_line
from airflow_provider_datapipe.api.models.common import RunRequested
from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSyncRun
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.kinds.base import ScheduledKind
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget

#: The most characters of the ID and the error of a failed record.
_LONGEST_RECORD_ID = 200
_LONGEST_RECORD_ERROR = 1_800


class ReverseEtlKind(ScheduledKind):
    """Runs of reverse ETL syncs. Option: ``retry_failed_records``, True for all records or the IDs of some."""

    name = "reverse_etl"
    noun = "reverse ETL sync"
    owner_field = "reverse_etl_sync_id"
    _list_runs = staticmethod(reverse_etl_sync_runs.list_)
    _get_run = staticmethod(reverse_etl_sync_runs.get)

    @override
    def prepare(self, target: RunTarget) -> Iterator[Request[Any]]:
        records = target.options.get("retry_failed_records")
        if records is True:
            yield reverse_etl_failed_records.retry_all(target.resource_id)
        elif records:
            yield reverse_etl_failed_records.retry(target.resource_id, record_ids=records)

    @override
    def needs_own_run(self, target: RunTarget) -> bool:
        return bool(target.options.get("retry_failed_records"))

    @override
    def request(self, target: RunTarget) -> Request[RunRequested]:
        return reverse_etl_syncs.request_run(target.resource_id)

    @override
    async def failed_records(self, state: RunState, most: int) -> list[dict[str, str]]:
        result = state.result
        if not result or not result["rows_failed"]:
            return []
        listed = await send(reverse_etl_failed_records.list_(state.reference.resource_id, limit=most))
        return [
            {
                "record_id": one_line(record.record_id, longest=_LONGEST_RECORD_ID),
                "error": one_line(record.error, longest=_LONGEST_RECORD_ERROR),
            }
            for record in listed.data[:most]
        ]

    @override
    async def disable(self, reference: RunRef) -> str | None:
        await send(reverse_etl_syncs.deactivate(reference.resource_id))
        return f"reverse ETL sync {reference.resource_id} was deactivated"

    @override
    def _details(self, reference: RunRef, run: ReverseEtlSyncRun) -> dict[str, Any]:
        return {
            "rows_synced": run.synced_rows,
            "rows_failed": run.failed_rows,
            "rows_total": run.total_rows,
            "error": run.error,
        }
