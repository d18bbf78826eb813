"""Requests that `datapipe apply` sends for a new or changed orchestration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.endpoints import orchestrations as endpoints
from airflow_provider_datapipe.pipelines.workspace.units import succeeded
from airflow_provider_datapipe.resources import orchestrations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_datapipe.api.request import Request
    from airflow_provider_datapipe.pipelines.plan import Item, ReportItem
    from airflow_provider_datapipe.pipelines.workspace.models import OrchestrationEntry
    from airflow_provider_datapipe.pipelines.workspace.units import ApplyState, Key, Work
    from airflow_provider_datapipe.resources.differences import Differences

#: Schedule for a deletion that affects no attached resources. The interface requires one.
_ANY_SCHEDULE = "0 0 * * *"


def change(entry: OrchestrationEntry, item: Item, key: Key, *, known: str | None, differences: Differences) -> Work:
    """
    Return the flow that creates or updates an orchestration.

    :param known: its ID; None to create it.
    """

    async def work(state: ApplyState) -> Sequence[ReportItem]:
        if known is None:
            made = await orchestrations.create(entry.name, entry.cron_schedule, "keep")
            state.ids[key] = str(made["id"])
        else:
            await orchestrations.send_differences(known, differences)
        return [succeeded(item)]

    return work


def delete(orchestration_id: str, schedule: str | None) -> Request[Any]:
    """Return the request that deletes an orchestration to which nothing is attached."""
    return endpoints.delete(orchestration_id, cron_schedule=schedule or _ANY_SCHEDULE)
