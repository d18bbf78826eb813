"""Creation of custom reports in bulk, with a separate result for each report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, TypedDict

from airflow_provider_datapipe.api.endpoints import custom_reports, elt_streams, elt_syncs
from airflow_provider_datapipe.api.errors import (
    DatapipeError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TransportError,
)
from airflow_provider_datapipe.api.models.custom_reports import CustomReport, CustomReportErrorCode
from airflow_provider_datapipe.flows import list_all, send, sleep
from airflow_provider_datapipe.resources.template_values import choice, flag, mappings, texts
from airflow_provider_datapipe.runs.task_state import TaskState

#: Seconds until the second search for reports whose creation request got no response.
_SECOND_POLL = 3
_LISTED = 5
_RECORD = "datapipe.custom_reports"


class CustomReportError(DatapipeError):
    """Custom reports were not created."""


class ReportResult(TypedDict):
    """
    Result of one report.

    :ivar action: ``created``, ``failed``, or ``none`` if the report exists already.
    :ivar error: reason of the failure: ``error_code`` and ``message``.
    """

    elt_sync_id: str
    name: str
    source_stream_name: str | None
    action: str
    error: dict[str, str] | None


class ReportsResult(TypedDict):
    """
    Result of the creation of custom reports, as JSON.

    :ivar reports: a result for each report, in order.
    :ivar created: number of created reports.
    :ivar failed: number of failed reports.
    """

    reports: list[ReportResult]
    created: int
    failed: int


async def create(reports: Any, *, add_as_source_stream: Any, if_exists: str, records: TaskState) -> ReportsResult:
    """
    Create the reports that do not exist yet.

    The interface cannot list reports. Reports of an earlier try are found in the task state, and other reports by the
    name of their stream, which is derived from the name of the report.

    :param if_exists: ``keep`` an existing report with the same name, or ``create`` another one.
    :raises ValueError: if two reports have the same sync and name.
    """
    choice("if_exists", if_exists, ("keep", "create"))
    as_stream = flag("add_as_source_stream", add_as_source_stream)
    given = mappings("reports", reports)
    # Validate all reports before the first request.
    body: Any = custom_reports.create(reports=given, add_as_source_stream=as_stream).body
    wanted: tuple[CustomReport, ...] = body.reports
    _refuse_duplicates(wanted)
    done: dict[str, str | None] = dict(records.get(_RECORD) or {})
    results: list[ReportResult | None] = [
        _result(one, "none", done[_key(one)]) if _key(one) in done else None for one in wanted
    ]
    if if_exists == "keep":
        unknown = {one.elt_sync_id for one, result in zip(wanted, results, strict=True) if result is None}
        existing = await _existing_streams(unknown, as_stream=as_stream)
        for place, one in enumerate(wanted):
            name = existing.get(one.elt_sync_id, {}).get(_letters(one.name))
            if results[place] is None and name is not None:
                results[place] = _result(one, "none", name)
    missing = [place for place, result in enumerate(results) if result is None]
    if missing:
        new = await _created([wanted[place] for place in missing], as_stream=as_stream, if_exists=if_exists)
        for place, result in zip(missing, new, strict=True):
            results[place] = result
            if result["action"] == "created":
                done[_key(wanted[place])] = result["source_stream_name"]
        records.set(_RECORD, done)
    reported = [result for result in results if result is not None]
    return ReportsResult(
        reports=reported,
        created=sum(result["action"] == "created" for result in reported),
        failed=sum(result["action"] == "failed" for result in reported),
    )


def settle(records: TaskState, *, succeeded: bool) -> None:
    """Close the stored task state: retries read it, but a task that is cleared after its success starts without it."""
    if succeeded:
        records.close(_RECORD)


def error_of(result: ReportsResult, *, on_partial_failure: str, tolerated_errors: Any) -> CustomReportError | None:
    """
    Return the error of the task; None if it succeeds.

    :param on_partial_failure: ``fail``, or ``succeed`` if at least one report exists.
    :param tolerated_errors: error codes that do not fail the task.
    """
    tolerated = check_policy(on_partial_failure, tolerated_errors)
    failed = [one for one in result["reports"] if one["error"] and one["error"]["error_code"] not in tolerated]
    some_exist = any(one["action"] != "failed" for one in result["reports"])
    if not failed or (on_partial_failure == "succeed" and some_exist):
        return None
    reported = " | ".join(_describe(one) for one in failed[:_LISTED]) + (" | ..." if len(failed) > _LISTED else "")
    return CustomReportError(f"{len(failed)} of {len(result['reports'])} custom reports were not created: {reported}")


def check_policy(on_partial_failure: str, tolerated_errors: Any) -> list[str]:
    """
    Return the tolerated error codes. Check the failure policy before any request is sent.

    :raises ValueError: if a value is not allowed.
    """
    choice("on_partial_failure", on_partial_failure, ("fail", "succeed"))
    codes = texts("tolerated_errors", tolerated_errors)
    for code in codes:
        choice("tolerated_errors", code, tuple(str(one) for one in CustomReportErrorCode))
    return codes


def _describe(one: ReportResult) -> str:
    error = one["error"] or {}
    return f"{one['name']!r} of ELT sync {one['elt_sync_id']}: {error.get('error_code')}: {error.get('message')}"


async def _created(wanted: Sequence[CustomReport], *, as_stream: bool, if_exists: str) -> list[ReportResult]:
    request = custom_reports.create(reports=wanted, add_as_source_stream=as_stream)
    try:
        answer = await send(request)
    except (TransportError, ServerError) as error:
        if (isinstance(error, TransportError) and not error.sent) or if_exists == "create":
            raise
        # The service may have created them, and may show them only after a while.
        for pause in (0.0, _SECOND_POLL):
            if pause:
                await sleep(pause)
            existing = await _existing_streams({one.elt_sync_id for one in wanted}, as_stream=as_stream)
            names = [existing.get(one.elt_sync_id, {}).get(_letters(one.name)) for one in wanted]
            if all(names):
                return [_result(one, "created", name) for one, name in zip(wanted, names, strict=True)]
        raise
    if len(answer.results) != len(wanted):
        raise ProtocolError(f"{request.label} returned {len(answer.results)} results for {len(wanted)} reports.")
    results = []
    for one, reported in zip(wanted, answer.results, strict=True):
        refused = None
        if reported.error is not None:
            refused = {"error_code": str(reported.error.error_code), "message": reported.error.message}
        results.append(_result(one, "failed" if refused else "created", reported.source_stream_name, refused))
    return results


async def _existing_streams(sync_ids: set[str], *, as_stream: bool) -> dict[str, dict[str, str]]:
    """Return for each sync the names of streams that may belong to a report, by their normalized names."""
    existing = {}
    for sync_id in sorted(sync_ids):
        try:
            names = [stream.name for stream in await list_all(elt_streams.list_(elt_sync_id=sync_id))]
            if not as_stream:
                # Without as_stream, reports are only source streams. With it, a source stream may be an unrelated
                # table.
                names += [one.name for one in await list_all(elt_syncs.available_source_streams(sync_id))]
        except NotFoundError:
            # The response of the creation reports the missing sync, for each report.
            continue
        existing[sync_id] = {_letters(name): name for name in names}
    return existing


def _refuse_duplicates(wanted: Sequence[CustomReport]) -> None:
    seen = set()
    for one in wanted:
        if (which := (one.elt_sync_id, _letters(one.name))) in seen:
            raise ValueError(f"reports: {one.name!r} of ELT sync {one.elt_sync_id} occurs more than once")
        seen.add(which)


def _letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case. Services derive stream names in different ways."""
    return re.sub(r"[\W_]+", "", name).casefold()


def _key(report: CustomReport) -> str:
    query = hashlib.sha256(report.query.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{report.elt_sync_id}/{query}/{report.name}"


def _result(report: CustomReport, action: str, stream: str | None, error: dict[str, str] | None = None) -> ReportResult:
    return ReportResult(
        elt_sync_id=report.elt_sync_id, name=report.name, source_stream_name=stream, action=action, error=error
    )
