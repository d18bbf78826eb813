"""Runs of ELT streams: loads of source data into a warehouse table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.models.elt_syncs import FullSyncTrigger, OperationMode
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.sources.base import Need
from datapipe_local.services import elt_stream_sources, elt_streams, elt_syncs, elt_tables, jobs, load_plan
from datapipe_local.storage.clock import later
from datapipe_local.storage.records import EltStreamRun
from datapipe_local.warehouse.loading import protection
from datapipe_local.warehouse.loading.columns import ColumnsError
from datapipe_local.warehouse.loading.incremental import OutdatedError
from datapipe_local.warehouse.loading.load_options import Run
from datapipe_local.warehouse.loading.table_loader import LoadFacts, Slice, TableLoader
from datapipe_local.warehouse.statements import StructureError, WarehouseStorageError
from datapipe_local.warehouse.warehouse import Place, Scan, WarehouseError

if TYPE_CHECKING:
    from datapipe_local.connectors.sources.base import Fetched
    from datapipe_local.engine.stop import Stop
    from datapipe_local.services.context import Context
    from datapipe_local.storage.records import EltStream, EltSync, Job
    from datapipe_local.warehouse.loading.incremental import Newest
    from datapipe_local.warehouse.loading.load_options import Note

#: Setting: the number of rows per run of a first load.
SLICE_SETTING = "first_load_slice_rows"


class Loaded(NamedTuple):
    """
    Result of a run.

    :param rows: The number of loaded rows.
    :param size: The number of bytes read at the source.
    :param mode: The actual mode, if it differs from the planned one.
    :param trigger: The actual reason for a full load, if it differs from the planned one.
    :param is_slice: The load continues in another run.
    :param rows_so_far: The number of rows in the table, during a first load in slices.
    """

    rows: int
    size: int
    mode: str | None = None
    trigger: str | None = None
    is_slice: bool = False
    rows_so_far: int = 0


class _Task(NamedTuple):
    """Run of a stream, and its target table."""

    job: Job
    stream: EltStream
    sync: EltSync
    run: EltStreamRun
    place: Place


class StreamLoader:
    """
    Executor of stream runs: full loads, first loads in slices of limited size, and incremental loads.

    Each run changes the table in one transaction. A killed process leaves the table unchanged or completely loaded, and
    the next process continues the same run.

    :param context: The service.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loader = TableLoader(context.warehouse)

    def begin(self, job: Job) -> None:
        """Record the run, and reset a full refresh request that it fulfills."""
        store, clock = self._context.store, self._context.clock
        with store.transaction():
            if not jobs.is_pending(self._context, job):
                return
            stream = elt_streams.get(self._context, job.subject_id)
            run_id = elt_streams.runs(self._context).next_id(stream.id, clock.now())
            plan = load_plan.plan(self._context, stream)
            store.elt_stream_runs.insert(
                EltStreamRun(
                    id=str(run_id),
                    elt_sync_id=stream.elt_sync_id,
                    elt_stream_id=stream.id,
                    started_at=run_id.started_at,
                    status=EltStreamRunStatus.RUNNING,
                    full_sync_trigger=plan.trigger,
                    operation_mode=plan.mode,
                )
            )
            # Later slices belong to a load that started before the refresh was requested.
            if stream.full_refresh_requested and not stream.rows_so_far:
                store.elt_streams.update(stream.id, full_refresh_requested=False)
            jobs.begin(
                self._context, job, str(run_id), later(clock.now(), self._context.minimum_duration_of(stream.id))
            )

    def work(self, job: Job, stop: Stop) -> Loaded | None:
        """
        Load the stream.

        :return: None if the stream was deleted in the meantime.
        :raises RunError: the source cannot be read or loaded.
        """
        stop.check()
        with self._context.warehouse.working_on(job.seq):
            result = self._work(job)
            if result is not None and not result.is_slice:
                self._note_parts(job)
            return result

    def finish(self, job: Job, result: Loaded | None, error: str | None) -> None:
        """Record the outcome of the run."""
        with self._context.store.transaction():
            is_pending = jobs.is_pending(self._context, job)
            if is_pending:
                self._finish(job, result, error)
        if not is_pending:
            # The stream was deleted with its runs, and its table may have to be removed.
            elt_tables.drop_marked_tables(self._context)

    def _work(self, job: Job) -> Loaded | None:
        outcome = self._context.run_overrides.outcome(job.subject_id, job.key)
        if outcome.error is not None:
            raise RunError(outcome.error)
        with self._context.store.transaction():
            if not jobs.is_pending(self._context, job):
                return None
            stream = elt_streams.get(self._context, job.subject_id)
            sync = elt_syncs.get(self._context, stream.elt_sync_id)
            run = self._context.store.elt_stream_runs.existing(str(job.run_id))
        if outcome.is_slice:
            return Loaded(0, 0, is_slice=True, rows_so_far=stream.rows_so_far)
        place = Place(sync.destination_schema_name, stream.name)
        if stream.rows_so_far:
            return self._load_next_slice(job, stream, run, place)
        noted = self._noted(place)
        if noted is not None and noted.run == run.id:
            # An earlier process loaded the table, and was killed before it recorded that in the store.
            return Loaded(noted.rows, noted.size, noted.mode, noted.trigger)
        task = _Task(job, stream, sync, run, place)
        try:
            return self._read(task, run.operation_mode, run.full_sync_trigger)
        except OutdatedError:
            # Only new rows were read. Read all of them.
            return self._read(task, OperationMode.FULL, FullSyncTrigger.SCHEMA_CHANGE)

    def _finish(self, job: Job, result: Loaded | None, error: str | None) -> None:
        store, now = self._context.store, self._context.clock.now()
        run = store.elt_stream_runs.existing(str(job.run_id))
        is_slice = result is not None and result.is_slice
        ended = EltStreamRunStatus.CHUNK_COMPLETED if is_slice else EltStreamRunStatus.COMPLETED
        store.elt_stream_runs.update(
            run.id,
            status=EltStreamRunStatus.FAILED if result is None else ended,
            finished_at=max(now, run.started_at),
            rows_synced=0 if result is None else result.rows,
            bytes_synced=0 if result is None else result.size,
            error_message=error,
            **_corrections(result),
        )
        stream = elt_streams.get(self._context, run.elt_stream_id)
        rows_so_far = 0 if result is None else result.rows_so_far
        # A failed load in slices starts again; until then the stream counts as not loaded.
        was_undone = result is None and stream.rows_so_far > 0
        is_loaded = result is not None and (not is_slice or rows_so_far > 0)
        store.elt_streams.update(
            stream.id, rows_so_far=rows_so_far, loaded=is_loaded or (stream.loaded and not was_undone)
        )
        if run.full_sync_trigger == FullSyncTrigger.USER and not is_loaded:
            # The run did not fulfill the request for a full refresh: the next run has to.
            store.elt_streams.update(run.elt_stream_id, full_refresh_requested=True)
        elif result is not None and not is_slice and not stream.full_refresh_requested:
            store.elt_streams.update(run.elt_stream_id, history_reset_requested=False)
        if is_slice:
            jobs.requeue(self._context, job)
        else:
            jobs.end(self._context, job, failed=result is None)

    def _read(self, task: _Task, mode: str, trigger: str) -> Loaded | None:
        """
        Read the source and load its rows.

        :raises OutdatedError: a full load is needed, but only new rows were read.
        """
        warehouse, options = self._context.warehouse, elt_stream_sources.load_options_of(task.stream)
        try:
            since = None if mode == OperationMode.FULL else self._loader.newest_pointer(task.place, options)
            need = Need(options.selection.excluded, since, check=warehouse.check, interruptible=warehouse.interruptible)
            with elt_stream_sources.opened(self._context, task.sync, task.stream.origin, need) as fetched:
                try:
                    return self._load(task, mode, trigger, fetched, None if fetched.is_whole else since)
                except WarehouseError as error:
                    raise RunError(_reason(fetched, task, error)) from error
        except WarehouseError as error:
            raise RunError(f"Cannot load {task.place}: {error}.") from error

    def _load(self, task: _Task, mode: str, trigger: str, fetched: Fetched, since: Newest | None) -> Loaded | None:
        _, stream, _, run, place = task
        slice_rows: int | None = self._context.store.setting(SLICE_SETTING, None)
        loader, options = self._loader, elt_stream_sources.load_options_of(stream)
        with elt_tables.locked(self._context, place):
            if not self._claim(task.job, stream, place):
                return None
            if mode != OperationMode.FULL:
                try:
                    facts = _load_facts(stream, run, fetched.size, mode, trigger)
                    rows = loader.load_new_rows(place, fetched.scan, options, facts, since=since)
                    return Loaded(rows, fetched.size, mode, trigger)
                except OutdatedError as error:
                    if stream.protected_from_full_sync:
                        raise RunError(
                            f"{place} needs a full refresh, and is protected from it: {error}."
                            " Set `protected_from_full_sync` to false for one run."
                        ) from error
                    if not fetched.is_whole:
                        raise
                    mode, trigger = OperationMode.FULL, FullSyncTrigger.SCHEMA_CHANGE
            facts = _load_facts(stream, run, fetched.size, mode, trigger)
            if slice_rows is None or stream.loaded:
                return Loaded(loader.load_all_rows(place, fetched.scan, options, facts), fetched.size, mode, trigger)
            return _loaded(loader.load_first_slice(place, fetched.scan, slice_rows, options, facts), 0, fetched.size)

    def _load_next_slice(self, job: Job, stream: EltStream, run: EltStreamRun, place: Place) -> Loaded | None:
        with elt_tables.locked(self._context, place):
            if not self._claim(job, stream, place):
                return None
            # If the limit was removed in the meantime, the rest is one slice.
            size: int | None = self._context.store.setting(SLICE_SETTING, None)
            facts = _load_facts(stream, run, 0, run.operation_mode, run.full_sync_trigger)
            try:
                added = self._loader.load_next_slice(
                    place, stream.rows_so_far, size, elt_stream_sources.load_options_of(stream), facts
                )
            except WarehouseError as error:
                raise RunError(
                    f"Cannot continue the load of {place}: {error}. Request another run: it starts again."
                ) from error
        return _loaded(added, stream.rows_so_far, 0)

    def _noted(self, place: Place) -> Note | None:
        try:
            return self._loader.last_load(place)
        except WarehouseError as error:
            raise RunError(f"Cannot load {place}: {error}.") from error

    def _note_parts(self, job: Job) -> None:
        """Record the tables beside the stream's table, so that queries can name them and deletions remove them."""
        with self._context.store.transaction():
            if not jobs.is_pending(self._context, job):
                return
            stream = elt_streams.get(self._context, job.subject_id)
            sync = elt_syncs.get(self._context, stream.elt_sync_id)
        try:
            parts = self._loader.related_tables(Place(sync.destination_schema_name, stream.name))
        except WarehouseError as error:
            raise RunError(f"Cannot read the tables that belong to the stream: {error}.") from error
        with self._context.store.transaction():
            if jobs.is_pending(self._context, job):
                elt_tables.note_parts(self._context, sync.id, stream.id, parts)

    def _claim(self, job: Job, stream: EltStream, place: Place) -> bool:
        """Record that the table will exist. Return False if the stream was deleted."""
        with self._context.store.transaction():
            is_pending = jobs.is_pending(self._context, job)
            if is_pending:
                elt_tables.note(self._context, stream.elt_sync_id, place)
        return is_pending


