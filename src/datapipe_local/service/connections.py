"""Connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.errors import BadRequestError, NotFoundError
from datapipe_local.service.checks import check_id
from datapipe_local.store.records import Connection, Json
from datapipe_local.store.table import Order, Page

if TYPE_CHECKING:
    from datapipe_local.service.context import Context

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
