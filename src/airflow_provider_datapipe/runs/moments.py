"""
Finding the first run that started, or ended, at or after a moment. Pure: no I/O, and no clock.

What is found depends on the moment and the history alone, not on when one looks: so a backfill finds the run of its own
time, and a task that is tried again finds the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.elt_streams import EltStreamRunStatus
from airflow_provider_datapipe.api.paging import LARGEST_PAGE, Cursors
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.kinds import Kind
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target
from airflow_provider_datapipe.runs.steps import Steps, ask


class MomentOf(StrEnum):
    """Which moment of a run counts."""

    START = "start"
    END = "end"


def parse_moment(name: str, value: object) -> datetime:
    """
    Read a moment: a time with a time zone, or its ISO 8601 text, as templates render it.

    :param name: what it is called, for the message.
    :param value: what was given.
    :raises ValueError: it is none, or has no time zone.
    """
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{name} is no moment: {value!r}. Give an ISO 8601 time with its offset, such as "
                "'2026-01-31T00:00:00+00:00', or look at what its template renders to."
            ) from None
    if not isinstance(moment, datetime):
        raise ValueError(f"{name} must be a time or its ISO 8601 text, not {value!r}")  # noqa: TRY004 - one class for both
    if moment.utcoffset() is None:
        raise ValueError(
            f"{name} has no time zone: {value!r}. Add the offset, as in '2026-01-31T00:00:00+00:00'; of templates, "
            "{{ data_interval_end }} has one, {{ ds }} has none."
        )
    return moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Sight:
    """
    A run, or a load that takes several runs, as a list shows it.

    :param observation: what is known of it; of a load, of its last run.
    :param started: when it began; None if it has not.
    :param finished: when it ended; None if it goes on.
    """

    observation: Observation
    started: datetime | None
    finished: datetime | None

    @classmethod
    def of(cls, observation: Observation) -> Sight:
        """Read the times of a run."""
        result = observation.result
        if result is None:
            return cls(observation, None, None)
        return cls(observation, _time(result["started_at"]), _time(result["finished_at"]))

    @property
    def run_id(self) -> str | None:
        """The run."""
        return self.observation.result["run_id"] if self.observation.result else None

    @property
    def is_slice(self) -> bool:
        """Whether it is done, and the load goes on in the run after it."""
        result = self.observation.result
        return result is not None and result["status"] == EltStreamRunStatus.CHUNK_COMPLETED

    @property
    def succeeded(self) -> bool:
        """Whether it has ended as it should."""
        return self.observation.outcome is Outcome.SUCCEEDED


@dataclass(frozen=True, slots=True)
class After:
    """
    The rule by which runs count.

    :param moment: the moment.
    :param moment_of: what of a run has to be at or after it.
    :param succeeded: whether runs that ended otherwise are passed over.
    """

    moment: datetime
    moment_of: MomentOf = MomentOf.START
    succeeded: bool = False

    def counts(self, load: Sight) -> bool:
        """Tell whether a load is one that is looked for, or may become one: what is still to happen is later."""
        time = load.started if self.moment_of is MomentOf.START else load.finished
        if time is not None and time < self.moment:
            return False
        return load.succeeded or not (self.succeeded and load.observation.outcome.is_over)

    def is_before(self, run: Sight) -> bool:
        """Tell whether a run is so old that those before it need not be looked at."""
        time = run.started if self.moment_of is MomentOf.START else run.finished
        return time is not None and time < self.moment


def loads(runs: Sequence[Sight]) -> Iterator[Sight]:
    """
    Put the slices of a load together: it began when its first run did, and ends as its last one does.

    :param runs: oldest first.
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


