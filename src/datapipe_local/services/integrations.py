"""Integrations: kinds of systems that connections lead to, derived from the implemented sources and destinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from datapipe_local.common.errors import NotFoundError
from datapipe_local.connectors.destinations import DESTINATIONS
from datapipe_local.connectors.sources import SOURCES
from datapipe_local.storage.table import Page, Position

if TYPE_CHECKING:
    from datapipe_local.common.base_model import Strict

# Name of the list in its cursors.
_LIST = "integrations"


@dataclass(frozen=True)
class Integration:
    """
    Kind of system that a connection leads to.

    :param id: ID of the integration.
    :param settings: Settings model of its connections. The title of the model is the display name.
    :param abilities: Purposes that its connections support.
    """

    id: str
    settings: type[Strict]
    abilities: tuple[IntegrationAbility, ...]

    @property
    def name(self) -> str:
        """Return the display name."""
        return self.settings.model_config["title"] or self.id


def known() -> dict[str, Integration]:
    """Return all integrations by ID, sorted."""
    settings: dict[str, type[Strict]] = {name: kind.settings for name, kind in SOURCES.items()} | DESTINATIONS
    users = {
        IntegrationAbility.ELT_SOURCE: SOURCES.keys(),
        IntegrationAbility.REVERSE_ETL_DESTINATION: DESTINATIONS.keys(),
    }
    return {
        name: Integration(name, settings[name], tuple(ability for ability, user in users.items() if name in user))
        for name in sorted(settings)
    }


def get(integration_id: str) -> Integration:
    """
    Return an integration.

    :raises NotFoundError: if the integration does not exist.
    """
    integration = known().get(integration_id)
    if integration is None:
        raise NotFoundError("integration", integration_id)
    return integration


def page(ability: IntegrationAbility, *, after: str | None, limit: int) -> Page[Integration]:
    """
    Return a page of the integrations with an ability, by ID.

    :raises BadRequestError: if the cursor is invalid.
    """
    last = "" if after is None else Position.parse(after, _LIST).value
    found = [one for one in known().values() if ability in one.abilities and one.id > last]
    more = len(found) > limit
    return Page(found[:limit], Position(_LIST, found[limit - 1].id, 0).as_cursor() if more else None)
