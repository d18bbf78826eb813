"""An ELT sync as a batch of the runs of its streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import elt_streams, elt_syncs
from airflow_provider_datapipe.runs.errors import RunConflictError, RunError, RunFailedError
from airflow_provider_datapipe.runs.names import UnknownNameError, near_matches
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import RunResult, Target
from airflow_provider_datapipe.runs.steps import Steps, ask, ask_all
from airflow_provider_datapipe.runs.verdict import error_of, result_of
from airflow_provider_datapipe.runs.wait import End, EndReason


class SyncResult(TypedDict):
    """
    What the run of a sync came to.

    ``outcome``: ``succeeded``, ``partial`` (some streams failed), ``failed`` (all did) or ``skipped`` (all were).
    ``rows_synced``: rows of all streams.
    ``streams``: one result for each stream, by its name.
    """

    sync_id: str
    outcome: str
    rows_synced: float
    streams: dict[str, RunResult]


def targets_of_sync(sync_id: str, chosen: Sequence[str] | None, options: dict[str, Any]) -> Steps[list[Target]]:
    """
    Find the streams of a sync.

    :param sync_id: id of the sync.
    :param chosen: names or ids of the streams; None for all.
    :param options: what each run takes.
    :raises NotFoundError: there is no such sync.
    :raises RunError: the sync does not run, has no streams, or none was chosen.
    :raises UnknownNameError: it has none of that name.
    """
    sync = yield from ask(elt_syncs.get(sync_id))
    if not sync.enabled:
        raise RunConflictError(
            f"ELT sync {sync_id} is disabled, so its streams can't be run. Enable it in the service, or with "
            f"elt_syncs.enable({sync_id!r}), then run this task again."
        )
    return (yield from streams_of_sync(sync_id, chosen, options))


def streams_of_sync(sync_id: str, chosen: Sequence[str] | None, options: dict[str, Any]) -> Steps[list[Target]]:
    """
    Find the streams of a sync, whether or not it is enabled.

    :param sync_id: id of the sync.
    :param chosen: names or ids of the streams; None for all.
    :param options: what each run takes.
    :raises RunError: the sync has no streams, or none was chosen.
    :raises UnknownNameError: it has none of that name.
    """
    streams = yield from ask_all(elt_streams.list_(elt_sync_id=sync_id))
    if not streams:
        raise RunError(f"ELT sync {sync_id} has no streams: add some in the service.")
    if chosen is not None:
        known = {stream.id: stream for stream in streams} | {stream.name: stream for stream in streams}
        if unknown := [name for name in chosen if name not in known]:
            near = sorted({match for name in unknown for match in near_matches(name, known)})
            hint = (
                f"Was {' or '.join(near)} meant?" if near else f"It has {', '.join(sorted(s.name for s in streams))}."
            )
            raise UnknownNameError(f"ELT sync {sync_id} has no stream {', '.join(unknown)}. {hint}")
        # A name given twice, or beside its id, is one stream.
        streams = list({known[name].id: known[name] for name in chosen}.values())
        if not streams:
            raise RunError(f"No stream of ELT sync {sync_id} was chosen: name some, or leave streams out for all.")
    return [Target(stream.id, stream.name, options, sync_id) for stream in streams]


def result_of_sync(sync_id: str, ends: Sequence[End]) -> SyncResult:
    """Put the results of the streams together."""
    results = [result_of(end) for end in ends]
    failed = sum(error_of(end) is not None for end in ends)
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


def error_of_sync(sync_id: str, ends: Sequence[End]) -> RunError | None:
    """Put the errors of the streams together, or give None if all succeeded."""
    errors = [(end, error) for end in ends if (error := error_of(end))]
    if not errors:
        return None
    told = " | ".join(str(error) for _, error in errors)
    message = f"ELT sync {sync_id}: {len(errors)} of {len(ends)} streams failed: {told}"
    # A run that failed counts for more than one that was only lost sight of, and that for more than one never started.
    kinds = [type(error) for end, error in errors if end.reason is not EndReason.NOT_STARTED] or [RunError]
    return (RunFailedError if any(issubclass(kind, RunFailedError) for kind in kinds) else kinds[0])(message)
