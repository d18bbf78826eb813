"""
Search in the run history, for example for the first run that started or ended at or after a time. Pure: no I/O.

The first run after a time depends only on this time and the history, not on the time of the poll. So a backfill finds
the run of its own data interval, and a retry finds the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from airflow_provider_datapipe.api.models.common import Page, known_time
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.paging import LARGEST_PAGE, SeenPages
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.kinds import Kind
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome

#: Earlier times are invalid: some services write the zero value of their programming language for a missing time.
FIRST_TIME = datetime(1970, 1, 2, tzinfo=UTC)
#: Tolerance for the due time of a run that is not planned for later, because the clocks of worker and service differ.
_DUE_TOLERANCE = timedelta(minutes=1)


class RunTime(StrEnum):
    """Time of a run that counts."""

    START = "start"
    END = "end"


def parse_time(name: str, value: object) -> datetime:
    """
    Return the time for an argument: a datetime with a time zone, or its ISO 8601 text, as templates render it.

    :param name: name of the argument, for the message.
    :param value: the argument.
    :raises ValueError: if the value is not a time, or has no time zone.
    """
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{name} is not a time: {value!r}. Use an ISO 8601 time with its offset, such as "
                "'2026-01-31T00:00:00+00:00', or check the result of its template."
            ) from None
    if not isinstance(moment, datetime):
        raise ValueError(f"{name} must be a time or its ISO 8601 text, not {value!r}")  # noqa: TRY004 - ValueError, as for every invalid argument
    if moment.utcoffset() is None:
        raise ValueError(
            f"{name} has no time zone: {value!r}. Add the offset, as in '2026-01-31T00:00:00+00:00'; of templates, "
            "{{ data_interval_end }} has one, {{ ds }} has none."
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{name} is out of range: {value!r}") from None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """
    A run of a list, or a load that consists of several runs.

    :param state: state of the run, or of the last run of the load.
    :param started: start time; None if it has not started.
    :param finished: end time; None if it has not ended.
    :param due: time at which it is due; None if not known.
    """

    state: RunState
    started: datetime | None
    finished: datetime | None
    due: datetime | None = None

    @classmethod
    def of(cls, state: RunState) -> RunRecord:
        """Return the record of a run."""
        result = state.result
        if result is None:
            return cls(state, None, None)
        # The start time of a planned run is the time for which it is planned.
        is_planned = state.outcome is Outcome.SCHEDULED
        return cls(state, None if is_planned else _time(result["started_at"]), _time(result["finished_at"]))

    def is_active(self, now: datetime) -> bool:
        """
        Return True if the run is running, or due and not started yet. A run that is planned for later is not.

        :param now: current time.
        """
        if self.is_over:
            return False
        return self.started is not None or (self.due is not None and self.due <= now + _DUE_TOLERANCE)

    @property
    def run_id(self) -> str | None:
        """ID of the run."""
        return self.state.result["run_id"] if self.state.result else None

    @property
    def is_slice(self) -> bool:
        """True if the run has finished, and its load continues in the next run."""
        result = self.state.result
        return result is not None and result["status"] == EltStreamRunStatus.CHUNK_COMPLETED

    @property
    def is_over(self) -> bool:
        """True if the run has finished."""
        return self.state.outcome.is_over

    def ended_by(self, latest: datetime) -> datetime | None:
        """
        Return the earliest possible end time: the end time if it is plausible, otherwise the start time.

        :param latest: the last plausible time.
        """
        is_plausible = self.finished is not None and self.finished <= latest
        return self.finished if is_plausible else self.started

    @property
    def succeeded(self) -> bool:
        """True if the run has succeeded."""
        return self.state.outcome is Outcome.SUCCEEDED


@dataclass(frozen=True, slots=True)
class RunFilter:
    """
    Rule for the runs that count.

    :param moment: the time.
    :param moment_of: time of a run that has to be at or after ``moment``.
    :param succeeded: True to ignore runs that ended without success.
    """

    moment: datetime
    moment_of: RunTime = RunTime.START
    succeeded: bool = False

    def counts(self, load: RunRecord) -> bool:
        """Return True if a load counts, or may count when it has started or ended."""
        time = self.time_of(load)
        if time is None and load.state.outcome is not Outcome.CANCELED:
            # Without a start time, use the end time, except for a canceled run, which may not have started.
            time = load.finished
        if load.is_over if time is None else time < self.moment:
            return False
        return load.succeeded or not (self.succeeded and load.is_over)

    def time_of(self, load: RunRecord) -> datetime | None:
        """Return the time of a load that has to be at or after ``moment``, None if it is not known."""
        if self.moment_of is RunTime.START:
            return load.started
        # The load did not end before it started.
        return load.started if load.finished is None and load.is_over else load.finished

    def is_before(self, run: RunRecord) -> bool:
        """Return True if a run is so old that the runs before it cannot count."""
        time = run.started if self.moment_of is RunTime.START else run.finished
        return time is not None and time < self.moment


def loads(runs: Sequence[RunRecord]) -> Iterator[RunRecord]:
    """
    Yield the loads of runs. A load in slices starts with its first run, and ends with its last one.

    :param runs: the runs, oldest first.
    """
    begun: datetime | None = None
    is_open = False
    for run in runs:
        begun = begun if is_open else run.started
        is_open = run.is_slice
        if not is_open:
            yield replace(run, started=begun)
    if is_open:
        yield replace(runs[-1], started=begun, finished=None)


def first_of(runs: Sequence[RunRecord], rule: RunFilter, *, may_overlap: bool = False) -> RunRecord | None:
    """
    Return the first load that counts, None if there is none.

    :param runs: the runs, oldest first, without a gap.
    :param rule: rule for the runs that count.
    :param may_overlap: True if runs can overlap, so that the order of the list differs from that of their times.
    """
    counting = [load for load in loads(runs) if rule.counts(load)]
    if not may_overlap:
        # A planned run follows the started runs, regardless of its position in the list.
        return next((load for load in counting if load.started is not None), counting[0] if counting else None)
    never = datetime.max.replace(tzinfo=UTC)
    return min(counting, key=lambda load: rule.time_of(load) or never, default=None)


class _PageIterator:
    """Iterator over the pages of a list of runs, from one of its ends."""

    def __init__(self, kind: Kind, target: RunTarget, request: Request[Page[Any]]) -> None:
        self._kind = kind
        self._reference = RunRef.to(kind.name, target, attached=True)
        self._following: Request[Page[Any]] | None = request
        self._seen_pages = SeenPages()
        #: Runs of all pages that were read, in the order of the list.
        self.seen: list[RunRecord] = []
        #: Runs of the last page.
        self.page: list[RunRecord] = []

    @property
    def is_over(self) -> bool:
        """True if there is no further page."""
        return self._following is None

    async def step(self) -> None:
        """Read the next page."""
        if self._following is None:
            return
        request = self._following
        answer = await send(request)
        self.page = [replace(RunRecord.of(self._kind.read(self._reference, run)), due=_due(run)) for run in answer.data]
        self.seen += self.page
        # Further pages are large, and the client retries them, so that one lost response does not discard the others.
        wider = replace(request.with_query(limit=LARGEST_PAGE), once=False)
        self._following = self._seen_pages.after(wider, answer)


async def newest_back_to(kind: Kind, target: RunTarget, rule: RunFilter) -> list[RunRecord]:
    """
    Return the runs, newest first, as far back as the rule requires.

    :param kind: the kind of run.
    :param target: the resource.
    :param rule: rule for the runs that count.
    """
    pages = _PageIterator(kind, target, replace(kind.newest(target.resource_id), once=True))
    while not pages.is_over:
        await pages.step()
        if _reaches_back(kind, rule, pages):
            break
    return pages.seen


async def last_over(kind: Kind, target: RunTarget, latest: datetime) -> RunRecord | None:
    """
    Return the run that ended last, None if no run has ended.

    :param kind: the kind of run.
    :param target: the resource.
    :param latest: the last plausible time. Later end times are ignored.
    """
    pages = _newest_first(kind, target)
    while not pages.is_over:
        await pages.step()
        if last := _last_ended(kind, pages, latest):
            return last
    return None


async def newest_of(kind: Kind, target: RunTarget, now: datetime, latest: datetime) -> RunRecord | None:
    """
    Return the newest run: the active one, or the one that finished last. Runs that are planned for later do not count.

    :param kind: the kind of run.
    :param target: the resource.
    :param now: current time.
    :param latest: see :func:`last_over`.
    """
    pages = _newest_first(kind, target)
    while not pages.is_over:
        await pages.step()
        seen = list(loads(pages.seen[::-1]))
        last_start = max((load.started for load in seen if load.started), default=FIRST_TIME)
        # A run that was due before another one started was not executed.
        active = [load for load in seen if load.is_active(now) and (load.started or load.due or latest) >= last_start]
        newest = max(active, key=lambda load: load.started or load.due or latest, default=None)
        newest = newest or _last_ended(kind, pages, latest)
        if newest:
            return newest
    return None


def _due(run: Any) -> datetime | None:
    return known_time(getattr(run, "due_at", None) or run.started_at)


def _newest_first(kind: Kind, target: RunTarget) -> _PageIterator:
    request = replace(kind.newest(target.resource_id), once=True)
    # If runs overlap, the run that ended last may not be the first one of the list, so read a large page.
    return _PageIterator(kind, target, request.with_query(limit=LARGEST_PAGE) if kind.may_overlap else request)


def _last_ended(kind: Kind, pages: _PageIterator, latest: datetime) -> RunRecord | None:
    over = [load for load in loads(pages.seen[::-1]) if load.is_over]
    if not kind.may_overlap:
        return over[-1] if over else None
    # Ignore runs that were canceled before they began.
    begun = [load for load in over if load.ended_by(latest) or load.state.outcome is not Outcome.CANCELED]
    return max(begun, key=lambda load: load.ended_by(latest) or FIRST_TIME, default=None)


async def first_after(kind: Kind, target: RunTarget, rule: RunFilter) -> tuple[RunRecord | None, RunRecord | None]:
    """
    Return the first run that counts and the newest run, each None if there is none.

    The list is read from both ends in turn, so that few pages suffice for a time long ago as well as for a recent one.

    :param kind: the kind of run.
    :param target: the resource.
    :param rule: rule for the runs that count.
    """
    late = _PageIterator(kind, target, replace(kind.newest(target.resource_id), once=True))
    oldest_first = kind.oldest_first(target.resource_id)
    early = None if oldest_first is None else _PageIterator(kind, target, oldest_first)
    while True:
        await late.step()
        newest = late.seen[0] if late.seen else None
        if late.is_over or _reaches_back(kind, rule, late):
            return first_of(late.seen[::-1], rule, may_overlap=kind.may_overlap), newest
        if early is None:
            continue
        await early.step()
        found = first_of(early.seen, rule)
        if early.is_over:
            return found, newest
        # If the last run so far is a slice, the load may end on the next page.
        if found is not None and found.started is not None and not found.is_slice:
            return found, newest
        known = {run.run_id for run in late.seen}
        if any(run.run_id in known for run in early.page):
            shown = {run.run_id for run in early.seen}
            rest = [run for run in late.seen[::-1] if run.run_id not in shown]
            return first_of([*early.seen, *rest], rule), newest


def _reaches_back(kind: Kind, rule: RunFilter, pages: _PageIterator) -> bool:
    if kind.may_overlap:
        # A run that began earlier may end later. So read on until no started run of a whole page counts.
        begun = [run for run in pages.page if run.started or run.finished]
        return bool(begun) and all(rule.is_before(run) for run in begun)
    return any(rule.is_before(run) for run in pages.page)


def _time(text: str | None) -> datetime | None:
    time = None if text is None else datetime.fromisoformat(text)
    return None if time is None or time < FIRST_TIME else time
