"""Catalog of a destination: object types, properties and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
    from datapipe_local.connectors.destinations.settings import Property

Json = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"


class DestinationCatalog(Protocol):
    """Catalog of one connection's destination. By default, records need no key, and all settings are allowed."""

    def object_type_ids(self) -> list[str]:
        """Return the present object types. Writing others can add more."""

    def properties(self, object_type_id: str) -> list[Property]:
        """Return the present properties of an object type. Writing others can add more."""

    def settings_schema(self, known: Mapping[str, Any]) -> Json:
        """
        Return the JSON Schema of a sync's settings.

        :param known: The known settings. The choices of a setting that depends on others are included if those are
            known.
        """

    def addresses_by_key(self, settings: Mapping[str, Any]) -> bool:
        """Return True if every record needs a key, in all modes."""
        return False

    def conflict(self, mode: OperationName, settings: Mapping[str, Any]) -> str | None:
        """Return why the mode and the settings conflict, as ``<setting>: <reason>: <remedy>.``; None if they do not."""
        return None


def schema_of_settings(title: str, properties: Json, dependencies: Mapping[str, list[str]]) -> Json:
    """Return a JSON Schema (draft-07) of settings, all of them optional."""
    return {
        "$schema": DRAFT,
        "title": title,
        "type": "object",
        "properties": properties,
        "dependencies": dict(dependencies),
        "additionalProperties": False,
    }


def one_of(choices: Mapping[str, str]) -> list[Json]:
    """Return choices as JSON Schema constants with titles."""
    return [{"const": value, "title": title} for value, title in choices.items()]
