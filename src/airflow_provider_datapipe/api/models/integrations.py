"""Integrations: the external systems that the account can connect to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from airflow_provider_datapipe.api.models.common import OPEN_ENUM, Answer


class IntegrationAbility(StrEnum):
    """``OpenApiIntegrationAbility``: supported use of an integration."""

    ELT_SOURCE = "EltSource"
    REVERSE_ETL_DESTINATION = "ReverseEtlDestination"


class Integration(Answer):
    """``IntegrationDto``."""

    id: str
    name: str
    min_required_plan: str | None = None
    supports_start_date: bool
    abilities: tuple[Annotated[IntegrationAbility | str, OPEN_ENUM], ...]
