"""Connections to SQL destinations, and their table names and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.settings import SqlSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Time limit for a connection, and for a lock.
_SECONDS_TO_WAIT = 10
_DRIVER = "postgresql+psycopg"


def open_engine(settings: Mapping[str, Any]) -> sa.Engine:
    """
    Return an engine for a database, without connecting.

    :param settings: The settings of the connection: :class:`~.settings.SqlSettings`.
    :raises RunError: the driver is not installed.
    """
    url = sa.make_url(SqlSettings.model_validate(dict(settings)).url)
    arguments: dict[str, Any] = {"timeout": _SECONDS_TO_WAIT}
    if url.get_backend_name() != "sqlite":
        url = url.set(drivername=_DRIVER)
        arguments = {"connect_timeout": _SECONDS_TO_WAIT, "options": f"-c lock_timeout={_SECONDS_TO_WAIT}s"}
    try:
        engine = sa.create_engine(url, connect_args=arguments, poolclass=NullPool)
    except ImportError as error:
        raise RunError(
            "The driver of PostgreSQL is not installed: pip install 'airflow-provider-datapipe[postgresql]'."
        ) from error
    if url.get_backend_name() == "sqlite":
        # Python's driver manages transactions itself, without savepoints. Turn that off.
        sa.event.listen(engine, "connect", _begin_by_hand)
        sa.event.listen(engine, "begin", _begin)
    return engine


def place_of(object_type_id: str) -> tuple[str | None, str]:
    """Return the schema, if given, and the name of a table."""
    schema, _, name = object_type_id.rpartition(".")
    return schema or None, name


def reason(error: sa.exc.SQLAlchemyError) -> str:
    """Return the message of the database, in one line."""
    original = getattr(error, "orig", None)
    message = str(original if original is not None else error).strip()
    # The first line has the error; the second line of PostgreSQL quotes values, which are in the record anyway.
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines[:2])[:300] or type(error).__name__


def _begin_by_hand(connection: Any, _: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
