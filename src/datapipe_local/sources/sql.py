"""Tables and views of an SQL database."""

import datetime as dt
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import Field, field_validator

from datapipe_local.errors import RunError
from datapipe_local.loading.readable import Query
from datapipe_local.sources.base import Fetched, Offer, SourceError
from datapipe_local.strict import Secret, Strict
from datapipe_local.warehouse import Scan, quoted

if TYPE_CHECKING:
    import sqlalchemy as sa

_URL = re.compile(r"sqlite:///(/|[A-Za-z]:).+|postgresql(\+psycopg)?://([^/?#@]*@)?[^/?#@:]+(:[0-9]{1,5})?/[^?#]+")
_SECONDS_TO_CONNECT = 10
# So many rows are held in memory at a time.
_AT_A_TIME = 5_000
# What DuckDB takes by itself. It reserves as much for each thread.
_LONGEST_LINE = 1 << 24
_MOST_DIGITS = 38


class SqlSourceSettings(Strict, title="SQL database"):
    """Settings of a connection to an SQL database that is read."""

    # It may hold a password.
    url: Secret = Field(
        description="The database: sqlite:////folder/file.db, or postgresql://user:password@host:port/database."
    )
    database_schema: str | None = Field(
        default=None, min_length=1, description="The schema whose tables are offered; else the database's own default."
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
    """Which table or view of the database a stream reads."""

    table: str = Field(min_length=1)


class SqlSource:
    """
    An SQL database.

    :param settings: As :class:`SqlSourceSettings` describes.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = SqlSourceSettings.model_validate(settings)

    def offers(self) -> list[Offer]:
        """
        Give the tables and views; the names of their keys with them.

        :raises SourceError: the database cannot be asked.
        """
        import sqlalchemy as sa

        from datapipe_local.names import numbered, snake_case

        with self._connected() as connection:
            inspector, schema = sa.inspect(connection), self._settings.database_schema
            tables = {*inspector.get_table_names(schema), *inspector.get_view_names(schema)}
            offers: dict[str, Offer] = {}
            for table in sorted(tables):
                name = snake_case(table)
                wanted = [name, *(numbered(name, number) for number in range(2, 2 + len(tables)))]
                offer = next(each for each in wanted if each not in offers) if name else table
                key = inspector.get_pk_constraint(table, schema).get("constrained_columns") or ()
                offers[offer] = Offer(offer, {"table": table}, is_selectable=bool(name), key=tuple(key))
        return list(offers.values())

    def has(self, origin: dict[str, Any]) -> bool:
        """Tell whether a stream's table or view is there."""
        import sqlalchemy as sa

        table = SqlOrigin.model_validate(origin).table
        with self._connected() as connection:
            return sa.inspect(connection).has_table(table, self._settings.database_schema)

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """Say no: the columns of a table hold single values."""
        return False

    @contextmanager
    def fetch(self, origin: dict[str, Any], scratch: Path) -> Iterator[Fetched]:
        """
        Get all rows of one table, as one statement sees them.

        :param origin: As :class:`SqlOrigin` describes.
        :param scratch: Where the rows are written for DuckDB.
        :raises RunError: they cannot be had.
        """
        import sqlalchemy as sa

        name = SqlOrigin.model_validate(origin).table
        with tempfile.TemporaryDirectory(dir=scratch) as folder, self._connected() as connection:
            try:
                table = sa.Table(name, sa.MetaData(), schema=self._settings.database_schema, autoload_with=connection)
            except sa.exc.NoSuchTableError as error:
                raise RunError(
                    f"The database {self._shown} has no table {name!r}: correct `table` of the stream."
                ) from error
            path = Path(folder) / "rows.jsonl"
            size, longest = _write(connection, table, path)
            connection.close()
            yield Fetched(f"the table {name} of {self._shown}", _query(path, table, longest), size)

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
            # Else SQLite would make an empty database.
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
            with engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise SourceError(f"The database {self._shown} cannot be read: {_reason(error)}. Correct `url`.") from error
        finally:
            engine.dispose()


def _write(connection: "sa.Connection", table: "sa.Table", path: Path) -> tuple[int, int]:
    """Write the rows of a table as lines of JSON; give the bytes of all and those of the longest."""
    import sqlalchemy as sa

    names = [column.name for column in table.columns]
    size, longest = 0, _LONGEST_LINE
    encode = json.JSONEncoder(default=_as_text, ensure_ascii=False, allow_nan=True).encode
    result = connection.execution_options(stream_results=True, yield_per=_AT_A_TIME).execute(sa.select(table))
    with path.open("w", encoding="utf-8") as file:
        for rows in result.partitions():
            lines = [f"{encode(dict(zip(names, row, strict=True)))}\n" for row in rows]
            longest = max(longest, *(4 * len(line) for line in lines if 4 * len(line) > longest), longest)
            size += sum(map(len, lines))
            file.write("".join(lines))
    return size, longest


def _query(path: Path, table: "sa.Table", longest: int) -> Query:
    """Give the query of the rows: with the types of the table, else, where values do not fit them, with DuckDB's."""
    kinds = {column.name: _type(column.type) for column in table.columns}
    options = {"format": "newline_delimited", "maximum_object_size": longest}
    blobs = [name for name, kind in kinds.items() if kind == "BLOB"]
    declared = {name: "VARCHAR" if kind == "BLOB" else kind for name, kind in kinds.items()}
    replaced = ", ".join(f"from_hex({quoted(name)}) AS {quoted(name)}" for name in blobs)
    star = f"* REPLACE ({replaced})" if replaced else "*"
    typed = Scan("read_json", path, {**options, "columns": declared})
    inferred = Scan("read_json", path, {**options, "sample_size": -1})
    # An empty file tells nothing about its columns.
    instead = f"SELECT * FROM {inferred.sql()}" if path.stat().st_size else None  # noqa: S608 - a reader of ours
    return Query(f"SELECT {star} FROM {typed.sql()}", instead)  # noqa: S608 - as above


def _type(kind: Any) -> str:
    """Give DuckDB's type of a column of a database."""
    import sqlalchemy as sa

    for known, give in _types(sa):
        if isinstance(kind, known):
            return give(kind)
    return "VARCHAR"


def _types(sa: Any) -> list[tuple[type, Callable[[Any], str]]]:
    # The special before the general.
    return [
        (sa.Boolean, lambda _: "BOOLEAN"),
        (sa.Integer, lambda _: "BIGINT"),
        (sa.Float, lambda _: "DOUBLE"),
        (sa.Numeric, _decimal),
        (sa.DateTime, lambda kind: "TIMESTAMPTZ" if kind.timezone else "TIMESTAMP"),
        (sa.Date, lambda _: "DATE"),
        (sa.Time, lambda _: "TIME"),
        (sa.Uuid, lambda _: "UUID"),
        (sa.LargeBinary, lambda _: "BLOB"),
        (sa.JSON, lambda _: "JSON"),
        (sa.ARRAY, lambda _: "JSON"),
    ]


def _decimal(kind: Any) -> str:
    if kind.precision is None or kind.precision > _MOST_DIGITS:
        # It can hold any number: text does, too.
        return "VARCHAR"
    return f"DECIMAL({kind.precision},{kind.scale or 0})"


def _as_text(value: Any) -> Any:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal | UUID | dt.timedelta):
        return str(value)
    return str(value)


def _reason(error: Exception) -> str:
    """Give what the database said, in one line."""
    said = str(getattr(error, "orig", None) or error).strip()
    return " ".join(said.split())[:300].rstrip(".") or type(error).__name__
