"""Operators for orchestrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator, required

if TYPE_CHECKING:
    from airflow_provider_datapipe.runs.reference import Target


class OrchestrationRunOperator(DatapipeSingleRunOperator):
    """
    Run an orchestration, with all that is attached to it, and wait until it has ended.

    Returns a :class:`~airflow_provider_datapipe.runs.reference.RunResult`.

    :param orchestration_id: id of the orchestration. (templated)

    .. seealso:: interface.md, "POST /orchestrations/{id}/request_run".
    """

    template_fields: Sequence[str] = (*DatapipeRunOperator.template_fields, "orchestration_id")
    kind = "orchestration"

    def __init__(self, *, orchestration_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.orchestration_id = orchestration_id

    def _target(self) -> Target:
        from airflow_provider_datapipe.runs.reference import Target

        orchestration_id = required("orchestration_id", self.orchestration_id)
        return Target(orchestration_id, orchestration_id)
