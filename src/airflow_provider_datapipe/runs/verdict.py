"""What an end means for the task that waited for it."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_datapipe.api.errors import DatapipeError, one_line
from airflow_provider_datapipe.runs.errors import (
    LostContactError,
    RunCanceledError,
    RunError,
    RunFailedError,
    RunNotScheduledError,
    RunPartialError,
    RunTimeoutError,
    RunUnknownError,
    RunVanishedError,
)
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Observation, RunResult
from airflow_provider_datapipe.runs.steps import Steps, ask
from airflow_provider_datapipe.runs.wait import End, EndReason

#: How many failed records are quoted in a message.
QUOTED_RECORDS = 3
_GOES_ON = "The run may still be going: look at it in the service before this task is run again."


def result_of(end: End) -> RunResult:
    """Give what is known of a run, whatever its end."""
    reference = end.reference
    known = end.result or RunResult(
        kind=reference.kind,
        resource_id=reference.resource_id,
        name=reference.name,
        run_id=reference.run_id,
        status=None,
        outcome=str(end.outcome),
        started_at=None,
        finished_at=None,
        duration=None,
        rows_synced=None,
        rows_failed=None,
        rows_total=None,
        attached=reference.attached,
        error=None,
    )
    error = known["error"] or end.detail
    return RunResult(**{**known, "error": None if error is None else one_line(error)})


def explain(end: End, *, most_records: int = QUOTED_RECORDS) -> Steps[End]:
    """
    Ask the service why a run ended as it did, where the run itself does not say so, and which records failed.

    A run that nobody could look at before the time was over, as while no triggerer ran, is looked at. What can't be
    asked stays unsaid: the end itself is known.

    :param end: how the wait ended.
    :param most_records: the most records to ask for; 0 for none.
    """
    if end.reason is EndReason.TIMEOUT and end.result is None:
        end = yield from _last_look(end)
    ended_badly = end.reason is EndReason.RUN_OVER and end.outcome is not Outcome.SUCCEEDED
    if not ended_badly or end.result is None or end.detail is not None or end.records:
        return end
    seen = Observation(end.reference, end.outcome, end.result)
    kind = KINDS[end.reference.kind]
    try:
        if most_records:
            end = replace(end, records=(yield from kind.failed_records(seen, most_records)))
        if end.result and not end.result["error"]:
            end = replace(end, detail=_quoted(end.records) or (yield from kind.explain(seen)))
    except DatapipeError:
        return end
    return end


def _quoted(records: list[dict[str, str]]) -> str | None:
    quoted = "; ".join(f"record {one['record_id']}: {one['error']}" for one in records[:QUOTED_RECORDS])
    return f"for example {quoted}" if quoted else None


def _last_look(end: End) -> Steps[End]:
    kind = KINDS[end.reference.kind]
    try:
        seen = kind.read(end.reference, (yield from ask(replace(kind.look(end.reference), once=True))))
    except DatapipeError:
        return end
    reason = EndReason.RUN_OVER if seen.outcome.is_over else end.reason
    return replace(end, reason=reason, reference=seen.reference, outcome=seen.outcome, result=seen.result)


def error_of(end: End, *, max_failed_rows: int = 0) -> RunError | None:
    """
    Give the error that an end is, or None if it is a success.

    :param end: how the wait ended.
    :param max_failed_rows: how many rows may fail in a run that otherwise completed.
    """
    result = result_of(end)
    what = f"{KINDS[end.reference.kind].noun} {end.reference.name}"
    if end.reference.name != end.reference.resource_id:
        what += f" ({end.reference.resource_id})"
    run = f"run {result['run_id']}" if result["run_id"] else "the run"
    if end.reason is EndReason.SKIPPED:
        return None
    if end.reason is not EndReason.RUN_OVER:
        return _unfinished(end, what, run)
    match end.outcome:
        case Outcome.SUCCEEDED:
            error = None
        case Outcome.PARTIAL:
            error = _partial(result, what, run, max_failed_rows)
        case Outcome.CANCELED:
            error = RunCanceledError(f"{what}: {run} was canceled in the service{_reason(result)}.")
        case Outcome.FAILED:
            reason = _reason(result) or "; the service gives no reason: look there"
            error = RunFailedError(f"{what}: {run} failed{reason}.")
        case _:
            error = RunUnknownError(
                f"{what}: {run} ended with the status {result['status']!r}, which this version of the provider does "
                "not know, so it is not taken for success. Look at the run in the service."
            )
    return error


def _partial(result: RunResult, what: str, run: str, allowed: int) -> RunError | None:
    failed = result["rows_failed"]
    if failed is not None and failed <= allowed:
        return None
    return RunPartialError(
        f"{what}: {run} completed, but {_count(failed)} of {_count(result['rows_total'])} rows failed, "
        f"{allowed} are allowed{_reason(result)}. Look at its failed records, mend them, then run this task again "
        "with retry_failed_records."
    )


def _unfinished(end: End, what: str, run: str) -> RunError:
    detail = (end.detail or "").rstrip(".")
    if end.reason is EndReason.TIMEOUT:
        return RunTimeoutError(f"{what}: {run} did not end in time; it is {end.outcome}. {_GOES_ON}")
    if end.reason is EndReason.NOT_SCHEDULED:
        return RunNotScheduledError(
            f"{what}: a run was requested, but none was scheduled {detail}. Look at the schedule of its source in the "
            "service; a run may still begin."
        )
    if end.reason is EndReason.LOST_CONTACT:
        return LostContactError(f"{what}: contact with the service was lost {detail}. {_GOES_ON}")
    if end.reason is EndReason.VANISHED:
        return RunVanishedError(
            f"{what}: the service no longer knows {run}: {detail}. Look whether it was deleted in the service, and "
            "whether the connection names the right account."
        )
    return RunFailedError(f"{what}: the service refused to start a run: {detail}.")


def _reason(result: RunResult) -> str:
    return f": {result['error'].rstrip('.')}" if result["error"] else ""


def _count(number: float | None) -> str:
    return "an unknown number" if number is None else f"{number:,}"
