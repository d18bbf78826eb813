"""
OpenLineage datasets for assets of the service.

Airflow imports this module when a DAG file uses an asset of the service, even without OpenLineage.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from openlineage.client.event_v2 import Dataset

    from airflow_provider_datapipe.runs.models import RunTarget

log = logging.getLogger(__name__)

#: Resources that correspond to one dataset. A sync loads several tables; an orchestration runs its attached resources.
_KINDS = {"elt_streams": "elt_stream", "transforms": "transform", "reverse_etl_syncs": "reverse_etl"}


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset | None:
    """
    Return the dataset for an asset. OpenLineage's listener calls this for assets from hooks and outlets.

    :param asset: the asset; its URI contains the connection ID.
    :param lineage_context: the hook that reported the asset, if any.
    :returns: the dataset; None if the asset is not one dataset, or if the service does not respond in time.
    """
    try:
        return _dataset_of(asset)
    except Exception:
        # The listener does not catch errors: the whole event of the task would be lost.
        log.warning("Cannot report the dataset of %s to OpenLineage.", asset.uri, exc_info=True)
        return None


def _dataset_of(asset: Asset) -> Dataset | None:
    from openlineage.client.event_v2 import Dataset

    from airflow_provider_datapipe.lineage.asking import budget_of
    from airflow_provider_datapipe.lineage.tasks import TaskOfRuns, lineage_of_task
    from airflow_provider_datapipe.runs.models import RunTarget

    parts = urlsplit(asset.uri)
    collection, _, resource_id = parts.path.strip("/").partition("/")
    if collection not in _KINDS:
        return None
    conn_id, target = unquote(parts.netloc), RunTarget(unquote(resource_id), unquote(resource_id))
    # The listener converts assets one after another under one time limit.
    budget = budget_of(conn_id, begins=False)
    if budget.is_spent:
        return None
    found = lineage_of_task(TaskOfRuns(conn_id, _KINDS[collection], lambda: _given(target)), budget)
    if found is None or not found.outputs:
        return None
    written = found.outputs[0]
    return Dataset(namespace=written.namespace, name=written.name, facets=written.facets)


async def _given(target: RunTarget) -> list[RunTarget]:
    return [target]
