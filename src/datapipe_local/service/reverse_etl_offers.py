"""What the destinations of reverse ETL offer: kinds of objects, operations, properties, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local import destinations
from datapipe_local.destinations import DESTINATIONS
from datapipe_local.destinations.settings import ObjectType, Property, PropertyType
from datapipe_local.errors import BadRequestError
from datapipe_local.service import connections, reverse_etl_sources
from datapipe_local.service.checks import check_id, check_json
from datapipe_local.warehouse import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jsonschema.exceptions import ValidationError

    from datapipe_local.service.context import Context
    from datapipe_local.service.reverse_etl_sources import Source
    from datapipe_local.store.records import Connection, Json

#: Operations whose records are found again by their key.
WITH_KEY = frozenset({OperationName.UPDATE, OperationName.UPSERT, OperationName.MIRROR})
# The interface names this one, too, where it asks for an operation.
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
    What a destination offers for one kind of object.

    :param object_type: The kind.
    :param declared: The connection says what there is, so that there is nothing else.
    """

    object_type: ObjectType
    declared: bool


def object_types(context: Context, connection_id: str) -> list[Offered]:
    """
    Give the kinds of objects that a connection declares; if it declares none, those that there are, or are written.

    :raises NotFoundError: there is no such connection.
    :raises BadRequestError: it is no destination.
    """
    connection = destination(context, connection_id)
    declared = _declared(connection)
    if declared is not None:
        return [Offered(one, declared=True) for one in declared]
    written = context.store.database.rows(
        "SELECT DISTINCT object_type_id FROM reverse_etl_syncs WHERE destination_connection_id = ?", connection_id
    )
    there = {*destinations.offer(connection).object_type_ids(), *(row["object_type_id"] for row in written)}
    return [found for name in sorted(there) if (found := _open(name)) is not None]


def operations(context: Context, connection_id: str, object_type_id: str) -> list[OperationName]:
    """
    Give what can be done with a kind of objects.

    :raises NotFoundError: there is no such connection.
    :raises BadRequestError: it is no destination, or has no such objects.
    """
    return offered(destination(context, connection_id), "object_type_id", object_type_id).object_type.modes


