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
    """
    ``IntegrationDto``.

    :param id: ID of the integration, such as ``google-drive``.
    :param name: display name.
    :param min_required_plan: lowest plan of the account that includes the integration.
    :param supports_start_date: True if syncs can have a ``start_date``.
    :param abilities: supported uses of the integration.
    """

    id: str
    name: str
    min_required_plan: str | None = None
    supports_start_date: bool
    abilities: tuple[Annotated[IntegrationAbility | str, OPEN_ENUM], ...]
