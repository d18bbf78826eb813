"""
Endpoint functions, one module per resource.

An endpoint function does no I/O: it returns a :class:`~airflow_provider_datapipe.api.request.Request`, which a client
sends. It raises :class:`~airflow_provider_datapipe.api.errors.InvalidInputError` for arguments that violate a rule of
the interface. Arguments that are :data:`~airflow_provider_datapipe.api.models.common.UNSET`, the default, are not
sent, so that the service's defaults apply. :data:`ENDPOINTS` lists all endpoints.
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

#: Declarations by endpoint name, such as ``elt_streams.request_run``, with method and path template.
ENDPOINTS = MappingProxyType(_registry.DECLARED)

#: Endpoint functions by endpoint name.
FUNCTIONS = MappingProxyType(_registry.FUNCTIONS)
