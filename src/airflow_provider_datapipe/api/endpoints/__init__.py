"""
The endpoints, one module per resource.

An endpoint function does no I/O: it returns a :class:`~airflow_provider_datapipe.api.request.Request`, which a client
sends. :data:`ENDPOINTS` names them all.
"""

from __future__ import annotations

from types import MappingProxyType

from airflow_provider_datapipe.api.endpoints import (
    connections,
    elt_stream_runs,
    elt_streams,
    elt_syncs,
    orchestration_runs,
    orchestrations,
    reverse_etl_failed_records,
    reverse_etl_sync_runs,
    reverse_etl_syncs,
    transforms,
)
from airflow_provider_datapipe.api.endpoints.registry import DECLARED

__all__ = [
    "ENDPOINTS",
    "connections",
    "elt_stream_runs",
    "elt_streams",
    "elt_syncs",
    "orchestration_runs",
    "orchestrations",
    "reverse_etl_failed_records",
    "reverse_etl_sync_runs",
    "reverse_etl_syncs",
    "transforms",
]

#: Each endpoint by its name, such as ``elt_streams.request_run``, with method and path template.
ENDPOINTS = MappingProxyType(DECLARED)
