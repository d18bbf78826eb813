"""
The datasets of OpenLineage that assets of the service stand for.

Airflow imports this wherever a DAG file names an asset of any service, also where nobody has OpenLineage.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from openlineage.client.event_v2 import Dataset

    from airflow_provider_datapipe.runs.reference import Target
    from airflow_provider_datapipe.runs.steps import Steps

log = logging.getLogger(__name__)

#: What is one dataset. A sync loads several tables, and an orchestration does what is attached to it.
_KINDS = {"elt_streams": "elt_stream", "transforms": "transform", "reverse_etl_syncs": "reverse_etl"}


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset | None:
    """
    Say which dataset an asset is; the listener of OpenLineage asks for assets that functions and outlets name.

    :param asset: the asset; its URI names the connection.
    :param lineage_context: the hook that told of it, if one did.
    :returns: the dataset; None if it is not one, or the service does not say soon which one.
    """
    try:
        return _dataset_of(asset)
    except Exception:
        # Nobody catches it: a task's event would not be sent, whatever else it tells.
        log.warning("OpenLineage is not told which dataset %s is.", asset.uri, exc_info=True)
        return None


def _dataset_of(asset: Asset) -> Dataset | None:
    from openlineage.client.event_v2 import Dataset

    from airflow_provider_datapipe.lineage.asking import budget_of
    from airflow_provider_datapipe.lineage.tasks import TaskOfRuns, lineage_of_task
    from airflow_provider_datapipe.runs.reference import Target

    parts = urlsplit(asset.uri)
    collection, _, resource_id = parts.path.strip("/").partition("/")
    if collection not in _KINDS:
        return None
    conn_id, target = unquote(parts.netloc), Target(unquote(resource_id), unquote(resource_id))
    # The listener converts one asset after another, and has not long for all of them.
    budget = budget_of(conn_id, begins=False)
    if budget.is_spent:
        return None
    found = lineage_of_task(TaskOfRuns(conn_id, _KINDS[collection], lambda: _given(target)), budget)
    if found is None or not found.outputs:
        return None
    written = found.outputs[0]
    return Dataset(namespace=written.namespace, name=written.name, facets=written.facets)


def _given(target: Target) -> Steps[list[Target]]:
    yield from ()
    return [target]
