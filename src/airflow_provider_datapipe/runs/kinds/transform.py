"""Materializations of transforms."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.api.errors import ConflictError
from airflow_provider_datapipe.api.models.common import format_timestamp
from airflow_provider_datapipe.api.models.transforms import Materialization, Transform, TransformStatus
from airflow_provider_datapipe.api.request import Request
from airflow_provider_datapipe.runs.kinds.base import Kind, result_of_run
from airflow_provider_datapipe.runs.outcome import Outcome, outcome_of_materialization
from airflow_provider_datapipe.runs.reference import Observation, Reference, Target


class TransformKind(Kind):
    """
    Materializations of transforms, which have no id: the transform itself shows where they stand.

    Options: the overrides of :func:`~airflow_provider_datapipe.api.endpoints.transforms.publish`, or ``rematerialize``:
    whether what is published is built again instead.
    """

    name = "transform"
    noun = "transform"

    @override
    def request(self, target: Target) -> Request[Transform]:
        overrides = dict(target.options)
        if overrides.pop("rematerialize", False):
            return transforms.rematerialize(target.resource_id)
        return transforms.publish(target.resource_id, **overrides)

    @override
    def accepted(self, target: Target, answer: Transform) -> Observation:
        return self.read(Reference.to(self.name, target, since=format_timestamp(answer.updated_at)), answer)

    @override
    def newest(self, resource_id: str) -> Request[Transform]:
        return transforms.get(resource_id)

    @override
    def cursor(self, newest: Transform) -> str | None:
        return format_timestamp(newest.updated_at)

    @override
    def after(self, resource_id: str, cursor: str | None) -> Request[Transform]:
        return transforms.get(resource_id)

    @override
    def first_after(self, target: Target, cursor: str | None, answer: Transform) -> Observation | None:
        # Publishing leaves no other trace than a change of the transform.
        changed = format_timestamp(answer.updated_at) != cursor
        return self.accepted(target, answer) if changed and answer.status == TransformStatus.PUBLISHED else None

    @override
    def conflict(self, target: Target, error: ConflictError, newest: Transform | None) -> Reference:
        return Reference.to(self.name, target, attached=True)

    @override
    def look(self, reference: Reference) -> Request[Transform]:
        return transforms.get(reference.resource_id)

    @override
    def read(self, reference: Reference, answer: Transform) -> Observation:
        known = replace(reference, name=f"{answer.folder_path}/{answer.name}".lstrip("/"))
        is_table = answer.materialization != Materialization.VIEW
        outcome = outcome_of_materialization(answer.materialization_status, is_table=is_table)
        if reference.since is not None and format_timestamp(answer.updated_at) < reference.since:
            # A replica that lags behind shows how the materialization before this one ended.
            outcome = Outcome.RUNNING
        status = answer.materialization_status or answer.status
        return Observation(
            known, outcome, result_of_run(known, outcome, status=status, error=answer.materialization_error)
        )
