"""Connections to sources and destinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import integrations
from datapipe_local.services.checks import check_id
from datapipe_local.services.settings_schema import settings_schema
from datapipe_local.storage.ids import new_id
from datapipe_local.storage.records import Connection, Json
from datapipe_local.storage.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.services.context import Context

# Maximum number of users of a connection that an error message lists.
_MOST_NAMED = 5

#: Connection ID of the warehouse, the destination of all ELT syncs.
WAREHOUSE_CONNECTION_ID = "warehouse"
WAREHOUSE_INTEGRATION_ID = "duckdb"


def page(context: Context, *, after: str | None, limit: int) -> Page[Connection]:
    """Return a page of connections by creation date."""
    return context.store.connections.page(Order(), after=after, limit=limit)


def get(context: Context, connection_id: str) -> Connection:
    """
    Return a connection.

    :raises NotFoundError: if the connection does not exist.
    """
    return context.store.connections.existing(connection_id)


def schema(context: Context, connection_id: str) -> Json:
    """
    Return the JSON Schema of a connection's settings.

    :raises NotFoundError: if the connection does not exist.
    """
    return settings_schema(integrations.get(get(context, connection_id).integration_id).settings)


def create(context: Context, *, integration_id: str, label: str, settings: Json) -> Connection:
    """
    Create a connection.

    :param context: Service context.
    :param integration_id: Integration of the connection.
    :param label: Display name.
    :param settings: Settings, already validated.
    """
    connection = Connection(
        id=new_id(), integration_id=integration_id, label=label, settings=settings, created_at=context.clock.now()
    )
    context.store.connections.insert(connection)
    return connection


def delete(context: Context, connection_id: str) -> None:
    """
    Delete a connection with its received webhook records and its bridges.

    :raises NotFoundError: if the connection does not exist.
    :raises BadRequestError: if a sync uses the connection.
    """
    with context.store.transaction():
        get(context, connection_id)
        syncs = context.store.elt_syncs.all("WHERE connection_id = ? ORDER BY seq", connection_id)
        reverse = context.store.reverse_etl_syncs.all("WHERE destination_connection_id = ? ORDER BY seq", connection_id)
        users = [f"the ELT sync {sync.id!r}" for sync in syncs]
        users += [f"the reverse ETL sync {sync.id!r}" for sync in reverse]
        if users:
            more = f" and {len(users) - _MOST_NAMED} more" if len(users) > _MOST_NAMED else ""
            raise BadRequestError(
                f"The connection is used by {', '.join(users[:_MOST_NAMED])}{more}: delete these first.",
                error_code="connection_in_use",
            )
        context.store.database.run("DELETE FROM connections WHERE id = ?", connection_id)


def put(context: Context, connection_id: str, *, integration_id: str, label: str, settings: Json) -> None:
    """
    Create or update a connection.

    :param context: Service context.
    :param connection_id: ID of the connection.
    :param integration_id: Integration of the connection. It cannot change.
    :param label: Display name.
    :param settings: Settings, already validated.
    :raises BadRequestError: if the ID is invalid, or the connection has another integration.
    """
    check_id("id", connection_id)
    known = context.store.connections.get(connection_id)
    if known is not None and known.integration_id != integration_id:
        raise BadRequestError(
            f"integration_id: the connection has the integration {known.integration_id!r}, which cannot be changed."
        )
    now = context.clock.now()
    context.store.connections.save(
        Connection(id=connection_id, integration_id=integration_id, label=label, settings=settings, created_at=now)
    )
