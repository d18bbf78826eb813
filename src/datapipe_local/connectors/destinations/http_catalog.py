"""Catalog of an HTTP endpoint. An endpoint does not list its object types: the connection declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.connectors.destinations.catalog import DestinationCatalog, one_of, schema_of_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datapipe_local.connectors.destinations.catalog import Json
    from datapipe_local.connectors.destinations.settings import Property

LARGEST_BATCH = 1_000
_ADDRESSES = {
    "collection": "URL of all objects: <url>/<object type>",
    "record": "URL of each object: <url>/<object type>/<key>",
}
_METHODS = {
    "collection": {"POST": "POST", "PUT": "PUT"},
    "record": {"PATCH": "PATCH: other properties stay unchanged", "PUT": "PUT: the whole object"},
}


class HttpCatalog(DestinationCatalog):
    """Catalog of a connection to an HTTP endpoint."""

    def object_type_ids(self) -> list[str]:
        """Return an empty list."""
        return []

    def properties(self, object_type_id: str) -> list[Property]:
        """Return an empty list."""
        return []

    def settings_schema(self, known: Mapping[str, Any]) -> Json:
        """Return the schema of address, method and batch size. The choices of the method depend on the address."""
        method: Json = {"type": "string", "title": "Method", "description": "HTTP method for a record."}
        methods = _METHODS.get(str(known.get("address")))
        if methods is not None:
            method["oneOf"] = one_of(methods)
        address = {
            "type": "string",
            "title": "Address",
            "description": (
                "Where a record is sent. Default: POST to the URL of all objects; to update, PATCH to its own URL."
            ),
            "oneOf": one_of(_ADDRESSES),
        }
        batch_size = {
            "type": "integer",
            "title": "Batch size",
            "description": (
                "Largest number of records in one request, as an array, to the URL of all objects. Default:"
                " one request for each record."
            ),
            "minimum": 1,
            "maximum": LARGEST_BATCH,
        }
        return schema_of_settings(
            "How records are sent",
            {"address": address, "method": method, "batch_size": batch_size},
            {"method": ["address"]},
        )

    def addresses_by_key(self, settings: Mapping[str, Any]) -> bool:
        """Return True if each record has its own URL."""
        return settings.get("address") == "record"

    def conflict(self, mode: OperationName, settings: Mapping[str, Any]) -> str | None:
        """Return why settings and mode conflict: updates need URLs of their own, and those exclude batches."""
        if mode == OperationName.UPDATE and settings.get("address") == "collection":
            return "address: an update needs the URL of each record: give 'record', or omit the setting."
        if "batch_size" in settings and (mode == OperationName.UPDATE or settings.get("address") == "record"):
            return "batch_size: records with their own URLs are sent one by one: omit the setting."
        return None