def first_of(runs: Sequence[Sight], rule: After, *, may_overlap: bool = False) -> Sight | None:
    """
    Give the first load that counts.

    :param runs: oldest first, without a gap.
    :param rule: which counts.
    :param may_overlap: whether the order of the list is another one than that of the moments.
    """
    counting = (load for load in loads(runs) if rule.counts(load))
    if not may_overlap:
        return next(counting, None)
    never = datetime.max.replace(tzinfo=UTC)
    by_start = rule.moment_of is MomentOf.START
    return min(counting, key=lambda load: (load.started if by_start else load.finished) or never, default=None)


class _Walk:
    """One walk through a list, from one of its ends."""

    def __init__(self, kind: Kind, target: Target, request: Request[Page[Any]]) -> None:
        self._kind = kind
        self._reference = Reference.to(kind.name, target, attached=True)
        self._following: Request[Page[Any]] | None = request
        self._cursors = Cursors()
        #: What was seen so far, in the order of the list.
        self.seen: list[Sight] = []
        #: What the last page brought.
        self.page: list[Sight] = []

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._following is None

    def step(self) -> Steps[None]:
        """Read a page."""
        if self._following is None:
            return
        request = self._following
        answer = yield from ask(request)
        self.page = [Sight.of(self._kind.read(self._reference, run)) for run in answer.data]
        self.seen += self.page
        # However small the first page was; and a long walk is not given up for one lost answer.
        wider = replace(request.with_query(limit=LARGEST_PAGE), once=False)
        self._following = self._cursors.after(wider, answer)


def newest_back_to(kind: Kind, target: Target, rule: After) -> Steps[list[Sight]]:
    """
    List runs, newest first, at most as far back as the rule needs.

    :param kind: the kind of run.
    :param target: what runs.
    :param rule: what counts.
    """
    walk = _Walk(kind, target, replace(kind.newest(target.resource_id), once=True))
    while not walk.is_over:
        yield from walk.step()
        if _reaches_back(kind, rule, walk):
            break
    return walk.seen


def last_over(kind: Kind, target: Target) -> Steps[Sight | None]:
    """
    Find the last run that is over.

    :param kind: the kind of run.
    :param target: what runs.
    """
    walk = _Walk(kind, target, replace(kind.newest(target.resource_id), once=True))
    while not walk.is_over:
        yield from walk.step()
        over = [load for load in loads(walk.seen[::-1]) if load.observation.outcome.is_over]
        if over:
            return over[-1]
    return None


def first_after(kind: Kind, target: Target, rule: After) -> Steps[tuple[Sight | None, Sight | None]]:
    """
    Find the first run that counts, and give it, and the newest run of all.

    Both ends of the history are walked in turn, so that a moment long ago costs as little as one just now.

    :param kind: the kind of run.
    :param target: what runs.
    :param rule: what counts.
    """
    late = _Walk(kind, target, replace(kind.newest(target.resource_id), once=True))
    oldest_first = kind.oldest_first(target.resource_id)
    early = None if oldest_first is None else _Walk(kind, target, oldest_first)
    while True:
        yield from late.step()
        newest = late.seen[0] if late.seen else None
        if late.is_over or _reaches_back(kind, rule, late):
            return first_of(late.seen[::-1], rule, may_overlap=kind.may_overlap), newest
        if early is None:
            continue
        yield from early.step()
        found = first_of(early.seen, rule)
        # A load whose last run so far is a slice may have its end on the next page.
        if found is not None and (early.is_over or not found.is_slice):
            return found, newest
        if early.is_over:
            return None, newest
        known = {run.run_id for run in late.seen}
        if any(run.run_id in known for run in early.page):
            shown = {run.run_id for run in early.seen}
            rest = [run for run in late.seen[::-1] if run.run_id not in shown]
            return first_of([*early.seen, *rest], rule), newest


def _reaches_back(kind: Kind, rule: After, walk: _Walk) -> bool:
    if kind.may_overlap:
        # One that began earlier may end later: only where none of many counts, none before them will.
        return bool(walk.page) and all(rule.is_before(run) for run in walk.page)
    return any(rule.is_before(run) for run in walk.page)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
