"""Schema of integrations."""

from __future__ import annotations

from typing_extensions import TypedDict

from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from datapipe_local.api.models.common import dto


@dto
class IntegrationDto(TypedDict):
    """Kind of system that a connection leads to."""

    id: str
    name: str
    supports_start_date: bool
    abilities: list[IntegrationAbility]
