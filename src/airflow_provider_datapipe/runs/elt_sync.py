"""Runs of an ELT sync: its streams, and the results and errors of all streams together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import elt_syncs
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.errors import RunConflictError, RunError, RunFailedError
from airflow_provider_datapipe.runs.models import RunResult, RunTarget
from airflow_provider_datapipe.runs.names import UnknownNameError, near_matches, streams_of
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.results import build_run_result, exception_for
from airflow_provider_datapipe.runs.task_state import TaskState, task_state_key
from airflow_provider_datapipe.runs.wait import WaitOutcome


class SyncResult(TypedDict):
    """
    Result of the runs of a sync.

    ``outcome``: ``succeeded``, ``partial`` (some streams failed), ``failed`` (all failed) or ``skipped`` (all were
    skipped).
    ``rows_synced``: number of rows of all streams.
    ``streams``: results of the streams by name.
    """

    sync_id: str
    outcome: str
    rows_synced: float
    streams: dict[str, RunResult]


async def targets_of_sync(
    sync_id: str, chosen: Sequence[str] | None, options: dict[str, Any], task_state: TaskState
) -> list[RunTarget]:
    """
    Return the streams of a sync, which is enabled, or whose runs were all started by an earlier try.

    :param sync_id: ID of the sync.
    :param chosen: names or IDs of the streams; None for all.
    :param options: options of each run.
    :param task_state: stored state of earlier tries of the task.
    :raises NotFoundError: if the sync does not exist.
    :raises RunError: if the sync is disabled and a new run is necessary, if it has no streams, or ``chosen`` is empty.
    :raises UnknownNameError: if the sync has no stream with one of the names.
    """
    sync = await send(elt_syncs.get(sync_id))
    targets = await streams_of_sync(sync_id, chosen, options)
    # With on_kill="disable", an earlier try has disabled the sync. Its runs continue.
    if not sync.enabled and not all(task_state.get(task_state_key("elt_stream", target)) for target in targets):
        raise RunConflictError(
            f"ELT sync {sync_id} is disabled, so its streams can't be run. Enable it in the service, or with "
            f"elt_syncs.enable({sync_id!r}), then run this task again."
        )
    return targets


async def streams_of_sync(sync_id: str, chosen: Sequence[str] | None, options: dict[str, Any]) -> list[RunTarget]:
    """
    Return the streams of a sync, which may be disabled.

    :param sync_id: ID of the sync.
    :param chosen: names or IDs of the streams; None for all.
    :param options: options of each run.
    :raises NotFoundError: if the sync does not exist.
    :raises RunError: if the sync has no streams, or ``chosen`` is empty.
    :raises UnknownNameError: if the sync has no stream with one of the names.
    """
    streams = await streams_of(sync_id)
    if not streams:
        raise RunError(f"ELT sync {sync_id} has no streams: add some in the service.")
    if chosen is not None:
        known = {stream.id: stream for stream in streams} | {stream.name: stream for stream in streams}
        if unknown := [name for name in chosen if name not in known]:
            near = sorted({match for name in unknown for match in near_matches(name, known)})
            hint = (
                f"Did you mean {' or '.join(near)}?"
                if near
                else f"It has {', '.join(sorted(s.name for s in streams))}."
            )
            raise UnknownNameError(f"ELT sync {sync_id} has no stream {', '.join(unknown)}. {hint}")
        # A stream can be listed twice, or by its name and its ID.
        streams = list({known[name].id: known[name] for name in chosen}.values())
        if not streams:
            raise RunError(f"No stream of ELT sync {sync_id} was chosen: name at least one, or omit streams for all.")
    return [RunTarget(stream.id, stream.name, options, sync_id) for stream in streams]


def result_of_sync(sync_id: str, ends: Sequence[WaitOutcome]) -> SyncResult:
    """Return the result of a sync from the outcomes of its streams."""
    results = [build_run_result(end) for end in ends]
    failed = sum(exception_for(end) is not None for end in ends)
    if not failed:
        skipped = all(end.outcome is Outcome.SKIPPED for end in ends)
        outcome = Outcome.SKIPPED if skipped else Outcome.SUCCEEDED
    else:
        outcome = Outcome.FAILED if failed == len(ends) else Outcome.PARTIAL
    return SyncResult(
        sync_id=sync_id,
        outcome=str(outcome),
        rows_synced=sum(result["rows_synced"] or 0 for result in results),
        streams={result["name"]: result for result in results},
    )


def error_of_sync(sync_id: str, ends: Sequence[WaitOutcome]) -> RunError | None:
    """Return one error for all failed streams, None if no stream failed."""
    errors = [error for end in ends if (error := exception_for(end))]
    if not errors:
        return None
    details = "\n".join(map(str, errors)).replace("\n", "\n  ")
    message = f"ELT sync {sync_id}: {len(errors)} of {len(ends)} streams failed:\n  {details}"
    # Class of the error: a failed run comes first, then the other errors of waits, then runs that did not start.
    kinds = [type(error) for error in errors if type(error) is not RunError] or [RunError]
    return (RunFailedError if any(issubclass(kind, RunFailedError) for kind in kinds) else kinds[0])(message)
