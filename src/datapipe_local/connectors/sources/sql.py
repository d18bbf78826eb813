"""Tables and views of an SQL database."""

import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from datapipe_local.common.base_model import Secret, Strict
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.sources.base import Fetched, Need, Offer, SourceError

if TYPE_CHECKING:
    import sqlalchemy as sa
    from psycopg.abc import Buffer

_URL = re.compile(r"sqlite:///(/|[A-Za-z]:).+|postgresql(\+psycopg)?://([^/?#@]*@)?[^/?#@:]+(:[0-9]{1,5})?/[^?#]+")
_SECONDS_TO_CONNECT = 10
_BEFORE_CHRIST = re.compile(r"^([0-9]+-[0-9]+-[0-9]+)( .*)? BC$")


class SqlSourceSettings(Strict, title="SQL database"):
    """Settings of a connection to an SQL database as a source."""

    # The URL may contain a password.
    url: Secret = Field(
        description="The database: sqlite:////folder/file.db, or postgresql://user:password@host:port/database."
    )
    database_schema: str | None = Field(
        default=None,
        min_length=1,
        description="The schema with the tables. Default: the default schema of the database.",
    )

    @field_validator("url")
    @classmethod
    def _is_a_database(cls, url: str) -> str:
        if not _URL.fullmatch(url):
            raise ValueError(
                "give sqlite:///<absolute path> or postgresql://<user>:<password>@<host>:<port>/<database>"
            )
        return url


class SqlOrigin(Strict):
    """Table or view of the database that a stream reads."""

    table: str = Field(min_length=1)


class SqlSource:
    """
    SQL database.

    :param settings: The settings of the connection: :class:`SqlSourceSettings`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = SqlSourceSettings.model_validate(settings)

    def offers(self) -> list[Offer]:
        """
        Return the tables and views, with their key columns.

        :raises SourceError: the database cannot be reached or read.
        """
        import sqlalchemy as sa

        from datapipe_local.common.names import free_name, snake_case

        with self._connected() as connection:
            inspector, schema = sa.inspect(connection), self._settings.database_schema
            tables = {*inspector.get_table_names(schema), *inspector.get_view_names(schema)}
            offers: dict[str, Offer] = {}
            for table in sorted(tables):
                name = snake_case(table)
                offer = free_name(offers, name) if name else table
                key = inspector.get_pk_constraint(table, schema).get("constrained_columns") or ()
                offers[offer] = Offer(offer, {"table": table}, is_selectable=bool(name), key=tuple(key))
        return list(offers.values())

    def has(self, origin: dict[str, Any]) -> bool:
        """Return True if the stream's table or view exists."""
        import sqlalchemy as sa

        table = SqlOrigin.model_validate(origin).table
        with self._connected() as connection:
            return sa.inspect(connection).has_table(table, self._settings.database_schema)

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """Return False: all columns have single values."""
        return False

    @contextmanager
    def fetch(self, origin: dict[str, Any], scratch: Path, need: Need) -> Iterator[Fetched]:
        """
        Yield the required rows of one table, read by one statement.

        :param origin: The origin of the stream: :class:`SqlOrigin`.
        :param scratch: The folder for the rows.
        :param need: The required part: the statement omits other columns and older rows.
        :raises RunError: the rows cannot be read.
        """
        import sqlalchemy as sa

        from datapipe_local.connectors.sources import sql_rows

        name = SqlOrigin.model_validate(origin).table
        with tempfile.TemporaryDirectory(dir=scratch) as folder, self._connected() as connection:
            if connection.dialect.name == "postgresql":
                _have_text(connection)
            try:
                # Without tables of foreign keys: they may not exist.
                table = sa.Table(
                    name,
                    sa.MetaData(),
                    schema=self._settings.database_schema,
                    autoload_with=connection,
                    resolve_fks=False,
                )
            except sa.exc.NoSuchTableError as error:
                raise RunError(
                    f"The database {self._shown} has no table {name!r}: correct `table` of the stream."
                ) from error
            with need.interruptible(_Reading(connection)):
                rows = sql_rows.write(connection, table, need, Path(folder) / "rows.jsonl")
            connection.close()
            yield Fetched(f"the table {name} of {self._shown}", rows.query, rows.size, rows.is_whole)

    @property
    def _shown(self) -> str:
        import sqlalchemy as sa

        return sa.make_url(self._settings.url).render_as_string(hide_password=True)

    @contextmanager
    def _connected(self) -> Iterator["sa.Connection"]:
        import sqlalchemy as sa
        from sqlalchemy.pool import NullPool

        url = sa.make_url(self._settings.url)
        if url.get_backend_name() == "sqlite":
            # SQLite would create an empty database.
            if not Path(str(url.database)).is_file():
                raise SourceError(f"There is no database {url.database}: correct `url`.")
            arguments: dict[str, Any] = {"timeout": _SECONDS_TO_CONNECT}
        else:
            url = url.set(drivername="postgresql+psycopg")
            arguments = {"connect_timeout": _SECONDS_TO_CONNECT}
        try:
            engine = sa.create_engine(url, connect_args=arguments, poolclass=NullPool)
        except ImportError as error:
            raise SourceError(
                "The driver of PostgreSQL is not installed: pip install 'airflow-provider-datapipe[postgresql]'."
            ) from error
        try:
            with self._connection(engine) as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise SourceError(f"The database {self._shown} cannot be read: {_reason(error)}.") from error
        finally:
            engine.dispose()

    def _connection(self, engine: "sa.Engine") -> "sa.Connection":
        import sqlalchemy as sa

        try:
            return engine.connect()
        except sa.exc.SQLAlchemyError as error:
            raise SourceError(
                f"The database {self._shown} cannot be reached: {_reason(error)}. Correct `url`, or start it."
            ) from error


class _Reading:
    """Running statement of a connection."""

    def __init__(self, connection: "sa.Connection") -> None:
        self._driver: Any = connection.connection.driver_connection
        self._is_near = connection.dialect.name == "sqlite"

    def interrupt(self) -> None:
        """Interrupt the statement."""
        if self._is_near:
            self._driver.interrupt()
        else:
            # Canceling uses a separate connection to a server that may not respond.
            threading.Thread(target=self._cancel, name="cancel", daemon=True).start()

    def _cancel(self) -> None:
        # A statement that has already ended needs no cancellation.
        with suppress(Exception):
            self._driver.cancel_safe(timeout=_SECONDS_TO_CONNECT)


def _have_text(connection: "sa.Connection") -> None:
    """Make PostgreSQL return times as text: Python's types cannot hold all values, such as ``infinity``."""
    from psycopg.types.string import TextLoader

    class Words(TextLoader):
        def load(self, data: "Buffer") -> str | bytes:
            # DuckDB accepts years BC only in its own notation.
            return _BEFORE_CHRIST.sub(r"\1 (BC)\2", str(super().load(data)))

    for setting in ("TimeZone TO 'UTC'", "DateStyle TO 'ISO'", "IntervalStyle TO 'postgres'"):
        connection.exec_driver_sql(f"SET {setting}")
    driver = connection.connection.driver_connection
    assert driver is not None  # noqa: S101 - it is connected
    for kind in ("date", "time", "timetz", "timestamp", "timestamptz", "interval"):
        driver.adapters.register_loader(kind, Words)


def _reason(error: Exception) -> str:
    """Return the message of the database, in one line."""
    message = str(getattr(error, "orig", None) or error).strip()
    return " ".join(message.split())[:300].rstrip(".") or type(error).__name__
