"""Query parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from airflow_provider_datapipe.api.models.common import Body
from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from airflow_provider_datapipe.api.models.rules import Cron, Omissible, PageSize
from airflow_provider_datapipe.api.models.transforms import TransformStatus

_Id = Annotated[str, Field(min_length=1)]


class Query(Body):
    """All query parameters of the interface with their types. A name has the same meaning in all endpoints."""

    elt_sync_id: Omissible[_Id] = None
    elt_stream_id: Omissible[_Id] = None
    orchestration_id: Omissible[_Id] = None
    reverse_etl_sync_id: Omissible[_Id] = None
    connection_id: Omissible[_Id] = None
    destination_connection_id: Omissible[_Id] = None
    source_id: Omissible[_Id] = None
    object_type_id: Omissible[_Id] = None
    object_type: Omissible[_Id] = None
    operation_mode: Omissible[_Id] = None
    ability: Omissible[IntegrationAbility] = None
    status: Omissible[TransformStatus] = None
    name: Omissible[str] = None
    folder_path: Omissible[str] = None
    cron_schedule: Omissible[Cron] = None
    cron_expression: Omissible[Cron] = None
    remove_data_references: Omissible[bool] = Field(default=None, alias="removeDataReferences")
    starting_after: Omissible[_Id] = None
    limit: Omissible[PageSize] = None
    sort_direction: Omissible[Literal["asc", "desc"]] = None