def _load_facts(stream: EltStream, run: EltStreamRun, size: int, mode: str, trigger: str) -> LoadFacts:
    resets = stream.history_reset_requested and trigger == FullSyncTrigger.USER
    accepts_columns = trigger in (FullSyncTrigger.USER, FullSyncTrigger.INITIAL_SYNC)
    return LoadFacts(
        Run(run.id, run.started_at.removesuffix("Z"), resets), size, str(mode), str(trigger), accepts_columns
    )


def _corrections(result: Loaded | None) -> dict[str, str]:
    """Return the run fields that differ from the plan."""
    if result is None:
        return {}
    changes = {"operation_mode": result.mode, "full_sync_trigger": result.trigger}
    return {name: value for name, value in changes.items() if value is not None}


def _loaded(added: Slice, before: int, size: int) -> Loaded:
    return Loaded(added.rows, size, is_slice=not added.is_last, rows_so_far=0 if added.is_last else before + added.rows)


def _reason(fetched: Fetched, task: _Task, error: WarehouseError) -> str:
    place = task.place
    reason = protection.without_values(error) if elt_stream_sources.selection_of(task.stream).protected else str(error)
    if isinstance(error, ColumnsError | WarehouseStorageError) or not isinstance(fetched.scan, Scan):
        return f"Cannot load {fetched.name} into {place}: {reason}."
    # The reader sees an unpacked copy; the user knows the declared file.
    for path in fetched.scan.paths:
        reason = reason.replace(str(path), fetched.name)
    if isinstance(error, StructureError):
        return f"Cannot load {fetched.name} into {place}: {reason}."
    return f"Cannot load {fetched.name} into {place}: {reason}. Correct the file, or the stream's `options`."
