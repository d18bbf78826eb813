"""Catalog of a SQL database: tables and columns."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import types

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.catalog import DestinationCatalog, schema_of_settings
from datapipe_local.connectors.destinations.settings import LONGEST_NAME, Property, PropertyType
from datapipe_local.connectors.destinations.sql_delivery_log import TABLE
from datapipe_local.connectors.destinations.sql_engine import open_engine, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from datapipe_local.connectors.destinations.catalog import Json

_TYPES: dict[type[types.TypeEngine[Any]], PropertyType] = {
    types.Boolean: "boolean",
    types.Integer: "integer",
    types.Numeric: "number",
    types.DateTime: "datetime",
    types.Date: "date",
    types.ARRAY: "array",
    types.JSON: "object",
}


class SqlCatalog(DestinationCatalog):
    """
    Catalog of a connection to a SQL database.

    :param settings: The connection's settings.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def object_type_ids(self) -> list[str]:
        """Return the names of the tables; an empty list if the database cannot be reached."""
        with self._inspected() as found:
            return [] if found is None else sorted(name for name in found.get_table_names() if name != TABLE)

    def properties(self, object_type_id: str) -> list[Property]:
        """Return the columns of a table; an empty list if it does not exist."""
        schema, name = place_of(object_type_id)
        with self._inspected() as found:
            if found is None or not found.has_table(name, schema):
                return []
            keys = found.get_pk_constraint(name, schema)["constrained_columns"]
            return [
                Property(
                    id=column["name"],
                    type=_type_of(column["type"]),
                    required=not column["nullable"] and column["default"] is None and not column.get("autoincrement"),
                    primary_key=column["name"] in keys,
                )
                for column in found.get_columns(name, schema)
                if 0 < len(column["name"]) <= LONGEST_NAME
            ]

    def settings_schema(self, known: Mapping[str, Any]) -> Json:
        """Return an empty schema: there are no settings."""
        return schema_of_settings("How records are written", {}, {})

    @contextmanager
    def _inspected(self) -> Iterator[sa.Inspector | None]:
        try:
            engine = open_engine(self._settings)
        except RunError:
            yield None
            return
        try:
            connection = engine.connect()
        except sa.exc.SQLAlchemyError:
            yield None
            return
        with connection:
            yield sa.inspect(connection)


def _type_of(kind: types.TypeEngine[Any]) -> PropertyType:
    return next((name for base, name in _TYPES.items() if isinstance(kind, base)), "string")