def properties(
    context: Context, connection_id: str, object_type_id: str, operation_mode: str, source_id: str
) -> list[Property]:
    """
    Give what the columns of a source can become.

    Where the connection does not declare it, that is anything: then these are the properties that the objects are
    known to have, and those that they would have by the names of the columns.

    :raises NotFoundError: there is no such connection or source.
    :raises BadRequestError: that is no destination, no kind of its objects or no operation on them, or the source
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
    known = {one.id: one for one in destinations.offer(connection).properties(object_type_id)}
    for name, type_ in columns.items():
        if name not in known:
            known[name] = Property.model_construct(id=name, type=_type_of(type_))
    return list(known.values())


def settings_schema(context: Context, connection_id: str, object_type: str, partial_settings: Json | None) -> Json:
    """
    Give what settings a sync takes, with the choices that depend on those that are given.

    :raises NotFoundError: there is no such connection.
    :raises BadRequestError: it is no destination, has no such objects, or a setting that is given is wrong.
    """
    connection = destination(context, connection_id)
    offered(connection, "object_type", object_type)
    return checked_settings("partial_settings", connection, partial_settings or {})


def destination(context: Context, connection_id: str) -> Connection:
    """
    Give the connection to a destination.

    :raises NotFoundError: there is no such connection.
    :raises BadRequestError: it is no destination.
    """
    connection = connections.get(context, connection_id)
    check_destination("connection_id", connection)
    return connection


def check_destination(field: str, connection: Connection) -> None:
    """
    See to it that a connection leads to a destination.

    :raises BadRequestError: it does not.
    """
    if connection.integration_id not in DESTINATIONS:
        raise BadRequestError(
            f"{field}: {connection.id!r} is one of {connection.integration_id!r}, which is no destination: give one of"
            f" {' or '.join(sorted(DESTINATIONS))}."
        )


def offered(connection: Connection, field: str, object_type_id: str) -> Offered:
    """
    Give what a destination offers for a kind of object.

    :raises BadRequestError: it has no such objects.
    """
    declared = _declared(connection)
    if declared is None:
        check_id(field, object_type_id)
        return Offered(ObjectType(id=object_type_id), declared=False)
    for one in declared:
        if one.id == object_type_id:
            return Offered(one, declared=True)
    raise BadRequestError(
        f"{field}: {object_type_id[:100]!r} is none of the connection's object types: choose"
        f" {' or '.join(one.id for one in declared)}.",
        error_code="unknown_object_type",
    )


def check_mode(field: str, mode: OperationName, object_type: ObjectType) -> None:
    """
    See to it that a destination can do something with a kind of object.

    :raises BadRequestError: it cannot.
    """
    if mode not in object_type.modes:
        raise BadRequestError(
            f"{field}: the destination cannot {mode} {object_type.id}: choose {' or '.join(object_type.modes)}."
        )


def source_columns(context: Context, field: str, source: Source) -> dict[str, str]:
    """
    Give the columns of a source and their types.

    :raises BadRequestError: it is not in the warehouse, or cannot be read.
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
    See to it that settings are those that a destination takes, as far as they are given.

    :param field: What they are called in the request.
    :return: The schema that they fit.
    :raises BadRequestError: one is unknown or wrong; the message names it.
    """
    check_json(field, settings)
    schema = destinations.offer(connection).settings_schema(settings)
    if not settings and not schema.get("required"):
        return schema
    # Loaded by those alone who need it.
    from jsonschema import Draft7Validator

    errors = Draft7Validator(schema).iter_errors(settings)
    first = min(errors, key=lambda error: list(map(str, error.absolute_path)), default=None)
    if first is not None:
        raise BadRequestError(_told(field, first, settings), error_code="invalid_settings")
    return schema


def _told(field: str, error: ValidationError, settings: Json) -> str:
    where = ".".join([field, *(str(part)[:100] for part in error.absolute_path)])
    known = error.schema if isinstance(error.schema, dict) else {}
    if error.validator == "additionalProperties":
        unknown = min(set(settings) - set(known["properties"]))
        return f"{where}.{unknown[:100]}: there is no such setting: leave it out."
    if error.validator == "dependencies":
        name, needed = next(
            (name, other) for name, others in known["dependencies"].items() for other in others
            if name in settings and other not in settings
        )  # fmt: skip
        return f"{where}.{name}: it depends on {needed}: give that, too."
    if error.validator in ("oneOf", "enum"):
        choices = [choice["const"] for choice in known.get("oneOf", ())]
        return f"{where}: it is none of its choices: " + (
            f"give {' or '.join(map(repr, choices))}." if choices else "there are none, leave it out."
        )
    if error.validator == "type":
        return f"{where}: it has the wrong type: give a {error.validator_value}."
    return f"{where}: it breaks the rule {error.validator!r} of the settings schema: see settings_schema."


def _declared(connection: Connection) -> Sequence[ObjectType] | None:
    return DESTINATIONS[connection.integration_id].model_validate(connection.settings).object_types


def _open(name: str) -> Offered | None:
    try:
        check_id("object_type_id", name)
    except BadRequestError:
        # A file that somebody else has put there, and no sync can be told to write.
        return None
    return Offered(ObjectType(id=name), declared=False)


def _mode(text: str) -> OperationName:
    if text.upper() == _MERGE:
        return OperationName.UPSERT
    try:
        return OperationName(text.lower())
    except ValueError:
        raise BadRequestError(
            f"operation_mode: {text[:100]!r} is no operation: give {', '.join(OperationName)} or {_MERGE}, which is"
            f" {OperationName.UPSERT}."
        ) from None


def _for(declared: Property, mode: OperationName) -> Property:
    """Give a property as it is for an operation: what is there already need not be given again."""
    needed = declared.primary_key if mode == OperationName.UPDATE else declared.required
    return declared.model_copy(update={"required": needed or (declared.primary_key and mode in WITH_KEY)})


def _type_of(column_type: str) -> PropertyType:
    if column_type.endswith("]"):
        return "array"
    plain = column_type.partition("(")[0].partition(" ")[0]
    if plain.endswith(("INT", "INTEGER")):
        return "integer"
    return next((type_ for name, type_ in _TYPES.items() if plain.startswith(name)), "string")
