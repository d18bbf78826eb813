"""Integrations: the external systems that the account can connect to."""

from __future__ import annotations

from airflow_provider_datapipe.api.endpoints.registry import endpoint
from airflow_provider_datapipe.api.models.common import Page
from airflow_provider_datapipe.api.models.integrations import Integration
from airflow_provider_datapipe.api.request import Repeat


@endpoint("GET", "/integrations", answer=Page[Integration], repeat=Repeat.READ)
def list_(*, ability: str | None = None) -> None:
    """
    List the integrations that are included in the account's plan.

    :param ability: ``EltSource`` or ``ReverseEtlDestination`` (service default: ``EltSource``).
    """
