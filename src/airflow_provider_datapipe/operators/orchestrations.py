"""Operators that run, create, change and delete orchestrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_datapipe.arguments import exactly_one
from airflow_provider_datapipe.operators.base import DatapipeRunOperator, DatapipeSingleRunOperator
from airflow_provider_datapipe.operators.change import DatapipeChangeOperator

if TYPE_CHECKING:
    from airflow_provider_datapipe.flows import Flow
    from airflow_provider_datapipe.runs.models import RunTarget


class OrchestrationRunOperator(DatapipeSingleRunOperator):
    """
    Run an orchestration with all attached resources, and wait until the run ends.

    Returns a :class:`~airflow_provider_datapipe.runs.models.RunResult`.

    :param orchestration_id: ID of the orchestration; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)

    .. seealso:: :ref:`POST /orchestrations/{id}/request_run <interface-orchestrations-request-run>`.
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

    def _target(self) -> Flow[RunTarget]:
        from airflow_provider_datapipe.runs.targets import orchestration_target

        return orchestration_target(self.orchestration_id, self.orchestration_name)


class OrchestrationCreateOperator(DatapipeChangeOperator):
    """
    Create an orchestration. Its name identifies it.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param name: name of the orchestration. (templated)
    :param cron_schedule: cron expression of five fields, UTC. (templated)
    :param if_exists: policy if an orchestration of this name exists: ``update`` its schedule, ``keep`` it unchanged,
        or ``fail``. (templated)

    .. seealso:: :ref:`POST /orchestrations <interface-orchestrations-create>`.
    """

    flow = "orchestrations.create"
    endpoints = ("orchestrations.create", "orchestrations.update")

    def __init__(
        self, *, name: str, cron_schedule: str, if_exists: Literal["update", "keep", "fail"] = "update", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)


class DatapipeOrchestrationOperator(DatapipeChangeOperator):
    """
    Base of operators that change an existing orchestration.

    :param orchestration_id: ID of the orchestration; or set ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)
    """

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)


class OrchestrationUpdateOperator(DatapipeOrchestrationOperator):
    """
    Change the name or the schedule of an orchestration. Omitted fields keep their values.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param new_name: the new name. (templated)
    :param cron_schedule: the new cron expression of five fields, UTC. (templated)

    .. seealso:: :ref:`POST /orchestrations/{id} <interface-orchestrations-update>`.
    """

    flow = "orchestrations.update"
    endpoints = ("orchestrations.update",)

    def __init__(self, *, new_name: str | None = None, cron_schedule: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class OrchestrationDeleteOperator(DatapipeOrchestrationOperator):
    """
    Delete an orchestration. Its attached resources get the given schedule.

    Returns a :class:`~airflow_provider_datapipe.resources.base.Change`.

    :param cron_schedule: cron expression of five fields, UTC, for the resources that were attached. (templated)
    :param if_missing: policy if the orchestration does not exist: ``succeed`` or ``fail``. (templated)

    .. seealso:: :ref:`DELETE /orchestrations/{id} <interface-orchestrations-delete>`.
    """

    flow = "orchestrations.delete"
    endpoints = ("orchestrations.delete",)

    def __init__(
        self, *, cron_schedule: str, if_missing: Literal["succeed", "fail"] = "succeed", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
