"""Conditions for the runs of one stream, orchestration or reverse ETL sync."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.flows import send
from airflow_provider_datapipe.runs.conditions.base import Check, Condition, ServicePage
from airflow_provider_datapipe.runs.kinds import KINDS, Kind
from airflow_provider_datapipe.runs.log_lines.labels import resource_label, short_run_id
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome
from airflow_provider_datapipe.runs.run_history import (
    RunFilter,
    RunRecord,
    RunTime,
    first_after,
    last_over,
    newest_back_to,
    newest_of,
    parse_time,
)
from airflow_provider_datapipe.runs.targets import by_id, orchestration_target, required, stream_target
from airflow_provider_datapipe.runs.wait import WaitOutcome, WaitOutcomeReason

#: Time by which the clock of the service may be ahead. Later end times are not plausible.
_CLOCK_SKEW = timedelta(hours=2)
#: Times before all runs.
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_EVER = "1970-01-01T00:00:00+00:00"
#: Field with the ID of the resource, by kind.
_ID_FIELDS = {"elt_stream": "stream_id", "orchestration": "orchestration_id", "reverse_etl": "reverse_etl_sync_id"}


class _ResourceCondition(Condition):
    """Base class of conditions for the runs of one resource. Fields: ``kind``, and the ID or name of the resource."""

    def __init__(self, *, target: RunTarget | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._target = target

    @property
    def kind(self) -> Kind:
        """The kind of run."""
        return KINDS[self.fields["kind"]]

    @override
    def page(self, check: Check | None = None) -> ServicePage:
        kind = self.fields["kind"]
        known = self.page_id(_ID_FIELDS[kind]) if self._target is None else self._target.resource_id
        if known is None and kind == "elt_stream":
            # With sync_id and stream_name, only the sync is known before the stream is found.
            return ServicePage("elt_sync", self.page_id("sync_id"))
        if check is None:
            return ServicePage(kind, known)
        if check.ends:
            (end,) = check.ends
            return ServicePage(
                kind, end.reference.resource_id, end.result["run_id"] if end.result else end.reference.run_id
            )
        return ServicePage(kind, known, check.awaited.run_id if check.awaited else None)

    async def target(self) -> RunTarget:
        """Return the resource, which is looked up once."""
        if self._target is None:
            self._target = await self._find()
        return self._target

    async def _find(self) -> RunTarget:
        given = self.fields.get
        match self.fields["kind"]:
            case "elt_stream":
                return await stream_target(given("stream_id"), given("sync_id"), given("stream_name"))
            case "orchestration":
                return await orchestration_target(given("orchestration_id"), given("orchestration_name"))
            case _:
                return await by_id("reverse_etl_sync_id", given("reverse_etl_sync_id"))

    def _met_by(self, state: RunState) -> Check:
        end = WaitOutcome(WaitOutcomeReason.RUN_OVER, state.reference, state.outcome, state.result)
        return Check(f"{resource_label(state.reference)}: the run has ended: {state.outcome}", is_met=True, ends=(end,))


class RunCondition(_ResourceCondition):
    """
    Condition that a run has ended: the run with ``run_id``, the ``newest`` run, or the first run after a time.

    Further fields: ``after``, ``moment_of`` (``start`` or ``end``), ``on_failure`` (``fail`` or ``next``).
    """

    name = "run"

    def __init__(self, *, target: RunTarget | None = None, **fields: Any) -> None:
        super().__init__(target=target, **fields)
        # The last known run of the load: a load in slices continues in other runs.
        self._pinned: RunRef | None = None
        # ID of an active run that is definitely the first one that counts; None if there is none.
        self._found: str | None = None

    @property
    def rule(self) -> RunFilter:
        """Rule for the runs that count."""
        return RunFilter(
            parse_time("after", self.fields.get("after")),
            RunTime(self.fields.get("moment_of", RunTime.START)),
            succeeded=self.fields.get("on_failure") == "next",
        )

    @override
    async def check(self, now: float) -> Check:
        if self.fields.get("newest") or "run_id" in self.fields:
            return await self._check_one(await self.target(), now)
        # Raise for an invalid time before the first request.
        rule = self.rule
        return await self._check_after(await self.target(), rule)

    @override
    def is_met_by(self, end: WaitOutcome) -> bool:
        if "run_id" in self.fields or self._pinned:
            return True
        if end.result is None:
            return False
        rule, run = self.rule, RunRecord.of(RunState(end.reference, end.outcome, end.result))
        # The list decides which of two overlapping runs counts, and to which load a run belongs.
        is_sure = rule.moment_of is RunTime.START and self._found == run.run_id
        return is_sure and rule.counts(run)

    async def _check_after(self, target: RunTarget, rule: RunFilter) -> Check:
        found, newest = await first_after(self.kind, target, rule)
        if found is not None and found.state.outcome.is_over:
            return self._met_by(found.state)
        since = f"{rule.moment:%Y-%m-%d %H:%M:%S %Z}"
        if found is not None:
            description = _state(found.state)
            # Another run can start before a planned one, or end before one with which it overlaps. Poll the list.
            is_sure = found.started is not None and (rule.moment_of is RunTime.START or not self.kind.may_overlap)
            self._found = found.run_id if is_sure else None
            return Check(description, awaited=found.state.reference if is_sure else None, is_running=is_sure)
        verb = "started" if rule.moment_of is RunTime.START else "ended"
        which = f"that {verb} since {since} has succeeded" if rule.succeeded else f"has {verb} since {since}"
        description = f"no run of {target.name} {which}"
        # This run may belong to the same load as the run before it. The next check finds out.
        awaited = self.kind.awaited(target, newest.run_id if newest else None)
        return Check(description, awaited=awaited and replace(awaited, attached=True))

    async def _check_one(self, target: RunTarget, now: float) -> Check:
        kind = self.kind
        if self.fields.get("newest"):
            newest = await newest_of(kind, target, datetime.fromtimestamp(now, UTC), _latest(now))
            del self.fields["newest"]
            # Keep this run for the next checks. If there is no run yet, wait for the first one.
            if newest is None:
                self.fields["after"] = _EVER
                return await self._check_after(target, self.rule)
            self.fields["run_id"] = newest.run_id
            self._pinned = newest.state.reference
            if newest.is_over:
                return self._met_by(newest.state)
            return _check_of_active_run(newest.state)
        if self._pinned is None:
            given = required("run_id", self.fields["run_id"])
            self._pinned = RunRef.to(kind.name, target, run_id=given, attached=True)
        state = await self._poll_once(kind, self._pinned)
        self._pinned = state.reference
        if state.outcome.is_over:
            return self._met_by(state)
        return _check_of_active_run(state)

    async def _poll_once(self, kind: Kind, reference: RunRef) -> RunState:
        """Poll a run. If it is a slice of a load, poll the next runs of the load as well."""
        last = None
        while True:
            answer = await send(replace(kind.poll_request(reference), once=True))
            if reference.run_id is not None:
                _check_owner(kind, reference, answer)
            state = kind.read(reference, answer)
            # The run after a slice may not exist yet. Then return the result of the slice.
            last = state.result or last
            if not RunRecord.of(state).is_slice:
                return replace(state, result=last)
            reference = state.reference


class FreshCondition(_ResourceCondition):
    """
    Condition that the last successful run ended within a duration before now or before a given time.

    Further fields: ``max_age`` in seconds, and ``as_of``, the time at which the duration ends, by default now.
    """

    name = "fresh"

    def bound(self, now: float) -> datetime:
        """Return the earliest end time that satisfies the condition."""
        as_of = self.fields.get("as_of")
        end = datetime.fromtimestamp(now, UTC) if as_of is None else parse_time("as_of", as_of)
        try:
            return end - timedelta(seconds=self.fields["max_age"])
        except OverflowError:
            # The duration is longer than the calendar: each successful run counts.
            return _FIRST_MOMENT

    @override
    async def check(self, now: float) -> Check:
        rule = RunFilter(self.bound(now), RunTime.END)
        target = await self.target()
        runs = await newest_back_to(self.kind, target, rule)
        latest = _latest(now)
        good = [(end, run) for run in runs if run.succeeded and (end := run.ended_by(latest)) is not None]
        end, best = max(good, key=lambda each: each[0], default=(None, None))
        if best is not None and end is not None and end >= rule.moment:
            return self._met_by(best.state)
        last = f"; the last one ended at {end:%Y-%m-%d %H:%M:%S %Z}" if end else ""
        return Check(f"no run of {target.name} has succeeded since {rule.moment:%Y-%m-%d %H:%M:%S %Z}{last}")


class LastRunCondition(_ResourceCondition):
    """Condition that a run has ended. The result is that of the last ended run, even if another run is active."""

    name = "last_run"

    @override
    async def check(self, now: float) -> Check:
        target = await self.target()
        last = await last_over(self.kind, target, _latest(now))
        return Check(f"no run of {target.name} has ended so far") if last is None else self._met_by(last.state)


def _check_owner(kind: Kind, reference: RunRef, run: Any) -> None:
    """
    Check that a run belongs to the resource of the sensor.

    :raises ValueError: if it is a run of another resource.
    """
    owner = getattr(run, kind.owner_field)
    if owner != reference.resource_id:
        raise ValueError(
            f"run_id is wrong: {reference.run_id!r} is a run of {kind.noun} {owner}, not of {reference.resource_id}. "
            f"Set the ID of a run of {reference.resource_id}, or check the result of its template."
        )


def _check_of_active_run(state: RunState) -> Check:
    """Return the check of one run that is active or scheduled."""
    return Check(_state(state), awaited=state.reference, is_running=state.outcome is Outcome.RUNNING)


def _state(state: RunState) -> str:
    """Return the state of a run in words."""
    run_id = state.reference.run_id
    return f"{resource_label(state.reference)}: run{f' {short_run_id(run_id)}' if run_id else ''} is {state.outcome}"


def _latest(now: float) -> datetime:
    """Return the last plausible time of the service."""
    return datetime.fromtimestamp(now, UTC) + _CLOCK_SKEW


async def durations_of_earlier_runs(reference: RunRef) -> list[float]:
    """
    Return the durations of the successful runs before a run, in seconds, newest first.

    :param reference: the run.
    """
    kind = KINDS[reference.kind]
    return kind.durations(await send(kind.newest(reference.resource_id)))
