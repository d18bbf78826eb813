"""Catalog of reverse ETL destinations: object types, operations, properties and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import BadRequestError
from datapipe_local.connectors import destinations
from datapipe_local.connectors.destinations import DESTINATIONS
from datapipe_local.connectors.destinations.settings import ObjectType, Property, PropertyType
from datapipe_local.services import connections, reverse_etl_sources
from datapipe_local.services.checks import check_id, check_json
from datapipe_local.warehouse.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jsonschema.exceptions import ValidationError

    from datapipe_local.services.context import Context
    from datapipe_local.services.reverse_etl_sources import Source
    from datapipe_local.storage.records import Connection, Json

#: Operations that find existing records by key.
WITH_KEY = frozenset({OperationName.UPDATE, OperationName.UPSERT, OperationName.MIRROR})
# Alias of UPSERT that the interface accepts for an operation.
_MERGE = "MERGE"
_TYPES: dict[str, PropertyType] = {
    "BOOLEAN": "boolean",
    "DATE": "date",
    "DECIMAL": "number",
    "DOUBLE": "number",
    "FLOAT": "number",
    "MAP": "object",
    "STRUCT": "object",
    "TIMESTAMP": "datetime",
}


class Offered(NamedTuple):
    """
    Object type of a destination.

    :param object_type: Object type.
    :param declared: True if the connection declares its object types, so that no others exist.
    """

    object_type: ObjectType
    declared: bool


def object_types(context: Context, connection_id: str) -> list[Offered]:
    """
    Return the object types that a connection declares.

    Without a declaration, return those that exist at the destination or that a sync writes.

    :raises NotFoundError: if the connection does not exist.
    :raises BadRequestError: if the connection is not a destination.
    """
    connection = destination(context, connection_id)
    declared = _declared(connection)
    if declared is not None:
        return [Offered(one, declared=True) for one in declared]
    written = context.store.database.rows(
        "SELECT DISTINCT object_type_id FROM reverse_etl_syncs WHERE destination_connection_id = ?", connection_id
    )
    there = {*destinations.catalog_of(connection).object_type_ids(), *(row["object_type_id"] for row in written)}
    return [found for name in sorted(there) if (found := _open(name)) is not None]


def operations(context: Context, connection_id: str, object_type_id: str) -> list[OperationName]:
    """
    Return the operations of an object type.

    :raises NotFoundError: if the connection does not exist.
    :raises BadRequestError: if the connection is not a destination, or has no such object type.
    """
    return offered(destination(context, connection_id), "object_type_id", object_type_id).object_type.modes


def properties(
    context: Context, connection_id: str, object_type_id: str, operation_mode: str, source_id: str
) -> list[Property]:
    """
    Return the properties that source columns can be mapped to.

    If the connection does not declare properties, return the known properties of the objects and one property per
    column of the source.

    :raises NotFoundError: if the connection or the source does not exist.
    :raises BadRequestError: if the connection is not a destination, has no such object type or operation, or the source
        is not in the warehouse.
    """
    connection = destination(context, connection_id)
    kind = offered(connection, "object_type_id", object_type_id)
    mode = _mode(operation_mode)
    check_mode("operation_mode", mode, kind.object_type)
    source = reverse_etl_sources.find(context, source_id)
    columns = source_columns(context, "source_id", source)
    if kind.object_type.properties is not None:
        return [_for(one, mode) for one in kind.object_type.properties]
    known = {one.id: one for one in destinations.catalog_of(connection).properties(object_type_id)}
    for name, type_ in columns.items():
        if name not in known:
            known[name] = Property.model_construct(id=name, type=_type_of(type_))
    return list(known.values())


def settings_schema(context: Context, connection_id: str, object_type: str, partial_settings: Json | None) -> Json:
    """
    Return the JSON Schema of a sync's settings, with choices that depend on the given settings.

    :raises NotFoundError: if the connection does not exist.
    :raises BadRequestError: if the connection is not a destination, has no such object type, or a setting is invalid.
    """
    connection = destination(context, connection_id)
    offered(connection, "object_type", object_type)
    return checked_settings("partial_settings", connection, partial_settings or {})


def destination(context: Context, connection_id: str) -> Connection:
    """
    Return a connection to a destination.

    :raises NotFoundError: if the connection does not exist.
    :raises BadRequestError: if the connection is not a destination.
    """
    connection = connections.get(context, connection_id)
    check_destination("connection_id", connection)
    return connection


def check_destination(field: str, connection: Connection) -> None:
    """
    Validate that a connection is a destination.

    :raises BadRequestError: if it is not.
    """
    if connection.integration_id not in DESTINATIONS:
        raise BadRequestError(
            f"{field}: {connection.id!r} has the integration {connection.integration_id!r}, which is not a"
            f" destination: give one of {' or '.join(sorted(DESTINATIONS))}."
        )


def offered(connection: Connection, field: str, object_type_id: str) -> Offered:
    """
    Return an object type of a destination.

    :raises BadRequestError: if the destination has no such object type.
    """
    declared = _declared(connection)
    if declared is None:
        check_id(field, object_type_id)
        return Offered(ObjectType(id=object_type_id), declared=False)
    for one in declared:
        if one.id == object_type_id:
            return Offered(one, declared=True)
    raise BadRequestError(
        f"{field}: {object_type_id[:100]!r} is not an object type of the connection: choose"
        f" {' or '.join(one.id for one in declared)}.",
        error_code="unknown_object_type",
    )


def check_mode(field: str, mode: OperationName, object_type: ObjectType) -> None:
    """
    Validate that an object type supports an operation.

    :raises BadRequestError: if it does not.
    """
    if mode not in object_type.modes:
        raise BadRequestError(
            f"{field}: the destination cannot {mode} {object_type.id}: choose {' or '.join(object_type.modes)}."
        )


def source_columns(context: Context, field: str, source: Source) -> dict[str, str]:
    """
    Return the columns of a source with their types.

    :raises BadRequestError: if the source is not in the warehouse, or cannot be read.
    """
    if source.place is None:
        raise BadRequestError(f"{field}: {source.title} {source.obstacle}.", error_code="source_not_in_warehouse")
    try:
        return {column.name: column.type for column in context.warehouse.columns(f"FROM {source.place.sql}")}
    except WarehouseError as error:
        raise BadRequestError(
            f"{field}: {source.title} cannot be read: {error}.", error_code="source_not_in_warehouse"
        ) from error


def checked_settings(field: str, connection: Connection, settings: Json) -> Json:
    """
    Validate settings against the schema of a destination.

    :param field: Name of the settings in the request.
    :return: JSON Schema of the settings.
    :raises BadRequestError: if a setting is unknown or invalid. The message contains its name.
    """
    check_json(field, settings)
    schema = destinations.catalog_of(connection).settings_schema(settings)
    if not settings and not schema.get("required"):
        return schema
    # Imported here because most processes do not need it.
    from jsonschema import Draft7Validator

    errors = Draft7Validator(schema).iter_errors(settings)
    first = min(errors, key=lambda error: list(map(str, error.absolute_path)), default=None)
    if first is not None:
        raise BadRequestError(_settings_error(field, first, settings), error_code="invalid_settings")
    return schema


def _settings_error(field: str, error: ValidationError, settings: Json) -> str:
    where = ".".join([field, *(str(part)[:100] for part in error.absolute_path)])
    known = error.schema if isinstance(error.schema, dict) else {}
    if error.validator == "additionalProperties":
        unknown = min(set(settings) - set(known["properties"]))
        return f"{where}.{unknown[:100]}: unknown setting: remove it."
    if error.validator == "dependencies":
        name, needed = next(
            (name, other) for name, others in known["dependencies"].items() for other in others
            if name in settings and other not in settings
        )  # fmt: skip
        return f"{where}.{name}: it requires {needed}: give both."
    if error.validator in ("oneOf", "enum"):
        choices = [choice["const"] for choice in known.get("oneOf", ())]
        return f"{where}: the value is not one of the choices: " + (
            f"give {' or '.join(map(repr, choices))}." if choices else "there are none: omit the setting."
        )
    if error.validator == "type":
        return f"{where}: it has the wrong type: give a {error.validator_value}."
    return f"{where}: it violates the keyword {error.validator!r} of the settings schema: see settings_schema."


def _declared(connection: Connection) -> Sequence[ObjectType] | None:
    return DESTINATIONS[connection.integration_id].model_validate(connection.settings).object_types


def _open(name: str) -> Offered | None:
    try:
        check_id("object_type_id", name)
    except BadRequestError:
        # A file that did not come from a sync, with a name that no sync can use.
        return None
    return Offered(ObjectType(id=name), declared=False)


def _mode(text: str) -> OperationName:
    if text.upper() == _MERGE:
        return OperationName.UPSERT
    try:
        return OperationName(text.lower())
    except ValueError:
        raise BadRequestError(
            f"operation_mode: {text[:100]!r} is not an operation: give {', '.join(OperationName)} or {_MERGE}, which is"
            f" {OperationName.UPSERT}."
        ) from None


def _for(declared: Property, mode: OperationName) -> Property:
    """Return a property for an operation. Updates do not require properties that existing records already have."""
    needed = declared.primary_key if mode == OperationName.UPDATE else declared.required
    return declared.model_copy(update={"required": needed or (declared.primary_key and mode in WITH_KEY)})


def _type_of(column_type: str) -> PropertyType:
    if column_type.endswith("]"):
        return "array"
    plain = column_type.partition("(")[0].partition(" ")[0]
    if plain.endswith(("INT", "INTEGER")):
        return "integer"
    return next((type_ for name, type_ in _TYPES.items() if plain.startswith(name)), "string")
