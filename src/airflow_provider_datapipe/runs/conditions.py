"""
What a sensor waits for: conditions that are looked at as a series of steps, in a worker and in the triggerer alike.

A condition is made from plain fields that fit into JSON, named as the parameters of the sensors, and says at each look
whether it is met. What it has learned it keeps only to ask less: made anew, it comes to the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import reverse_etl_failed_records
from airflow_provider_datapipe.api.errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    DatapipeError,
    InvalidInputError,
    InvalidRequestError,
    PermissionDeniedError,
)
from airflow_provider_datapipe.runs.bridges import Bridge, BridgeError, BridgeExpiredError, authorized
from airflow_provider_datapipe.runs.errors import LostContactError, RunError
from airflow_provider_datapipe.runs.kinds import KINDS, Kind
from airflow_provider_datapipe.runs.moments import (
    After,
    MomentOf,
    Sight,
    first_after,
    last_over,
    newest_back_to,
    parse_moment,
)
from airflow_provider_datapipe.runs.names import NameLookupError
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target
from airflow_provider_datapipe.runs.sharing import Mark, SyncStatus
from airflow_provider_datapipe.runs.steps import Steps, ask
from airflow_provider_datapipe.runs.sync import error_of_sync, result_of_sync, streams_of_sync
from airflow_provider_datapipe.runs.targets import by_id, orchestration_target, required, stream_target
from airflow_provider_datapipe.runs.verdict import error_of, result_of
from airflow_provider_datapipe.runs.wait import End, EndReason, WaitPolicy

#: Before every run.
_EVER = "1970-01-01T00:00:00+00:00"
#: After how many looks at the status of a sync its streams are looked at, whatever it says.
_CONFIRM = 10
#: Statuses that say that something is not there.
_NOT_THERE = frozenset({400, 404, 410})
#: The most names in a message.
_LISTED = 5
#: The most seconds between two looks at a service that fails.
_LONGEST_BACKOFF = 300.0


@dataclass(frozen=True, slots=True)
class Check:
    """
    What one look at a condition showed.

    :param said: where it stands, for people.
    :param is_met: whether there is nothing more to wait for.
    :param ends: how the runs ended that it is about.
    :param result: what is known, where it is about no run.
    :param awaited: the run after whose end it is time to look again; None for a while later.
    """

    said: str
    is_met: bool = False
    ends: tuple[End, ...] = ()
    result: dict[str, Any] | None = None
    awaited: Reference | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON; what is awaited is left out."""
        return {
            "said": self.said,
            "is_met": self.is_met,
            "ends": [end.as_dict() for end in self.ends],
            "result": self.result,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Check:
        """Read what :meth:`as_dict` gave."""
        return cls(data["said"], data["is_met"], tuple(map(End.from_dict, data["ends"])), data["result"])


class Condition(ABC):
    """Something that a sensor waits for."""

    #: Name in the arguments of the trigger.
    name: ClassVar[str]

    def __init__(self, **fields: Any) -> None:
        #: What it is made of; :func:`condition_of` makes it again.
        self.fields = {name: value for name, value in fields.items() if value is not None}

    @abstractmethod
    def check(self, now: float) -> Steps[Check]:
        """
        Look once.

        :param now: seconds since the epoch.
        """

    def settled_by(self, end: End) -> bool:
        """Tell whether the end of the run that was awaited is what was waited for, without another look."""
        return False

    def verdict(self, check: Check) -> tuple[Any, DatapipeError | None]:
        """Give the task's result, and the error that it ends with, if any, once the condition is met."""
        if not check.ends:
            return check.result, None
        (end,) = check.ends
        return result_of(end), error_of(end)


class _OfOne(Condition):
    """A condition of one thing that runs. Fields: ``kind``, and the ids or names of what runs."""

    def __init__(self, *, target: Target | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._target = target

    @property
    def kind(self) -> Kind:
        """The kind of run."""
        return KINDS[self.fields["kind"]]

    def target(self) -> Steps[Target]:
        """Find what runs, once."""
        if self._target is None:
            self._target = yield from self._find()
        return self._target

    def _find(self) -> Steps[Target]:
        given = self.fields.get
        match self.fields["kind"]:
            case "elt_stream":
                return (yield from stream_target(given("stream_id"), given("sync_id"), given("stream_name")))
            case "orchestration":
                return (yield from orchestration_target(given("orchestration_id"), given("orchestration_name")))
            case _:
                return (yield from by_id("reverse_etl_sync_id", given("reverse_etl_sync_id")))

    def _met_by(self, seen: Observation) -> Check:
        end = End(EndReason.RUN_OVER, seen.reference, seen.outcome, seen.result)
        run_id = seen.result and seen.result["run_id"]
        return Check(f"run {run_id} of {seen.reference.name} is over: {seen.outcome}", is_met=True, ends=(end,))


class RunCondition(_OfOne):
    """
    A run has ended: the one with ``run_id``, or the ``newest``, or the first after a moment.

    Further fields: ``after``, ``moment_of`` (:class:`~.moments.MomentOf`), ``on_failure`` (``fail`` or ``next``).
    """

    name = "run"

    def __init__(self, *, target: Target | None = None, **fields: Any) -> None:
        super().__init__(target=target, **fields)
        # A load in slices goes on in other runs: which one was seen last.
        self._pinned: Reference | None = None
        # The run that the last look found to be the one, while it goes on.
        self._found: str | None = None

    @property
    def rule(self) -> After:
        """Which runs count."""
        return After(
            parse_moment("after", self.fields.get("after")),
            MomentOf(self.fields.get("moment_of", MomentOf.START)),
            succeeded=self.fields.get("on_failure") == "next",
        )

    @override
    def check(self, now: float) -> Steps[Check]:
        if self.fields.get("newest") or "run_id" in self.fields:
            return (yield from self._check_one((yield from self.target())))
        # Before anything is asked: a wrong moment is said at once.
        rule = self.rule
        return (yield from self._check_after((yield from self.target()), rule))

    @override
    def settled_by(self, end: End) -> bool:
        if "run_id" in self.fields or self._pinned:
            return True
        if end.result is None:
            return False
        rule, run = self.rule, Sight.of(Observation(end.reference, end.outcome, end.result))
        # Which of two that overlap counts, and of which load a run is, the list tells.
        sure = rule.moment_of is MomentOf.START and self._found == run.run_id
        return sure and rule.counts(run)

    def _check_after(self, target: Target, rule: After) -> Steps[Check]:
        found, newest = yield from first_after(self.kind, target, rule)
        if found is not None and found.observation.outcome.is_over:
            return self._met_by(found.observation)
        since = f"{rule.moment:%Y-%m-%d %H:%M:%S %Z}"
        if found is not None:
            self._found = found.run_id
            said = f"run {found.run_id} of {target.name} is {found.observation.outcome}"
            return Check(said, awaited=found.observation.reference)
        verb = "started" if rule.moment_of is MomentOf.START else "ended"
        which = "has succeeded that" if rule.succeeded else "has"
        said = f"no run of {target.name} {which} {verb} since {since}"
        # Of the same load, perhaps, as the run before it: the next look tells.
        awaited = self.kind.awaited(target, newest.run_id if newest else None)
        return Check(said, awaited=awaited and replace(awaited, attached=True))

    def _check_one(self, target: Target) -> Steps[Check]:
        kind = self.kind
        if self._pinned is None:
            run_id = self.fields.get("run_id")
            given = None if run_id is None else required("run_id", run_id)
            self._pinned = Reference.to(kind.name, target, run_id=given, attached=True)
        seen = yield from self._look(kind, self._pinned)
        self._pinned = seen.reference
        if self.fields.pop("newest", None):
            # From now on it is this one; where there was none so far, the first.
            first = {"after": _EVER} if seen.result is None else {"run_id": seen.result["run_id"]}
            self.fields |= first
            if seen.result is None:
                self._pinned = None
                return (yield from self._check_after(target, self.rule))
        if seen.outcome.is_over:
            return self._met_by(seen)
        return Check(f"run {seen.reference.run_id} of {target.name} is {seen.outcome}", awaited=seen.reference)

    def _look(self, kind: Kind, reference: Reference) -> Steps[Observation]:
        """Look at a run; where it is a slice of a load, at those after it."""
        last = None
        while True:
            seen = kind.read(reference, (yield from ask(replace(kind.look(reference), once=True))))
            # The run after a slice may not be there yet: the slice is what is known.
            last = seen.result or last
            if not Sight.of(seen).is_slice:
                return replace(seen, result=last)
            reference = seen.reference


class FreshCondition(_OfOne):
    """
    The last run that succeeded ended no longer ago than a duration.

    Further fields: ``max_age`` in seconds, and ``as_of``, the moment from which that is counted; left out, it is now.
    """

    name = "fresh"

    def bound(self, now: float) -> datetime:
        """Give the moment at or after which the run has to have ended."""
        as_of = self.fields.get("as_of")
        end = datetime.fromtimestamp(now, UTC) if as_of is None else parse_moment("as_of", as_of)
        return end - timedelta(seconds=self.fields["max_age"])

    @override
    def check(self, now: float) -> Steps[Check]:
        rule = After(self.bound(now), MomentOf.END)
        target = yield from self.target()
        seen = yield from newest_back_to(self.kind, target, rule)
        good = [run for run in seen if run.succeeded and run.finished is not None]
        best = max(good, key=lambda run: run.finished or rule.moment, default=None)
        if best is not None and not rule.is_before(best):
            return self._met_by(best.observation)
        last = f"; the last one ended at {best.finished:%Y-%m-%d %H:%M:%S %Z}" if best and best.finished else ""
        return Check(f"no run of {target.name} has succeeded since {rule.moment:%Y-%m-%d %H:%M:%S %Z}{last}")


class LastRunCondition(_OfOne):
    """There is a run that has ended: the last of them is judged, whatever goes on now."""

    name = "last_run"

    @override
    def check(self, now: float) -> Steps[Check]:
        target = yield from self.target()
        last = yield from last_over(self.kind, target)
        return Check(f"no run of {target.name} has ended so far") if last is None else self._met_by(last.observation)


class FailedRecordsCondition(Condition):
    """
    A reverse ETL sync has no more unresolved failed records than a bound.

    Fields: ``reverse_etl_sync_id``, ``at_most``.
    """

    name = "failed_records"

    @override
    def check(self, now: float) -> Steps[Check]:
        sync_id = required("reverse_etl_sync_id", self.fields.get("reverse_etl_sync_id"))
        at_most = self.fields["at_most"]
        count = (yield from ask(replace(reverse_etl_failed_records.count(sync_id), once=True))).count
        return Check(
            f"reverse ETL sync {sync_id} has {count:,} failed records, {at_most:,} are allowed",
            is_met=count <= at_most,
            result={"reverse_etl_sync_id": sync_id, "failed_records": count, "at_most": at_most},
        )


class ConnectionBridgeCondition(Condition):
    """
    Somebody has authorized with a connection bridge, so that the connection is there; or its time is over.

    Field: ``bridge``, the result of the task that made it.
    """

    name = "connection_bridge"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        # The address that lets in stays out of triggers. What can't be read is said by the first look.
        with suppress(ValueError):
            self.fields["bridge"] = Bridge.of(self.fields.get("bridge")).as_dict()

    @override
    def check(self, now: float) -> Steps[Check]:
        bridge = Bridge.of(self.fields.get("bridge"))
        which = {"integration_id": bridge.integration_id, "label": bridge.label}
        try:
            connection_id = yield from authorized(bridge, datetime.fromtimestamp(now, UTC))
        except BridgeExpiredError as error:
            return Check(str(error), is_met=True, result={"connection_id": None, **which})
        if connection_id is None:
            return Check(f"nobody has authorized {bridge.label!r} so far; there is time until {bridge.expires_at}")
        return Check(
            f"connection {connection_id} was authorized",
            is_met=True,
            result={"connection_id": connection_id, **which},
        )

    @override
    def verdict(self, check: Check) -> tuple[Any, DatapipeError | None]:
        result = check.result or {}
        return result, None if result["connection_id"] else BridgeExpiredError(check.said)


@dataclass(slots=True)
class _Stream:
    """What is known of one stream of a sync."""

    target: Target
    condition: RunCondition | FreshCondition
    #: What the status showed when it was last looked at, and what that look showed.
    mark: Mark | None = None
    check: Check | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is done for good: what is fresh does not stay so."""
        return self.check is not None and self.check.is_met and isinstance(self.condition, RunCondition)

    def needs_look(self, mark: Mark | None) -> bool:
        """Tell whether a look may show something new."""
        if self.check is None or self.check.is_met:
            return not self.is_settled
        return mark is None or mark != self.mark


class SyncCondition(Condition):
    """
    All streams of an ELT sync, or those that are chosen, meet a condition.

    One request shows them all at each look; when it says that all may have met it, each is looked at itself, since the
    status has no run ids, and no word for a load that goes on in slices.

    Fields: ``sync_id``, ``streams`` (names or ids; left out, all), and those of :class:`RunCondition` or, with
    ``max_age``, of :class:`FreshCondition`.
    """

    name = "sync"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._streams: list[_Stream] = []
        self._looks = 0

    @override
    def check(self, now: float) -> Steps[Check]:
        sync_id = required("sync_id", self.fields.get("sync_id"))
        # Before anything is asked: a wrong moment is said at once.
        bound = self._bound(now)
        if not self._streams:
            targets = yield from streams_of_sync(sync_id, self.fields.get("streams"), {})
            self._streams = [_Stream(target, self._part(target)) for target in targets]
        status = SyncStatus(sync_id)
        shown = status.index((yield from ask(status.request())))
        items = [(stream, shown.get(stream.target.name)) for stream in self._streams]
        self._looks += 1
        confirm = self._looks % _CONFIRM == 0
        late = [stream for stream, item in items if not stream.is_settled and item and _is_late(item, *bound)]
        if late and not confirm:
            return self._not_yet(late)
        for stream, item in items:
            mark = None if item is None else status.mark(item)
            if stream.needs_look(None if confirm else mark):
                stream.check = yield from stream.condition.check(now)
                stream.mark = mark
        late = [stream for stream in self._streams if stream.check is None or not stream.check.is_met]
        if late:
            return self._not_yet(late)
        ends = tuple(end for stream in self._streams if stream.check for end in stream.check.ends)
        return Check(f"all {len(ends)} streams of ELT sync {sync_id} are there", is_met=True, ends=ends)

    @override
    def verdict(self, check: Check) -> tuple[Any, DatapipeError | None]:
        sync_id = self.fields["sync_id"]
        return result_of_sync(sync_id, check.ends), error_of_sync(sync_id, check.ends)

    def _part(self, target: Target) -> RunCondition | FreshCondition:
        part = FreshCondition if "max_age" in self.fields else RunCondition
        shared = {name: value for name, value in self.fields.items() if name not in ("sync_id", "streams")}
        return part(target=target, kind="elt_stream", **shared)

    def _bound(self, now: float) -> tuple[datetime, str]:
        """Give what the newest run of each stream has to reach, and by which of its times."""
        part = self._part(Target("", ""))
        if isinstance(part, FreshCondition):
            return part.bound(now), "finished_at"
        rule = part.rule
        return rule.moment, "started_at" if rule.moment_of is MomentOf.START else "finished_at"

    def _not_yet(self, late: Sequence[_Stream]) -> Check:
        names = ", ".join(stream.target.name for stream in late[:_LISTED]) + (", ..." if len(late) > _LISTED else "")
        return Check(f"{len(late)} of {len(self._streams)} streams of the sync are waited for: {names}")


def _is_late(item: Mapping[str, Any], bound: datetime, time: str) -> bool:
    """Tell whether a stream can't have met its condition: its newest run that is over is too old."""
    latest = item.get("latest_sync")
    if not latest:
        return True
    try:
        return parse_moment(time, latest.get(time)) < bound
    except ValueError:
        return False


#: Every condition by its name.
CONDITIONS: dict[str, type[Condition]] = {
    condition.name: condition
    for condition in (
        RunCondition,
        FreshCondition,
        LastRunCondition,
        FailedRecordsCondition,
        ConnectionBridgeCondition,
        SyncCondition,
    )
}


def condition_of(name: str, fields: Mapping[str, Any]) -> Condition:
    """
    Make a condition.

    :param name: its name.
    :param fields: what it takes, as JSON; those that are None count as left out.
    """
    return CONDITIONS[name](**fields)


class Patience:
    """
    How long a service that can't be asked is waited for.

    :param now: seconds since the epoch.
    """

    def __init__(self, now: float) -> None:
        self._contact = now
        self._failures = 0
        #: Whether the service has answered so far.
        self.was_answered = False

    def answered(self, now: float) -> None:
        """Take word that a look has succeeded."""
        self._contact, self._failures, self.was_answered = now, 0, True

    def failed(self, error: DatapipeError, now: float, interval: float) -> float:
        """
        Take a look that failed, and give the seconds until the next.

        :param error: what went wrong.
        :param now: seconds since the epoch.
        :param interval: seconds between two looks, while all is well.
        :raises LostContactError: that has lasted too long.
        """
        if now >= self._contact + WaitPolicy().contact_limit:
            raise LostContactError(
                f"Contact with the service was lost for {now - self._contact:.0f} s: {error} Mend the cause, then run "
                "this task again."
            )
        backoff = min(_LONGEST_BACKOFF, interval * 2.0 ** min(self._failures, 10))
        self._failures += 1
        asked = error.retry_after if isinstance(error, ApiError) else None
        return max(interval, backoff, asked or 0.0)


def is_final(error: DatapipeError, *, was_answered: bool) -> bool:
    """
    Tell whether looking again would not help: something is not there, or is set wrongly.

    :param error: what went wrong.
    :param was_answered: whether an earlier look has succeeded: then keys and addresses may be about to change.
    """
    if isinstance(error, ApiError) and error.status in _NOT_THERE:
        return True
    if isinstance(error, BridgeError | InvalidInputError | NameLookupError | RunError):
        return True
    set_wrongly = isinstance(error, AuthenticationError | ConfigurationError | PermissionDeniedError)
    return not was_answered and (set_wrongly or isinstance(error, InvalidRequestError))
