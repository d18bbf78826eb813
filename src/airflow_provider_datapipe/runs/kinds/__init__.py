"""Kinds of run. Each kind builds its requests and reads the answers. Pure: no I/O."""

from __future__ import annotations

from airflow_provider_datapipe.runs.kinds.base import Kind
from airflow_provider_datapipe.runs.kinds.elt_stream import EltStreamKind
from airflow_provider_datapipe.runs.kinds.orchestration import OrchestrationKind
from airflow_provider_datapipe.runs.kinds.query_preview import QueryPreviewKind
from airflow_provider_datapipe.runs.kinds.reverse_etl import ReverseEtlKind
from airflow_provider_datapipe.runs.kinds.transform import TransformKind

__all__ = ["KINDS", "Kind"]

#: All kinds by name.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (EltStreamKind(), OrchestrationKind(), TransformKind(), ReverseEtlKind(), QueryPreviewKind())
}
