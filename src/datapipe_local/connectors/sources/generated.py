"""Generated data: deterministic for given settings, and changing at the configured rate."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from datapipe_local.common.base_model import Strict
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.sources.base import Fetched, Need, Offer
from datapipe_local.storage.clock import Clock, as_datetime
from datapipe_local.warehouse.loading.readable import Query
from datapipe_local.warehouse.warehouse import literal, quoted

_NAME = r"^[A-Za-z](?:_?[A-Za-z0-9])*$"
#: Pointer column: the time of the last change of a row.
CHANGED = "updated_at"
_BEGIN = "TIMESTAMP '2026-01-01'"
_SECONDS_OF_A_YEAR = 31_536_000
_MOST_ROWS = 100_000_000


class GeneratedColumn(Strict, title="Column"):
    """Column of a generated table."""

    name: str = Field(pattern=_NAME, max_length=63)
    kind: Literal["id", "int", "float", "text", "timestamp", "enum"]
    values: list[str] | None = Field(default=None, min_length=1, description="The possible values of an enum.")

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        if (self.kind == "enum") != (self.values is not None):
            raise ValueError("give `values` for an enum, and only for an enum")
        return self


class GeneratedTable(Strict, title="Table"):
    """Generated table."""

    name: str = Field(pattern=_NAME, max_length=63)
    rows: int = Field(ge=0, le=_MOST_ROWS)
    columns: list[GeneratedColumn] = Field(min_length=1, max_length=200)
    changes_per_hour: float | int = Field(
        default=0,
        ge=0,
        le=3600,
        description="The time between changes of each row. The table then also has a column updated_at.",
    )

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        names = [column.name.lower() for column in self.columns]
        if self.changes_per_hour:
            names.append(CHANGED)
        if len(set(names)) != len(names):
            raise ValueError("the names of columns must be unique, and updated_at is reserved in a table that changes")
        return self


class GeneratedSettings(Strict, title="Generated data"):
    """Settings of a connection to generated data."""

    seed: int = Field(default=0, description="A different seed generates different data.")
    tables: list[GeneratedTable] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _tables_differ(self) -> Self:
        names = [table.name.lower() for table in self.tables]
        if len(set(names)) != len(names):
            raise ValueError("the names of tables must be unique")
        return self


class GeneratedOrigin(Strict):
    """Table of the connection that a stream reads."""

    table: str = Field(min_length=1)


class GeneratedSource:
    """
    Source of generated data.

    :param settings: The settings of the connection: :class:`GeneratedSettings`.
    :param clock: The clock that determines the changes.
    """

    def __init__(self, settings: dict[str, Any], clock: Clock) -> None:
        self._settings = GeneratedSettings.model_validate(settings)
        self._clock = clock

    def offers(self) -> list[Offer]:
        """Return the tables."""
        return [
            Offer(
                table.name, {"table": table.name}, key=tuple(each.name for each in table.columns if each.kind == "id")
            )
            for table in self._settings.tables
        ]

    def has(self, origin: dict[str, Any]) -> bool:
        """Return True if the connection has the stream's table."""
        return self._table(origin) is not None

    def may_nest(self, origin: dict[str, Any]) -> bool:
        """Return False: all columns have single values."""
        return False

    @contextmanager
    def fetch(self, origin: dict[str, Any], scratch: Path, need: Need) -> Iterator[Fetched]:
        """
        Yield the query that generates the rows.

        :param origin: The origin of the stream: :class:`GeneratedOrigin`.
        :param scratch: Not used.
        :param need: Not used: rows are generated when they are read.
        :raises RunError: the connection has no such table.
        """
        table = self._table(origin)
        if table is None:
            name = GeneratedOrigin.model_validate(origin).table
            raise RunError(f"The generated data has no table {name!r}: add it to the connection.")
        yield Fetched(f"the generated table {table.name}", Query(self._sql(table)), 0)

    def _table(self, origin: dict[str, Any]) -> GeneratedTable | None:
        name = GeneratedOrigin.model_validate(origin).table
        return next((table for table in self._settings.tables if table.name == name), None)

    def _sql(self, table: GeneratedTable) -> str:
        seed = literal(f"{self._settings.seed}|{table.name}")
        rows = f"SELECT range AS i, 0 AS version FROM range({table.rows})"  # noqa: S608 - numbers and quoted names
        shown = [f"{_value(column, seed)} AS {quoted(column.name)}" for column in table.columns]
        if table.changes_per_hour:
            # Each row changes at its own times, so that at any time some rows have just changed.
            period = round(3_600_000_000 / table.changes_per_hour)
            now = round(as_datetime(self._clock.now()).timestamp() * 1_000_000)
            phase = f"CAST(md5_number_lower(concat_ws('|', {seed}, range)) % {period} AS BIGINT)"
            rows = (
                f"SELECT range AS i, ({now} + {phase}) // {period} AS version, version * {period} - {phase} AS changed"  # noqa: S608 - numbers of the service
                f" FROM range({table.rows})"
            )
            shown.append(f"make_timestamp(changed) AS {CHANGED}")
        return f"SELECT {', '.join(shown)} FROM ({rows})"  # noqa: S608 - as above


def _value(column: GeneratedColumn, seed: str) -> str:
    """Return the expression of a value, which depends on the row, the column, and the number of changes of the row."""
    if column.kind == "id":
        return "i + 1"
    # MD5, because DuckDB's own hash function may change between versions.
    drawn = f"md5_number_lower(concat_ws('|', {seed}, {literal(column.name)}, i, version))"
    if column.kind == "int":
        return f"CAST({drawn} % 1000000 AS BIGINT)"
    if column.kind == "float":
        return f"CAST({drawn} % 1000000007 AS DOUBLE) / 1000007"
    if column.kind == "text":
        return f"'text ' || {drawn} % 1000000"
    if column.kind == "timestamp":
        return f"{_BEGIN} - to_seconds(CAST({drawn} % {_SECONDS_OF_A_YEAR} AS BIGINT))"
    values = column.values or []
    return f"list_extract({literal(values)}, CAST({drawn} % {len(values)} AS BIGINT) + 1)"
