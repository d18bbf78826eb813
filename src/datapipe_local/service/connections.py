"""Connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.ids import new_id
from datapipe_local.service import integrations
from datapipe_local.service.checks import check_id
from datapipe_local.service.settings_schema import settings_schema
from datapipe_local.store.records import Connection, Json
from datapipe_local.store.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.service.context import Context

# As many of those who use a connection are named.
_MOST_NAMED = 5

#: What the warehouse is called where the interface asks for a destination of ELT.
WAREHOUSE_CONNECTION_ID = "warehouse"
WAREHOUSE_INTEGRATION_ID = "duckdb"


def page(context: Context, *, after: str | None, limit: int) -> Page[Connection]:
    """Give a part of the list, by creation date."""
    return context.store.connections.page(Order(), after=after, limit=limit)


def get(context: Context, connection_id: str) -> Connection:
    """
    Give a connection.

    :raises NotFoundError: there is none with this id.
    """
    connection = context.store.connections.get(connection_id)
    if connection is None:
        raise NotFoundError("connection", connection_id)
    return connection


def schema(context: Context, connection_id: str) -> Json:
    """
    Describe the settings of a connection, as JSON Schema.

    :raises NotFoundError: there is none with this id.
    """
    return settings_schema(integrations.get(get(context, connection_id).integration_id).settings)


def create(context: Context, *, integration_id: str, label: str, settings: Json) -> Connection:
    """
    Create a connection.

    :param context: The service.
    :param integration_id: What it connects to; its settings are already known to fit.
    :param label: Its name for people.
    :param settings: Where it leads.
    """
    connection = Connection(
        id=new_id(), integration_id=integration_id, label=label, settings=settings, created_at=context.clock.now()
    )
    context.store.connections.insert(connection)
    return connection


def delete(context: Context, connection_id: str) -> None:
    """
    Delete a connection, and with it what was pushed to it and the bridges for it.

    :raises NotFoundError: there is none with this id.
    :raises BadRequestError: something uses it.
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
                f"The connection is used by {', '.join(users[:_MOST_NAMED])}{more}: delete what uses it first.",
                error_code="connection_in_use",
            )
        context.store.database.run("DELETE FROM connections WHERE id = ?", connection_id)


def put(context: Context, connection_id: str, *, integration_id: str, label: str, settings: Json) -> None:
    """
    Create a connection, or change it.

    :param context: The service.
    :param connection_id: Its id.
    :param integration_id: What it connects to; its settings are already known to fit.
    :param label: Its name for people.
    :param settings: Where it leads.
    :raises BadRequestError: the id is not one, or its integration is to be another.
    """
    check_id("id", connection_id)
    known = context.store.connections.get(connection_id)
    if known is None:
        context.store.connections.insert(
            Connection(
                id=connection_id,
                integration_id=integration_id,
                label=label,
                settings=settings,
                created_at=context.clock.now(),
            )
        )
    elif known.integration_id != integration_id:
        raise BadRequestError(f"integration_id: the connection is one of {known.integration_id!r}, and stays it.")
    else:
        context.store.connections.update(connection_id, label=label, settings=settings)
