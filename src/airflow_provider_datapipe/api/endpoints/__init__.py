"""
The endpoints, one module per resource.

An endpoint function does no I/O: it returns a :class:`~airflow_provider_datapipe.api.request.Request`, which a client
sends. Arguments that break a rule of the interface are refused with an
:class:`~airflow_provider_datapipe.api.errors.InvalidInputError` before that. What is not said is not sent, so that
the service's defaults hold; :data:`~airflow_provider_datapipe.api.models.common.UNSET` says so explicitly.
:data:`ENDPOINTS` names them all.
"""

from __future__ import annotations

from types import MappingProxyType

from airflow_provider_datapipe.api.endpoints import (
    connection_bridges,
    connections,
    custom_reports,
    elt_stream_runs,
    elt_streams,
    elt_syncs,
    integrations,
    orchestration_runs,
    orchestrations,
    query_previews,
    reverse_etl_failed_records,
    reverse_etl_sync_runs,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.endpoints import registry as _registry

__all__ = [
    "ENDPOINTS",
    "FUNCTIONS",
    "connection_bridges",
    "connections",
    "custom_reports",
    "elt_stream_runs",
    "elt_streams",
    "elt_syncs",
    "integrations",
    "orchestration_runs",
    "orchestrations",
    "query_previews",
    "reverse_etl_failed_records",
    "reverse_etl_sync_runs",
    "reverse_etl_syncs",
    "transforms",
]

#: Each endpoint by its name, such as ``elt_streams.request_run``, with method and path template.
ENDPOINTS = MappingProxyType(_registry.DECLARED)

#: The function of each endpoint, by the same name.
FUNCTIONS = MappingProxyType(_registry.FUNCTIONS)
