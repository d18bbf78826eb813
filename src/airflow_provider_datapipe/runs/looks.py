"""What to ask next, so that many runs are looked at with few requests. Pure: no I/O, and no clock of its own."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from airflow_provider_datapipe.api.errors import DatapipeError, ProtocolError
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.api.retry import honored
from airflow_provider_datapipe.runs.contact import Contact, is_of_connection
from airflow_provider_datapipe.runs.kinds import KINDS
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.sharing import Mark, Shared, Unclear, shared_by
from airflow_provider_datapipe.runs.wait import End, Watch

log = logging.getLogger(__name__)

Ends: TypeAlias = list[tuple[Watch, End]]

#: Seconds between two looks at the same shared answer, also where waits are added all the time.
_SHARED_PAUSE = 0.25
#: A run is looked at itself after so many looks without a change, and so many seconds at the least, at the most twice.
_CONFIRM_LOOKS = 10
_CONFIRM_SECONDS = 120.0
#: How often in a row a shared answer may not tell where a run stands, before the run is only looked at itself.
_STRIKES = 3
#: Seconds between two searches for waits that are over although nothing was answered.
_SWEEP = 5.0
#: The longest that a shared request which fails by itself is left alone, in seconds.
_LONGEST_HOLD = 600.0


@dataclass(slots=True, eq=False)
class _Source:
    """One thing that is asked for again and again, for those who wait for what it shows."""

    key: Shared | Request[Any]
    watches: dict[Watch, None] = field(default_factory=dict)
    due: float = math.inf
    busy: bool = False
    not_before: float = 0.0
    #: How often in a row a shared request has failed, and when it did so last.
    failures: int = 0
    failed_at: float = 0.0


@dataclass(slots=True, eq=False)
class _Place:
    """How one run is looked at."""

    source: _Source
    mark: Mark | None = None
    looks_left: int = 0
    confirm_at: float = 0.0
    strikes: int = 0
    #: How often in a row the shared request has failed, and until when the run is looked at itself for that.
    failures: int = 0
    alone_until: float = 0.0
    #: Whether a change was shown after which the run should be over.
    seems_over: bool = False


_Queue: TypeAlias = list[tuple[float, int, _Source]]


@dataclass(slots=True, eq=False)
class Look:
    """
    One request.

    :param request: what to ask; the client does not repeat it.
    :param watches: who is told of the answer.
    :param due: when it was to be sent, from which the next look is counted, so that slow answers make none rarer.
    """

    request: Request[Any]
    watches: list[Watch]
    source: _Source
    due: float
    pages: int = 1


class Looks:
    """
    The looks at all runs that are waited for over one connection.

    Equal requests are asked once. Runs that one request shows are looked at together (:mod:`.sharing`). A service that
    fails or asks for patience is left alone by all (:class:`.contact.Contact`). Whoever drives it asks for what is
    :meth:`next`, tells what became of it, and is told which waits that has ended.

    :param most: the most requests at a time.
    :param jitter: gives a number from 0 to 1.
    """

    def __init__(self, most: int = 1, jitter: Callable[[], float] = random.random) -> None:
        self.contact = Contact(most, jitter)
        self._jitter = jitter
        self._sources: dict[Shared | Request[Any], _Source] = {}
        self._places: dict[Watch, _Place] = {}
        # What shows many runs takes turns with what shows one: neither waits behind a thousand of the other.
        self._queues: tuple[_Queue, _Queue] = ([], [])
        self._turn = 0
        self._numbers = itertools.count()
        self._more: deque[Look] = deque()
        self._under_way = 0
        self._sweep_at = 0.0
        #: When a run that was looked at itself was shown last.
        self._shown_at = 0.0

    def __len__(self) -> int:
        """Count the runs that are waited for."""
        return len(self._places)

    def add(self, watch: Watch) -> None:
        """Wait for a run."""
        source = self._source(shared_by(watch.reference) or _direct(watch))
        self._places[watch] = _Place(source)
        self._join(source, watch)

    def discard(self, watch: Watch) -> None:
        """Wait for it no longer; an answer that is under way is not told to it."""
        place = self._places.pop(watch, None)
        if place is not None:
            self._leave(place.source, watch)

    def next(self, now: float) -> Look | None:
        """Give the request that is to be sent now, if there is one. Each one is followed by what became of it."""
        if self._under_way >= self.contact.allowed or now < self.contact.paused_until:
            return None
        look = self._next_page(now) or self._next_due(now)
        if look is not None:
            self._under_way += 1
        return look

    def is_due(self, now: float) -> bool:
        """Tell whether :meth:`next` has something to send."""
        return self._under_way < self.contact.allowed and self.wake_at(now) <= now

    def wake_at(self, now: float) -> float:
        """Tell when to call :meth:`next` and :meth:`overdue` again, if nothing is answered until then."""
        sweep = self._sweep_at
        if self._under_way >= self.contact.allowed:
            return sweep
        for queue in self._queues:
            _drop_stale(queue)
        due = now if self._more else min((queue[0][0] for queue in self._queues if queue), default=math.inf)
        return min(sweep, max(due, self.contact.paused_until))

    def answered(self, look: Look, answer: Any, now: float) -> Ends:
        """Take the answer to a look, and give the waits that have ended."""
        self.contact.answered(now)
        source = look.source
        if isinstance(source.key, Shared):
            ends = self._read_list(source.key, look, answer, now)
        else:
            self._shown_at = now
            ends = self._read_direct(look, answer, now)
        self._finish(look, now)
        return ends

    def failed(self, look: Look, error: DatapipeError, now: float) -> Ends:
        """Take the failure of a look, and give the waits that have ended."""
        of_connection = is_of_connection(error)
        if of_connection:
            self.contact.failed(error, now)
        else:
            # Whatever is wrong, the service is there.
            self.contact.answered(now)
        if isinstance(look.source.key, Shared):
            ends = self._failed_shared(look, error, now, by_itself=not of_connection)
        else:
            judged = ((watch, watch.failed(error, now, rarer=not of_connection)) for watch in self._present(look))
            ends = self._gather(judged)
        self._finish(look, now)
        return ends

    def overdue(self, now: float) -> Ends:
        """Give the waits that are over although nothing was answered: past their deadline, or out of contact."""
        if now < self._sweep_at:
            return []
        self._sweep_at = now + _SWEEP
        error = self.contact.error
        # Where a look may still be made, it is the last word; one that hangs is not waited for.
        patience = 0.0 if now < self.contact.paused_until else _SWEEP
        return self._gather(
            (
                watch,
                watch.expired(now) or (watch.unreachable(error, now - patience) if error else None),
            )
            for watch in self._places
            # Nobody has tried to look at the others, however long ago they were seen.
            if watch.due <= now
        )

    def _next_page(self, now: float) -> Look | None:
        while self._more:
            look = self._more.popleft()
            if self._present(look):
                return look
            self._release(look.source, now)
        return None

    def _next_due(self, now: float) -> Look | None:
        while True:
            popped = self._pop_due(now)
            if popped is None:
                return None
            due, source = popped
            key = source.key
            if not isinstance(key, Shared):
                if all(watch.expired(now) for watch in source.watches):
                    # None of them gets another look: they are swept up.
                    self._sweep_at = now
                    self._schedule(source, now + _SWEEP)
                    return None
                source.busy = True
                return Look(key, list(source.watches), source, due)
            if len(source.watches) >= key.WORTHWHILE:
                source.busy = True
                return Look(key.request(), list(source.watches), source, due)
            for watch in list(source.watches):
                self._move(watch, _direct(watch))

    def _pop_due(self, now: float) -> tuple[float, _Source] | None:
        for _ in self._queues:
            self._turn = 1 - self._turn
            queue = self._queues[self._turn]
            _drop_stale(queue)
            if queue and queue[0][0] <= now:
                due, _, source = heapq.heappop(queue)
                source.due = math.inf
                return due, source
        return None

    def _read_direct(self, look: Look, answer: Any, now: float) -> Ends:
        ends: Ends = []
        for watch in self._present(look):
            try:
                end = watch.seen(KINDS[watch.reference.kind].read(watch.reference, answer), now, look.due)
            except Exception as error:  # noqa: BLE001 - whatever an answer causes concerns only the runs in it
                failure = error if isinstance(error, DatapipeError) else _unreadable(look, error)
                # Polled by itself until it can be read: a list might show it as unchanged for ever.
                if end := watch.failed(failure, now):
                    ends.append((watch, end))
                continue
            if end:
                ends.append((watch, end))
                continue
            place = self._places[watch]
            place.looks_left = _CONFIRM_LOOKS
            place.confirm_at = now + _CONFIRM_SECONDS * (1 + self._jitter())
            if place.seems_over and watch.outcome is Outcome.RUNNING:
                # One of the two lags behind: it is looked at again as if it had just changed.
                place.mark = ()
            place.seems_over = False
            alone = place.strikes >= _STRIKES or now < place.alone_until
            self._move(watch, (None if alone else shared_by(watch.reference)) or _direct(watch))
        return self._gather(ends)

    def _read_list(self, shared: Shared, look: Look, answer: Any, now: float) -> Ends:
        try:
            shown = shared.index(answer)
        except Exception as error:  # noqa: BLE001 - as in _read_direct
            return self._failed_shared(look, _unreadable(look, error), now, by_itself=True)
        look.source.failures = 0
        return self._read_shared(shared, look, answer, shown, now)

    def _read_shared(self, shared: Shared, look: Look, answer: Any, shown: Mapping[str, Any], now: float) -> Ends:
        ends: Ends = []
        missing: list[Watch] = []
        for watch in self._present(look):
            place = self._places[watch]
            place.failures = 0
            try:
                item = shared.find(watch.reference, shown)
                mark = None if item is None else shared.mark(item)
                is_going = item is not None and shared.is_going(item)
            except Exception as error:  # noqa: BLE001 - as in _read_direct
                place.strikes += 1
                _unreadable(look, error)
                self._look_itself(watch, now)
                continue
            if mark is None:
                missing.append(watch)
                continue
            if mark == place.mark and (shared.IS_COMPLETE or place.looks_left > 0 or now < place.confirm_at):
                place.strikes = 0
                place.looks_left -= 1
                end = watch.unchanged(now, look.due)
            else:
                # A check without a change says nothing against what is shown.
                place.strikes += mark != place.mark
                place.seems_over = place.mark not in (None, mark) and not is_going
                place.mark = mark
                end = None
                try:
                    seen = shared.read(watch.reference, item)
                    end = None if seen is Unclear.UNCLEAR else watch.seen(seen, now, look.due)
                except Exception as error:  # noqa: BLE001 - as in _read_direct
                    _unreadable(look, error)
                    seen = Unclear.UNCLEAR
                if seen is Unclear.UNCLEAR:
                    self._look_itself(watch, now)
                    continue
            if end:
                ends.append((watch, end))
        self._pursue(shared, look, answer, missing, now)
        return self._gather(ends)

    def _failed_shared(self, look: Look, error: DatapipeError, now: float, *, by_itself: bool) -> Ends:
        source = look.source
        ends = self._gather((watch, watch.unreachable(error, now)) for watch in self._present(look))
        source.failures += 1
        # A gateway may give up on this one request: then runs are shown meanwhile.
        by_itself |= source.failures > _STRIKES and self._shown_at > source.failed_at
        source.failed_at = now
        watches = self._present(look)
        if by_itself:
            asked = honored(error)
            for watch in watches:
                place = self._places[watch]
                place.alone_until = now + max(min(_LONGEST_HOLD, 2.0 ** min(place.failures, 10)), asked or 0.0)
                place.failures += 1
                self._look_itself(watch, now)
        elif source.failures >= _STRIKES and watches:
            # One finds out.
            self._look_itself(watches[0], now)
        return ends

    def _pursue(self, shared: Shared, look: Look, answer: Any, missing: list[Watch], now: float) -> None:
        """Look for the runs that an answer did not show: on the next page, or each by itself."""
        try:
            following = shared.following(answer, missing=len(missing), pages=look.pages) if missing else None
        except Exception as error:  # noqa: BLE001 - as in _read_direct
            _unreadable(look, error)
            following = None
        if following is not None:
            self._more.append(Look(following, missing, look.source, look.due, look.pages + 1))
            return
        for watch in missing:
            self._places[watch].strikes += 1
            self._look_itself(watch, now)

    def _present(self, look: Look) -> list[Watch]:
        """Give those of a look's watches that still wait for it."""
        return [
            watch
            for watch in look.watches
            if (place := self._places.get(watch)) is not None and place.source is look.source
        ]

    def _look_itself(self, watch: Watch, now: float) -> None:
        watch.due = now
        self._move(watch, _direct(watch))

    def _move(self, watch: Watch, key: Shared | Request[Any]) -> None:
        place = self._places[watch]
        if place.source.key == key:
            return
        self._leave(place.source, watch)
        place.source = self._source(key)
        self._join(place.source, watch)

    def _gather(self, judged: Iterable[tuple[Watch, End | None]]) -> Ends:
        ends = [(watch, end) for watch, end in judged if end is not None]
        for watch, _ in ends:
            self.discard(watch)
        return ends

    def _source(self, key: Shared | Request[Any]) -> _Source:
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _Source(key)
        return source

    def _join(self, source: _Source, watch: Watch) -> None:
        source.watches[watch] = None
        self._schedule(source, watch.due)

    def _leave(self, source: _Source, watch: Watch) -> None:
        del source.watches[watch]
        if not source.watches and not source.busy:
            del self._sources[source.key]

    def _finish(self, look: Look, now: float) -> None:
        self._under_way -= 1
        if not any(more.source is look.source for more in self._more):
            self._release(look.source, now)

    def _release(self, source: _Source, now: float) -> None:
        """Let a source be asked again, when there is one who waits for it."""
        source.busy = False
        if not source.watches:
            self._sources.pop(source.key, None)
            return
        if isinstance(source.key, Shared):
            source.not_before = max(source.not_before, now + _SHARED_PAUSE)
        source.due = math.inf
        self._schedule(source, min(watch.due for watch in source.watches))

    def _schedule(self, source: _Source, due: float) -> None:
        due = max(due, source.not_before)
        if due < source.due and not source.busy:
            source.due = due
            queue = self._queues[isinstance(source.key, Shared)]
            heapq.heappush(queue, (due, next(self._numbers), source))


def _drop_stale(queue: _Queue) -> None:
    """Take off the top what is not to be asked then any more."""
    while queue and (queue[0][2].due != queue[0][0] or queue[0][2].busy or not queue[0][2].watches):
        heapq.heappop(queue)


def _unreadable(look: Look, error: Exception) -> ProtocolError:
    """Return the error of an answer that could not be read, and log where it comes from."""
    unreadable = ProtocolError(f"{look.request.label}: the answer could not be read ({type(error).__name__}).")
    log.warning("%s Report this as a defect of the provider.", unreadable, exc_info=error)
    return unreadable


def _direct(watch: Watch) -> Request[Any]:
    """Give the request that shows a run by itself."""
    # The watch looks again by itself: a client that did so, too, would hold up the others.
    return replace(KINDS[watch.reference.kind].look(watch.reference), once=True)
