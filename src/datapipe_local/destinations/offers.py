"""What a destination says of itself before anything is written to it: kinds of objects, properties, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_datapipe.api.models.reverse_etl import OperationName
    from datapipe_local.destinations.settings import Property

Json = dict[str, Any]

_DRAFT = "http://json-schema.org/draft-07/schema#"


class Offer(Protocol):
    """What the destination of one connection has to offer."""

    def object_type_ids(self) -> list[str]:
        """Give the kinds of objects that it has now; there may be more once somebody writes them."""

    def properties(self, object_type_id: str) -> list[Property]:
        """Give the properties that its objects have now; there may be more once somebody writes them."""

    def settings_schema(self, known: Mapping[str, Any]) -> Json:
        """
        Give what settings a sync takes, as a JSON Schema.

        :param known: Settings that are known already. A field whose choices depend on others has its choices if
            these are among them.
        """

    def addresses_by_key(self, settings: Mapping[str, Any]) -> bool:
        """Tell whether each record needs a key, whatever is done with it."""

    def conflict(self, mode: OperationName, settings: Mapping[str, Any]) -> str | None:
        """Tell why something cannot be done with such settings, as ``<setting>: <why>: <what to do>.``."""


def schema_of_settings(title: str, properties: Json, dependencies: Mapping[str, list[str]]) -> Json:
    """Give a JSON Schema (draft-07) of settings, none of which is required."""
    return {
        "$schema": _DRAFT,
        "title": title,
        "type": "object",
        "properties": properties,
        "dependencies": dict(dependencies),
        "additionalProperties": False,
    }


def one_of(choices: Mapping[str, str]) -> list[Json]:
    """Give choices as JSON Schema tells them: each value with what people call it."""
    return [{"const": value, "title": title} for value, title in choices.items()]
