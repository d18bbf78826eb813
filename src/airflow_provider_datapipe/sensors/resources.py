"""Base classes of the sensors for each kind of resource. DAG files import this module, so it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_datapipe.arguments import exactly_one, identify_stream
from airflow_provider_datapipe.sensors.base import DatapipeSensor


class DatapipeStreamSensor(DatapipeSensor):
    """
    Base class of sensors for an ELT stream.

    :param stream_id: ID of the stream; alternatively, ``sync_id`` and ``stream_name``. (templated)
    :param sync_id: ID of the sync of the stream. (templated)
    :param stream_name: name of the stream in its sync. (templated)
    """

    template_fields: Sequence[str] = ("stream_id", "sync_id", "stream_name")
    condition_fields: ClassVar[tuple[str, ...]] = ("stream_id", "sync_id", "stream_name")
    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "elt_stream"}

    def __init__(
        self,
        *,
        stream_id: str | None = None,
        sync_id: str | None = None,
        stream_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        identify_stream(stream_id, stream_name, sync_id=sync_id)
        self.stream_id = stream_id
        self.sync_id = sync_id
        self.stream_name = stream_name


class DatapipeSyncSensor(DatapipeSensor):
    """
    Base class of sensors for the streams of an ELT sync.

    :param sync_id: ID of the sync. (templated)
    :param streams: names or IDs of the streams; None for all. (templated)
    """

    template_fields: Sequence[str] = ("sync_id", "streams")
    condition = "sync"
    condition_fields: ClassVar[tuple[str, ...]] = ("sync_id", "streams")
    non_empty_lists: ClassVar[Mapping[str, str]] = {"streams": "all streams of the sync"}

    def __init__(self, *, sync_id: str, streams: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sync_id = sync_id
        self.streams = streams


class DatapipeOrchestrationSensor(DatapipeSensor):
    """
    Base class of sensors for an orchestration.

    :param orchestration_id: ID of the orchestration; alternatively, ``orchestration_name``. (templated)
    :param orchestration_name: name of the orchestration. (templated)
    """

    template_fields: Sequence[str] = ("orchestration_id", "orchestration_name")
    condition_fields: ClassVar[tuple[str, ...]] = ("orchestration_id", "orchestration_name")
    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "orchestration"}

    def __init__(
        self, *, orchestration_id: str | None = None, orchestration_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        exactly_one(orchestration_id=orchestration_id, orchestration_name=orchestration_name)
        self.orchestration_id = orchestration_id
        self.orchestration_name = orchestration_name


class DatapipeReverseEtlSensor(DatapipeSensor):
    """
    Base class of sensors for a reverse ETL sync.

    :param reverse_etl_sync_id: ID of the reverse ETL sync. (templated)
    """

    template_fields: Sequence[str] = ("reverse_etl_sync_id",)
    condition_fields: ClassVar[tuple[str, ...]] = ("reverse_etl_sync_id",)
    condition_constants: ClassVar[Mapping[str, Any]] = {"kind": "reverse_etl"}

    def __init__(self, *, reverse_etl_sync_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reverse_etl_sync_id = reverse_etl_sync_id
