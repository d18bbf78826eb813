"""OpenAPI document of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import BaseRoute

#: Version label of the interface description.
VERSION = "0.1"
_KEY = "ApiKey"
# FastAPI's response to an invalid request, which this service never sends.
_NEVER_SENT = "422"
_NEVER_USED = ("HTTPValidationError", "ValidationError")


def document(routes: Sequence[BaseRoute], open_routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """
    Return the OpenAPI document.

    :param routes: The routes that need the API key.
    :param open_routes: Further routes, which need no key.
    """
    made = get_openapi(
        title="Data pipeline management service, on this machine",
        version=VERSION,
        description="Interface of datapipe-local. Lists have each field of their envelope in two spellings.",
        routes=[*routes, *open_routes],
    )
    open_paths = {route.path for route in open_routes if hasattr(route, "path")}
    for path, operations in made["paths"].items():
        for operation in operations.values():
            operation["responses"].pop(_NEVER_SENT, None)
            for parameter in operation.get("parameters", []):
                parameter["schema"] = _without_null(parameter["schema"])
                if parameter["in"] == "path":
                    # An empty parameter would be another path.
                    parameter["schema"]["minLength"] = 1
            if path not in open_paths:
                operation["security"] = [{_KEY: []}]
    components = made.setdefault("components", {})
    for name in _NEVER_USED:
        components.get("schemas", {}).pop(name, None)
    components["securitySchemes"] = {_KEY: {"type": "apiKey", "in": "header", "name": "x-api-key"}}
    return made


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the schema of an optional parameter: parameters in a URL cannot be null."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**{name: value for name, value in schema.items() if name != "anyOf"}, **kinds[0]}
