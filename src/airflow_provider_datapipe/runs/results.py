"""Results and errors of a task for the outcomes of its waits."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_datapipe.api.errors import DatapipeError, one_line
from airflow_provider_datapipe.flows import send
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
from airflow_provider_datapipe.runs.kinds.base import result_of_run
from airflow_provider_datapipe.runs.log_lines.labels import resource_label
from airflow_provider_datapipe.runs.models import RunResult, RunState
from airflow_provider_datapipe.runs.outcome import Outcome, is_success
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason

#: The most failed records in a message.
QUOTED_RECORDS = 3
#: Error of a run that was not started because the wait for another run ended for this reason.
_ERRORS_OF_CAUSES: dict[WaitOutcomeReason | None, type[RunError]] = {
    WaitOutcomeReason.TIMEOUT: RunTimeoutError,
    WaitOutcomeReason.LOST_CONTACT: LostContactError,
}
_MAY_BE_ACTIVE = "The run may still be active: check it in the service before this task runs again."


def build_run_result(end: WaitOutcome) -> RunResult:
    """Return the result of a run for any outcome."""
    known = end.result or result_of_run(end.reference, end.outcome, status=None)
    error = known["error"] or end.detail
    return RunResult(**{**known, "error": None if error is None else one_line(error)})


async def explain(end: WaitOutcome, *, most_records: int = QUOTED_RECORDS) -> WaitOutcome:
    """
    Return the outcome with details of the service: the reason of a failure, and failed records.

    If the deadline passed before the first poll (for example, while no triggerer was running), poll once. If a request
    for details fails, the outcome is returned without them.

    :param end: the outcome.
    :param most_records: the most failed records to request; 0 for none.
    """
    if end.reason is WaitOutcomeReason.TIMEOUT and end.result is None:
        end = await _last_poll(end)
    ended_badly = end.reason is WaitOutcomeReason.RUN_OVER and end.outcome is not Outcome.SUCCEEDED
    if not ended_badly or end.result is None or end.detail is not None or end.records:
        return end
    state = RunState(end.reference, end.outcome, end.result)
    kind = KINDS[end.reference.kind]
    try:
        if most_records:
            end = replace(end, records=await kind.failed_records(state, most_records))
        if end.result and not end.result["error"]:
            end = replace(end, detail=_quoted(end.records) or await kind.explain(state))
    except DatapipeError:
        return end
    return end


def _quoted(records: list[dict[str, str]]) -> str | None:
    quoted = "; ".join(f"record {one['record_id']}: {one['error']}" for one in records[:QUOTED_RECORDS])
    return f"for example {quoted}" if quoted else None


async def _last_poll(end: WaitOutcome) -> WaitOutcome:
    kind = KINDS[end.reference.kind]
    try:
        state = kind.read(end.reference, await send(replace(kind.poll_request(end.reference), once=True)))
    except DatapipeError:
        return end
    reason = WaitOutcomeReason.RUN_OVER if state.outcome.is_over else end.reason
    return replace(end, reason=reason, reference=state.reference, outcome=state.outcome, result=state.result)


def exception_for(
    end: WaitOutcome, *, max_failed_rows: int = 0, retries_failed_records: bool = False
) -> RunError | None:
    """
    Return the error of a run, None if it counts as a success.

    The first line of its message is the cause, the others have the details.

    :param end: the outcome.
    :param max_failed_rows: the most rows that may fail in a run that otherwise succeeded.
    :param retries_failed_records: True if the run also sends the failed records of earlier runs.
    """
    result = build_run_result(end)
    what = resource_label(end.reference, with_id=True)
    run = f"\nRun: {result['run_id']}" if result["run_id"] else ""
    if end.reason is WaitOutcomeReason.SKIPPED:
        return None
    if end.reason is not WaitOutcomeReason.RUN_OVER:
        return _unfinished(end, what, run)
    if is_success(end.outcome, result["rows_failed"], max_failed_rows=max_failed_rows):
        return None
    error: RunError
    match end.outcome:
        case Outcome.PARTIAL:
            error = _partial(result, what, run, max_failed_rows, retries=retries_failed_records)
        case Outcome.CANCELED:
            error = RunCanceledError(f"{what}: the run was canceled in the service{_reason(result)}.{run}")
        case Outcome.FAILED:
            reason = _reason(result) or ".\nThe service reports no reason: check the run in the service"
            error = RunFailedError(f"{what}: the run failed{reason}.{run}")
        case _:
            error = RunUnknownError(
                f"{what}: the run ended with the unknown status {result['status']!r}, which does not count as "
                f"success.{run}\nCheck the run in the service, and check for a newer version of the provider."
            )
    return error


def _partial(result: RunResult, what: str, run: str, allowed: int, *, retries: bool) -> RunError:
    again = "run this task again" if retries else "run this task again with retry_failed_records=True"
    return RunPartialError(
        f"{what}: {_count(result['rows_failed'])} of {_count(result['rows_total'])} rows failed, {allowed} are allowed"
        f"{_reason(result)}.{run}\nCorrect the failed records, then {again}."
    )


def _unfinished(end: WaitOutcome, what: str, run: str) -> RunError:
    detail = (end.detail or "").rstrip(".")
    if end.reason is WaitOutcomeReason.TIMEOUT:
        return RunTimeoutError(f"{what}: the run did not end in time; it is {end.outcome}.{run}\n{_MAY_BE_ACTIVE}")
    if end.reason is WaitOutcomeReason.NOT_SCHEDULED:
        return RunNotScheduledError(
            f"{what}: a run was requested, but none was scheduled {detail}.\nCheck the schedule of its source in the "
            "service; a run may still start."
        )
    if end.reason is WaitOutcomeReason.LOST_CONTACT:
        return LostContactError(f"{what}: contact with the service was lost {detail}.{run}\n{_MAY_BE_ACTIVE}")
    if end.reason is WaitOutcomeReason.VANISHED:
        return RunVanishedError(
            f"{what}: the service no longer knows the run.{run}\nIt returned {detail}.\nCheck that the run was not "
            "deleted in the service, and that the connection belongs to the right account."
        )
    return _ERRORS_OF_CAUSES.get(end.cause, RunError)(f"{what}: the service did not start a run: {detail}.")


def _reason(result: RunResult) -> str:
    return f": {result['error'].rstrip('.')}" if result["error"] else ""


def _count(number: float | None) -> str:
    return "an unknown number" if number is None else f"{number:,}"
