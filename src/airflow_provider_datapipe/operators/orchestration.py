"""Operators for orchestrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.reference import Target
    from airflow_provider_datapipe.runs.steps import Steps


class OrchestrationRunOperator(DatapipeSingleRunOperator):
    """
    Run an orchestration, with all that is attached to it, and wait until it has ended.

    Returns a :class:`~airflow_provider_datapipe.runs.reference.RunResult`.

    :param orchestration_id: ID of the orchestration; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)

    .. seealso:: interface.md, "POST /orchestrations/{id}/request_run".
    """

    template_fields: Sequence[str] = (*DatapipeRunOperator.template_fields, "orchestration_id", "orchestration_name")
    kind = "orchestration"
    asset_kind = "orchestration"
    asset_argument = "orchestration_id"
    endpoints = ("orchestrations.request_run",)

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        self.orchestration_id = orchestration_id
        self.orchestration_name = orchestration_name
        self._declare_assets()

    def _target(self) -> Steps[Target]:
        from airflow_provider_datapipe.runs.targets import orchestration_target

        return orchestration_target(self.orchestration_id, self.orchestration_name)
