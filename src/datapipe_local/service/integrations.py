"""Integrations: what can be connected to. Read off what implements them, so that the list can't differ from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_datapipe.api.models.integrations import IntegrationAbility
from datapipe_local.destinations import DESTINATIONS
from datapipe_local.errors import NotFoundError
from datapipe_local.sources import SOURCES
from datapipe_local.store.table import Page, Position

if TYPE_CHECKING:
    from datapipe_local.strict import Strict

# What the cursors of the list say of whose they are.
_LIST = "integrations"


@dataclass(frozen=True)
class Integration:
    """
    What can be connected to.

    :param id: Its id.
    :param settings: What its connections are told; the title is its name for people.
    :param abilities: What its connections can be used for.
    :param supports_start_date: It can leave out what is older than a date.
    """

    id: str
    settings: type[Strict]
    abilities: tuple[IntegrationAbility, ...]
    supports_start_date: bool = False

    @property
    def name(self) -> str:
        """Its name for people."""
        return self.settings.model_config["title"] or self.id


def known() -> dict[str, Integration]:
    """Give all of them, in the order of their ids."""
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
    Give an integration.

    :raises NotFoundError: there is none with this id.
    """
    integration = known().get(integration_id)
    if integration is None:
        raise NotFoundError("integration", integration_id)
    return integration


def page(ability: IntegrationAbility, *, after: str | None, limit: int) -> Page[Integration]:
    """
    Give a part of the list of those that can be used for something, by id.

    :raises BadRequestError: the cursor is not one.
    """
    last = "" if after is None else Position.parse(after, _LIST).value
    found = [one for one in known().values() if ability in one.abilities and one.id > last]
    more = len(found) > limit
    return Page(found[:limit], Position(_LIST, found[limit - 1].id, 0).as_cursor() if more else None)
