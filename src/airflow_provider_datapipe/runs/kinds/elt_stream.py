"""Runs of ELT streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import elt_stream_runs, elt_streams, elt_syncs
from airflow_provider_datapipe.api.models.common import RunRequested, parse_optional_timestamp
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRun, EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import StreamSnapshot
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.status_url import status_url_after
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.kinds.base import ScheduledKind
from airflow_provider_datapipe.runs.models import RunRef, RunResult, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome

#: Seconds by which the start of a run may differ between the run and the status of its sync.
_START_TOLERANCE = 1.0


class EltStreamKind(ScheduledKind):
    """Runs of ELT streams. Option: ``full_refresh``."""

    name = "elt_stream"
    noun = "ELT stream"
    owner_field = "elt_stream_id"
    _list_runs = staticmethod(elt_stream_runs.list_)
    _get_run = staticmethod(elt_stream_runs.get)

    @override
    def prepare(self, target: RunTarget) -> Iterator[Request[Any]]:
        if target.options.get("full_refresh"):
            yield elt_streams.request_full_refresh(target.resource_id)

    @override
    def undo_prepare(self, target: RunTarget) -> Iterator[Request[Any]]:
        if target.options.get("full_refresh"):
            yield elt_streams.cancel_full_refresh(target.resource_id)

    @override
    def needs_own_run(self, target: RunTarget) -> bool:
        return bool(target.options.get("full_refresh"))

    @override
    def request(self, target: RunTarget) -> Request[RunRequested]:
        return elt_streams.request_run(target.resource_id)

    @override
    def read(self, reference: RunRef, answer: Any) -> RunState:
        state = super().read(reference, answer)
        result = state.result
        if result is None or result["status"] != EltStreamRunStatus.CHUNK_COMPLETED:
            return state
        # The slice has finished, and the load continues in the next run.
        following = replace(
            state.reference,
            run_id=None,
            status_url=status_url_after(self._list_runs(reference.resource_id), state.reference.run_id),
            rows_before=result["rows_synced"] or 0,
        )
        return RunState(following, Outcome.RUNNING, result)

    @override
    async def explain(self, state: RunState) -> str | None:
        # Runs have no error message. The status of the sync has one, under the name of the stream.
        stream = await send(elt_streams.get(state.reference.resource_id))
        status = await send(elt_syncs.status(stream.elt_sync_id))
        for snapshots in status.source_streams:
            latest = snapshots.latest_sync
            if snapshots.name == stream.name and latest and _is_of(latest, state.result):
                return latest.error_message
        return None

    @override
    async def disable(self, reference: RunRef) -> str | None:
        sync_id = reference.sync_id
        if sync_id is None:
            sync_id = (await send(elt_streams.get(reference.resource_id))).elt_sync_id
        await send(elt_syncs.disable(sync_id))
        return f"ELT sync {sync_id} was disabled"

    @override
    def _details(self, reference: RunRef, run: EltStreamRun) -> dict[str, Any]:
        rows = run.rows_synced
        return {"rows_synced": (rows or 0) + reference.rows_before if reference.rows_before else rows}


def _is_of(snapshot: StreamSnapshot, result: RunResult | None) -> bool:
    """Return True if a snapshot, which has no run ID, may show a run: its start time matches."""
    started = parse_optional_timestamp(result["started_at"]) if result else None
    if started is None or snapshot.started_at is None:
        return True
    # The status can have whole seconds, while runs have milliseconds.
    return abs((snapshot.started_at - started).total_seconds()) <= _START_TOLERANCE
