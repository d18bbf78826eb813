"""Runs of ELT streams: a source's data becomes a table of the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import FullSyncTrigger, OperationMode
from datapipe_local.clock import later
from datapipe_local.errors import RunError
from datapipe_local.loads import Loads, Slice, Stored
from datapipe_local.service import elt_streams, elt_syncs, elt_tables, jobs, readings
from datapipe_local.store.records import EltStreamRun
from datapipe_local.warehouse import Place, WarehouseError

if TYPE_CHECKING:
    from datapipe_local.engine.stop import Stop
    from datapipe_local.service.context import Context
    from datapipe_local.service.readings import Reading
    from datapipe_local.store.records import EltStream, Job

#: The setting that says how many rows of a first load go in one run.
SLICE_SETTING = "first_load_slice_rows"


class Loaded(NamedTuple):
    """
    What a run has moved.

    :param rows: How many rows.
    :param size: How many bytes were read at the source.
    :param is_slice: Another run follows, which goes on.
    :param rows_so_far: How many rows of a first load in slices the table has then.
    """

    rows: int
    size: int
    is_slice: bool = False
    rows_so_far: int = 0


class StreamLoader:
    """
    Loads streams, each as a whole; a first load in slices, if it has more rows than one of them.

    What a run does to the table is one transaction: a process that is killed leaves the table as it was, or has done
    all of it, and the next process carries on the same run.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def begin(self, job: Job) -> None:
        """Note the run, and that it is the one that the full refresh was asked for."""
        store, clock = self._context.store, self._context.clock
        with store.transaction():
            if not jobs.is_owed(self._context, job):
                return
            stream = elt_streams.get(self._context, job.subject_id)
            run_id = elt_streams.runs(self._context).next_id(stream.id, clock.now())
            store.elt_stream_runs.insert(
                EltStreamRun(
                    id=str(run_id),
                    elt_sync_id=stream.elt_sync_id,
                    elt_stream_id=stream.id,
                    started_at=run_id.started_at,
                    status=EltStreamRunStatus.RUNNING,
                    full_sync_trigger=self._trigger(stream),
                    operation_mode=OperationMode.FULL,
                )
            )
            # A slice that follows belongs to the load that has begun before the refresh was asked for.
            if stream.full_refresh_requested and not stream.rows_so_far:
                store.elt_streams.update(stream.id, full_refresh_requested=False)
            jobs.begin(
                self._context, job, str(run_id), later(clock.now(), self._context.minimum_duration_of(stream.id))
            )

    def work(self, job: Job, stop: Stop) -> Loaded | None:
        """
        Load the stream.

        :return: None if the stream was deleted in the meantime.
        :raises RunError: its data cannot be had or read.
        """
        stop.check()
        with self._context.warehouse.working_on(job.seq):
            return self._work(job)

    def finish(self, job: Job, result: Loaded | None, error: str | None) -> None:
        """Note what was loaded, or why not."""
        with self._context.store.transaction():
            is_owed = jobs.is_owed(self._context, job)
            if is_owed:
                self._finish(job, result, error)
        if not is_owed:
            # The stream was deleted, and its runs with it: perhaps its table was to go, too.
            elt_tables.drop_doomed(self._context)

    def _work(self, job: Job) -> Loaded | None:
        outcome = self._context.script.outcome(job.subject_id, job.key)
        if outcome.error is not None:
            raise RunError(outcome.error)
        with self._context.store.transaction():
            if not jobs.is_owed(self._context, job):
                return None
            stream = elt_streams.get(self._context, job.subject_id)
            sync = elt_syncs.get(self._context, stream.elt_sync_id)
        if outcome.is_slice:
            return Loaded(0, 0, is_slice=True, rows_so_far=stream.rows_so_far)
        place = Place(sync.destination_schema_name, stream.name)
        if stream.rows_so_far:
            return self._go_on(job, stream, place)
        with readings.opened(self._context, sync, stream.origin) as reading:
            try:
                return self._load(job, stream, place, reading)
            except WarehouseError as error:
                raise RunError(_reason(reading, place, error)) from error

    def _finish(self, job: Job, result: Loaded | None, error: str | None) -> None:
        store, now = self._context.store, self._context.clock.now()
        run = elt_streams.runs(self._context).get(str(job.run_id))
        is_slice = result is not None and result.is_slice
        ended = EltStreamRunStatus.CHUNK_COMPLETED if is_slice else EltStreamRunStatus.COMPLETED
        store.elt_stream_runs.update(
            run.id,
            status=EltStreamRunStatus.FAILED if result is None else ended,
            finished_at=max(now, run.started_at),
            rows_synced=0 if result is None else result.rows,
            bytes_synced=0 if result is None else result.size,
            error_message=error,
        )
        stream = elt_streams.get(self._context, run.elt_stream_id)
        rows_so_far = 0 if result is None else result.rows_so_far
        # A load in slices that fails begins again; until then it is as if it had not begun.
        was_undone = result is None and stream.rows_so_far > 0
        is_loaded = result is not None and (not is_slice or rows_so_far > 0)
        store.elt_streams.update(
            stream.id, rows_so_far=rows_so_far, loaded=is_loaded or (stream.loaded and not was_undone)
        )
        if run.full_sync_trigger == FullSyncTrigger.USER and not is_loaded:
            # What was asked for has not happened: it is the next run's.
            store.elt_streams.update(run.elt_stream_id, full_refresh_requested=True)
        if is_slice:
            jobs.go_on(self._context, job)
        else:
            jobs.end(self._context, job, failed=result is None)

    def _load(self, job: Job, stream: EltStream, place: Place, reading: Reading) -> Loaded | None:
        slice_rows: int | None = self._context.store.setting(SLICE_SETTING, None)
        loads, selection = Loads(self._context.warehouse), readings.selection_of(stream)
        with elt_tables.held(self._context, place):
            if not self._claim(job, stream, place):
                return None
            if slice_rows is None or stream.loaded:
                return Loaded(loads.whole(place, reading.readable, selection), reading.size)
            return _loaded(loads.first_slice(place, reading.readable, slice_rows, selection), 0, reading.size)

    def _go_on(self, job: Job, stream: EltStream, place: Place) -> Loaded | None:
        with elt_tables.held(self._context, place):
            if not self._claim(job, stream, place):
                return None
            # Without a bound by now, all that is left is one slice.
            size: int | None = self._context.store.setting(SLICE_SETTING, None)
            try:
                added = Loads(self._context.warehouse).next_slice(place, stream.rows_so_far, size)
            except WarehouseError as error:
                raise RunError(
                    f"Cannot go on loading {place}: {error}. Ask for another run: it begins again."
                ) from error
        return _loaded(added, stream.rows_so_far, 0)

    def _trigger(self, stream: EltStream) -> FullSyncTrigger:
        last = elt_streams.runs(self._context).last(stream.id) if stream.rows_so_far else None
        if last is not None:
            return FullSyncTrigger(last.full_sync_trigger)
        if stream.full_refresh_requested:
            return FullSyncTrigger.USER
        if not stream.loaded:
            return FullSyncTrigger.INITIAL_SYNC
        return FullSyncTrigger.ALWAYS_FULL if stream.full_sync_always else FullSyncTrigger.NONE

    def _claim(self, job: Job, stream: EltStream, place: Place) -> bool:
        """Note that the table is going to be there, unless the stream is not any more."""
        with self._context.store.transaction():
            is_owed = jobs.is_owed(self._context, job)
            if is_owed:
                elt_tables.note(self._context, stream.elt_sync_id, place)
        return is_owed


def _loaded(added: Slice, before: int, size: int) -> Loaded:
    return Loaded(added.rows, size, is_slice=not added.is_last, rows_so_far=0 if added.is_last else before + added.rows)


def _reason(reading: Reading, place: Place, error: WarehouseError) -> str:
    if isinstance(reading.readable, Stored):
        return f"Cannot load {reading.name} into {place}: {error}."
    # The reader sees an unpacked copy; a person looks for the file that was declared.
    said = str(error).replace(str(reading.readable.path), reading.name)
    return f"Cannot load {reading.name} into {place}: {said}. Correct the file, or the stream's `options`."
