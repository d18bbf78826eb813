"""Lines of the task log about the start and the outcome of runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_datapipe.runs.log_lines.labels import (
    resource_label,
    sentence_start,
    short_run_id,
    span,
    usual_duration,
)
from airflow_provider_datapipe.runs.models import RunRef, RunResult
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.results import build_run_result
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason

#: Verb of a successful run without a row count, by kind.
_VERBS = {
    "elt_stream": "was loaded",
    "orchestration": "succeeded",
    "transform": "was published",
    "reverse_etl": "succeeded",
    "query_preview": "finished",
}
_UNFINISHED = {
    WaitOutcomeReason.TIMEOUT: "did not finish in time",
    WaitOutcomeReason.NOT_SCHEDULED: "was requested, but not scheduled in time",
    WaitOutcomeReason.LOST_CONTACT: "may still be running: contact with the service was lost",
    WaitOutcomeReason.VANISHED: "is no longer known to the service",
    WaitOutcomeReason.NOT_STARTED: "was not started",
}
#: Seconds below which a duration has a decimal place.
_PRECISE = 10.0


def started_line(reference: RunRef) -> str:
    """Return the line for a run that the task begins to wait for."""
    active = ", which was active before this task" if reference.attached else ""
    usual = usual_duration(reference.durations)
    return f"Waiting for the run of {resource_label(reference)}{active}{f'; {usual}' if usual else ''}."


def result_line(end: WaitOutcome, *, verb: str | None = None, elapsed: float | None = None) -> str:
    """
    Return the line for the outcome of a run.

    :param end: the outcome.
    :param verb: verb of a successful run without a row count; None for that of the kind.
    :param elapsed: seconds that the task waited, for runs whose duration the service does not report.
    """
    result = build_run_result(end)
    seconds = elapsed if result["duration"] is None else result["duration"]
    reason = f": {result['error'].rstrip('.')}" if result["error"] else ""
    subject = sentence_start(resource_label(end.reference))
    run = f" (run {short_run_id(result['run_id'])})" if result["run_id"] else ""
    if end.reason is WaitOutcomeReason.SKIPPED:
        return f"{subject} was skipped{reason}."
    if end.reason is not WaitOutcomeReason.RUN_OVER:
        return f"{subject} {_UNFINISHED[end.reason]}{run}{reason}."
    rows = _rows(result)
    if end.outcome in (Outcome.SUCCEEDED, Outcome.PARTIAL):
        did = f": {rows}" if rows else f" {verb or _VERBS[end.reference.kind]}"
        failed = f", {round(result['rows_failed']):,} failed" if result["rows_failed"] else ""
        return f"{subject}{did}{_time('in', seconds)}{failed}{run}{reason}."
    did = {Outcome.FAILED: "failed", Outcome.CANCELED: "was canceled in the service"}.get(
        end.outcome, f"ended with the status {result['status']!r}"
    )
    return f"{subject} {did}{_time('after', seconds)}{run}{reason}."


def condition_lines(met: str, ends: Sequence[WaitOutcome]) -> list[str]:
    """
    Return the lines of a sensor whose condition is met.

    :param met: the state of the condition, for a condition about no run.
    :param ends: the outcomes of the runs that the condition is about.
    """
    return [result_line(end) for end in ends] or [f"{sentence_start(met)}."]


def records_lines(end: WaitOutcome) -> str:
    """Return the lines about the records that failed; empty if there are none."""
    if not end.records:
        return ""
    records = "".join(f"\n  {record['record_id']}: {record['error']}" for record in end.records)
    return f"First {len(end.records)} failed records of {resource_label(end.reference)}:{records}"


def _rows(result: RunResult) -> str:
    synced, total = result["rows_synced"], result["rows_total"]
    if synced is None:
        return ""
    of_all = f" of {round(total):,}" if result["rows_failed"] and total is not None else ""
    return f"{round(synced):,}{of_all} row{'' if synced == 1 and not of_all else 's'}"


def _time(word: str, seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f" {word} {seconds:.1f} s" if seconds < _PRECISE else f" {word} {span(seconds)}"
