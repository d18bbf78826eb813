"""Materializations of transforms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.api.models.common import known_time
from airflow_provider_datapipe.api.models.transforms import (
    Materialization,
    MaterializationStatus,
    Transform,
    TransformStatus,
)
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.kinds.base import Kind, result_of_run
from airflow_provider_datapipe.runs.models import RunRef, RunState, RunTarget
from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of_materialization
from airflow_provider_datapipe.runs.task_state import KnownRuns

#: Seconds by which ``updated_at`` may differ between answers: some have whole seconds.
_PRECISION = 1.0


class TransformKind(Kind):
    """
    Materializations of transforms. They have no ID, so the transform shows their state.

    Options: the overrides of :func:`~airflow_provider_datapipe.api.endpoints.transforms.publish`, or ``rematerialize``:
    True to rebuild the published version instead.
    """

    name = "transform"
    noun = "transform"

    @override
    def request(self, target: RunTarget) -> Request[Transform]:
        overrides = dict(target.options)
        if overrides.pop("rematerialize", False):
            return transforms.rematerialize(target.resource_id)
        return transforms.publish(target.resource_id, **overrides)

    @override
    def accepted(self, target: RunTarget, answer: Transform, baseline: KnownRuns | None = None) -> RunState:
        earlier = None if baseline is None else baseline.state
        return self.read(RunRef.to(self.name, target, since=_updated(answer), earlier_state=earlier), answer)

    @override
    def newest(self, resource_id: str) -> Request[Transform]:
        return transforms.get(resource_id)

    @override
    def baseline(self, target: RunTarget, newest: Transform, since: float) -> KnownRuns:
        return KnownRuns(since=since, state=_state(newest))

    @override
    def find_new(self, target: RunTarget, baseline: KnownRuns, newest: Transform, now: float) -> RunState | None:
        # A publication is visible only as a change of the transform, and a rebuild possibly only in its status.
        if newest.status != TransformStatus.PUBLISHED or not _has_changed(baseline.state, _state(newest)):
            return None
        return self.read(RunRef.to(self.name, target, since=_updated(newest), attached=True), newest)

    @override
    def find_run(self, reference: RunRef, newest: Transform) -> RunState:
        return self.read(reference, newest)

    @override
    def find_active(self, target: RunTarget, newest: Transform) -> RunState | None:
        state = self.read(RunRef.to(self.name, target, attached=True), newest)
        return None if state.outcome.is_over else state

    @override
    def poll_request(self, reference: RunRef) -> Request[Transform]:
        return transforms.get(reference.resource_id)

    @override
    def read(self, reference: RunRef, answer: Transform) -> RunState:
        known = replace(reference, name=f"{answer.folder_path}/{answer.name}".lstrip("/"))
        is_table = answer.materialization != Materialization.VIEW
        outcome = outcome_of_materialization(answer.materialization_status, is_table=is_table)
        if reference.since is not None and 0 < _updated(answer) < reference.since - _PRECISION:
            # A lagging replica shows the outcome of the materialization before this one.
            outcome = Outcome.RUNNING
        status = answer.materialization_status or answer.status
        result = result_of_run(known, outcome, status=status, error=answer.materialization_error)
        # Some services do not change updated_at for a rebuild. Then its final state can equal the state before it.
        may_be_stale = is_table and reference.earlier_state is not None and _state(answer) == reference.earlier_state
        return RunState(known, outcome, result, may_be_stale=may_be_stale)


def _updated(transform: Transform) -> float:
    """Return the time of the last change of a transform in seconds since the epoch, 0 if not known."""
    updated_at = known_time(transform.updated_at)
    return 0.0 if updated_at is None else updated_at.timestamp()


def _state(transform: Transform) -> dict[str, Any]:
    """Return the fields that publishing or rebuilding a transform changes."""
    return {
        "updated_at": _updated(transform),
        "status": str(transform.status),
        "build": transform.materialization_status and str(transform.materialization_status),
        "error": transform.materialization_error,
    }


def _has_changed(before: dict[str, Any] | None, now: dict[str, Any]) -> bool:
    """
    Return True if a transform was published or rebuilt since an earlier state.

    :param before: the earlier state; None if not known.
    :param now: the state now, which is out of date if a replica lags behind.
    """
    if before is None or now == before or now["updated_at"] < before["updated_at"]:
        return False
    # If the time is equal, a build that was running before has ended. This is not a new build.
    return bool(now["updated_at"] > before["updated_at"] or before["build"] != MaterializationStatus.RUNNING)
