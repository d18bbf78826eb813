"""JSON Schema (draft-07) of connection settings, without references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datapipe_local.connectors.destinations.catalog import DRAFT
from datapipe_local.storage.records import Json

if TYPE_CHECKING:
    from datapipe_local.common.base_model import Strict

_REFERENCE = "#/$defs/"
# Keywords of OpenAPI that JSON Schema does not have.
_FOREIGN = frozenset({"discriminator"})


def settings_schema(model: type[Strict]) -> Json:
    """
    Return the JSON Schema of a settings model.

    :param model: Model that validates the settings.
    :return: Schema with only the members that the interface defines.
    """
    made = model.model_json_schema()
    whole = _in_one_piece(made, made.get("$defs", {}))
    schema = {"$schema": DRAFT, "title": whole["title"], "type": whole["type"], "properties": whole["properties"]}
    if "required" in whole:
        schema["required"] = whole["required"]
    return schema


def _in_one_piece(node: Any, definitions: Json) -> Any:
    if isinstance(node, list):
        return [_in_one_piece(entry, definitions) for entry in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REFERENCE):
        # Keywords next to the reference override those of the definition.
        node = {**definitions[reference.removeprefix(_REFERENCE)], **node}
        del node["$ref"]
    return {name: _in_one_piece(entry, definitions) for name, entry in node.items() if name not in _FOREIGN}
