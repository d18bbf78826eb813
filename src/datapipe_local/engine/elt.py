"""Runs of ELT streams: a source's data becomes a table of the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import FullSyncTrigger, OperationMode
from datapipe_local import sources
from datapipe_local.clock import later
from datapipe_local.errors import RunError
from datapipe_local.loads import Loads
from datapipe_local.service import connections, elt_streams, elt_syncs, jobs
from datapipe_local.store.records import EltStreamRun
from datapipe_local.warehouse import Place, WarehouseError

if TYPE_CHECKING:
    from pathlib import Path

    from datapipe_local.engine.stop import Stop
    from datapipe_local.service.context import Context
    from datapipe_local.store.records import EltStream, Job


class Loaded(NamedTuple):
    """What a run has moved."""

    rows: int
    size: int
    is_slice: bool = False


class StreamLoader:
    """
    Loads streams, each as a whole.

    A load is one statement: a process that is killed leaves the table as it was, and the next process loads it
    for the same run.

    :param context: The service.
    :param scratch: A folder for files that are needed on the way.
    """

    def __init__(self, context: Context, scratch: Path) -> None:
        self._context = context
        self._scratch = scratch

    def begin(self, job: Job) -> None:
        """Note the run, and that it is the one that the full refresh was asked for."""
        store, clock = self._context.store, self._context.clock
        with store.transaction():
            stream = elt_streams.get(self._context, job.subject_id)
            run_id = elt_streams.runs(self._context).next_id(stream.id, clock.now())
            store.elt_stream_runs.insert(
                EltStreamRun(
                    id=str(run_id),
                    elt_sync_id=stream.elt_sync_id,
                    elt_stream_id=stream.id,
                    started_at=run_id.started_at,
                    status=EltStreamRunStatus.RUNNING,
                    full_sync_trigger=_trigger(stream),
                    operation_mode=OperationMode.FULL,
                )
            )
            if stream.full_refresh_requested:
                store.elt_streams.update(stream.id, full_refresh_requested=False)
            jobs.begin(
                self._context, job, str(run_id), later(clock.now(), self._context.minimum_duration_of(stream.id))
            )

    def work(self, job: Job, stop: Stop) -> Loaded:
        """
        Load the stream.

        :raises RunError: its data cannot be had or read.
        """
        stop.check()
        outcome = self._context.script.outcome(job.subject_id, job.key)
        if outcome.error is not None:
            raise RunError(outcome.error)
        if outcome.is_slice:
            return Loaded(0, 0, is_slice=True)
        stream = elt_streams.get(self._context, job.subject_id)
        sync = elt_syncs.get(self._context, stream.elt_sync_id)
        source = sources.connect(connections.get(self._context, sync.connection_id), self._context.store)
        place = Place(sync.destination_schema_name, stream.name)
        with source.fetch(stream.origin, self._scratch) as fetched:
            try:
                return Loaded(Loads(self._context.warehouse).whole(place, fetched.scan), fetched.size)
            except WarehouseError as error:
                # The reader sees an unpacked copy; a person looks for the file that was declared.
                said = str(error).replace(str(fetched.scan.path), fetched.name)
                raise RunError(
                    f"Cannot load {fetched.name} into {place}: {said}. Correct the file, or the stream's `options`."
                ) from error

    def finish(self, job: Job, result: Loaded | None, error: str | None) -> None:
        """Note what was loaded, or why not."""
        store, now = self._context.store, self._context.clock.now()
        with store.transaction():
            run = elt_streams.runs(self._context).get(str(job.run_id))
            failed = result is None
            is_slice = result is not None and result.is_slice
            ended = EltStreamRunStatus.CHUNK_COMPLETED if is_slice else EltStreamRunStatus.COMPLETED
            store.elt_stream_runs.update(
                run.id,
                status=EltStreamRunStatus.FAILED if failed else ended,
                finished_at=max(now, run.started_at),
                rows_synced=0 if result is None else result.rows,
                bytes_synced=0 if result is None else result.size,
                error_message=error,
            )
            if not failed and not is_slice:
                store.elt_streams.update(run.elt_stream_id, loaded=True)
            elif run.full_sync_trigger == FullSyncTrigger.USER:
                # What was asked for has not happened: it is the next run's.
                store.elt_streams.update(run.elt_stream_id, full_refresh_requested=True)
            if is_slice:
                jobs.go_on(self._context, job)
            else:
                jobs.end(self._context, job, failed=failed)


def _trigger(stream: EltStream) -> FullSyncTrigger:
    if stream.full_refresh_requested:
        return FullSyncTrigger.USER
    if not stream.loaded:
        return FullSyncTrigger.INITIAL_SYNC
    return FullSyncTrigger.ALWAYS_FULL if stream.full_sync_always else FullSyncTrigger.NONE
