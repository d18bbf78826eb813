"""JSON Schema of the seed, for editors and other programs. Only ``init`` checks references between entries."""

from __future__ import annotations

from typing import Any

from datapipe_local.connectors.destinations.catalog import DRAFT
from datapipe_local.connectors.sources import SOURCES
from datapipe_local.seed.models import Seed
from datapipe_local.services import integrations
from datapipe_local.services.settings_schema import settings_schema


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a seed file, derived from the models."""
    made = Seed.model_json_schema(ref_template="#/definitions/{model}")
    definitions: dict[str, Any] = made.pop("$defs")
    settings = {name: settings_schema(one.settings) for name, one in integrations.known().items()}
    connection = definitions["Connection"]
    connection["properties"]["integration_id"]["enum"] = list(settings)
    connection["allOf"] = [
        {
            "if": {"properties": {"integration_id": {"const": name}}},
            "then": {"properties": {"settings": _closed(one)}},
        }
        for name, one in settings.items()
    ]
    stream = definitions["SourceStream"]
    # The connection of the sync determines which of them a stream can have.
    for kind in SOURCES.values():
        for name, setting in settings_schema(kind.origin)["properties"].items():
            known = stream["properties"].get(name)
            stream["properties"][name] = setting if known in (None, setting) else {"anyOf": [known, setting]}
    stream["additionalProperties"] = False
    return {
        "$schema": DRAFT,
        "title": "Seed of datapipe-local",
        **{name: value for name, value in made.items() if name != "title"},
        "definitions": definitions,
    }


def _closed(one: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in one.items() if name != "$schema"}, "additionalProperties": False}
