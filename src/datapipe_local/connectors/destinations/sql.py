"""SQL destination: tables of SQLite and PostgreSQL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import RunError
from datapipe_local.connectors.destinations.base import ABSENT
from datapipe_local.connectors.destinations.sql_delivery_log import Receipts
from datapipe_local.connectors.destinations.sql_engine import open_engine, place_of, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from datapipe_local.connectors.destinations.base import Outcome, Progress, Record, Target


class SqlTable:
    """
    Writer for an existing table of SQLite or PostgreSQL.

    A batch is one transaction. If the database refuses a record, the batch is repeated record by record, each with a
    savepoint: the other records are written, and each refused one has the reason of the database.

    Repeating a write after a kill has no further effect, because rows are identified by their key. With ``insert``
    there is no such key; therefore the transaction also writes a receipt
    (:class:`~.sql_delivery_log.Receipts`), and no row is written twice.

    :param settings: The settings of the connection: :class:`~.settings.SqlSettings`.
    :param target: The object and the mode of the sync.
    :param progress: The progress of this run and of earlier runs.
    :raises RunError: the database cannot be reached, or the table does not exist.
    """

    batch_size = 1_000

    def __init__(self, settings: dict[str, Any], target: Target, progress: Progress) -> None:
        self._engine = open_engine(settings)
        self._mode = target.mode
        self._name = target.object_type_id
        self._url = self._engine.url.render_as_string(hide_password=True)
        schema, name = place_of(target.object_type_id)
        self._table = _quoted(name) if schema is None else f"{_quoted(schema)}.{_quoted(name)}"
        self._receipts: Receipts | None = None
        self._statements: dict[str, sa.TextClause] = {}
        try:
            self._connection = self._engine.connect()
        except sa.exc.SQLAlchemyError as error:
            raise RunError(f"The destination {self._url} cannot be reached: {reason(error)}.") from error
        try:
            self._inspect(name, schema)
            if self._mode == OperationName.INSERT:
                self._receipts = Receipts(self._connection, target.sync_id, progress)
        except sa.exc.SQLAlchemyError as error:
            self.close()
            raise self._unwritable(error) from error
        except RunError:
            self.close()
            raise

    def unanswered(self) -> None:
        """Return None: committed records are in the receipt, or can be written again."""

    def send(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Write records.

        :raises RunError: the table cannot be written.
        """
        self._check_columns(records)
        there = [self._receipts is not None and self._receipts.has(record) for record in records]
        left = [record for record, is_there in zip(records, there, strict=True) if not is_there]
        written = iter(self._in_batches(left, self._write) if left else [])
        return [None if is_there else next(written) for is_there in there]

    def delete(self, records: Sequence[Record]) -> list[Outcome]:
        """
        Delete rows.

        :raises RunError: the table cannot be written.
        """
        self._check_columns(records)
        return self._in_batches(records, self._delete)

    def checkpoint(self) -> str | None:
        """Return the number of the last receipt; None without receipts."""
        return None if self._receipts is None else self._receipts.number

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._engine.dispose()

    def _inspect(self, name: str, schema: str | None) -> None:
        found = sa.inspect(self._connection)
        if not found.has_table(name, schema):
            raise RunError(f"The destination {self._url} has no table {self._name}: create it there.")
        columns = {column["name"]: column["type"] for column in found.get_columns(name, schema)}
        self._columns = set(columns)
        self._arrays = {name for name, kind in columns.items() if isinstance(kind, sa.ARRAY)}
        self._unique = [
            set(found.get_pk_constraint(name, schema)["constrained_columns"]),
            *(set(one["column_names"]) for one in found.get_unique_constraints(name, schema)),
            *(set(one["column_names"]) for one in found.get_indexes(name, schema) if one["unique"]),
        ]
        # The inspection has started a transaction.
        self._connection.rollback()

    def _in_batches(self, records: Sequence[Record], do: Callable[[Record], Outcome]) -> list[Outcome]:
        try:
            with self._connection.begin():
                outcomes = [do(record) for record in records]
                self._receive(records, outcomes)
        except (sa.exc.DBAPIError, OverflowError) as error:
            if _is_lost(error):
                raise self._unwritable(error) from error
        else:
            self._committed()
            return outcomes
        try:
            with self._connection.begin():
                if self._connection.dialect.name == "postgresql":
                    # An error of a deferred constraint could not be assigned to a record.
                    self._connection.execute(sa.text("SET CONSTRAINTS ALL IMMEDIATE"))
                outcomes = [self._alone(record, do) for record in records]
                self._receive(records, outcomes)
        except sa.exc.SQLAlchemyError as error:
            raise self._unwritable(error) from error
        self._committed()
        return outcomes

    def _committed(self) -> None:
        if self._receipts is not None:
            self._receipts.committed()

    def _alone(self, record: Record, do: Callable[[Record], Outcome]) -> Outcome:
        try:
            with self._connection.begin_nested():
                return do(record)
        except (sa.exc.DBAPIError, OverflowError) as error:
            if _is_lost(error):
                raise
            return reason(error) if isinstance(error, sa.exc.DBAPIError) else str(error)

    def _receive(self, records: Sequence[Record], outcomes: Sequence[Outcome]) -> None:
        if self._receipts is not None:
            self._receipts.write([record for record, outcome in zip(records, outcomes, strict=True) if outcome is None])

    def _write(self, record: Record) -> Outcome:
        names = list(record.properties)
        key = list(record.identity)
        others = [name for name in names if name not in record.identity]
        if self._mode == OperationName.UPDATE:
            # An update of the key alone still shows whether the row exists.
            sets = ", ".join(self._set(name) for name in others or key)
            done = self._run(f"UPDATE {self._table} SET {sets} WHERE {self._where(key)}", record.properties)  # noqa: S608 - quoted names
            return None if done else ABSENT
        sql = (
            f"INSERT INTO {self._table} ({', '.join(_quoted(name) for name in names)})"  # noqa: S608 - quoted names
            f" VALUES ({', '.join(f':{_mark(name)}' for name in names)})"
        )
        if self._mode != OperationName.INSERT:
            if set(key) not in self._unique:
                raise RunError(
                    f"The table {self._name} of {self._url} has no primary key, and no unique index, of"
                    f" {', '.join(key)}: create one, or change the key of the mappings."
                )
            columns = ", ".join(_quoted(name) for name in key)
            changes = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in others)
            sql += f" ON CONFLICT ({columns}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
        self._run(sql, record.properties)
        return None

    def _delete(self, record: Record) -> Outcome:
        self._run(f"DELETE FROM {self._table} WHERE {self._where(list(record.identity))}", record.identity)  # noqa: S608 - quoted names
        return None

    def _run(self, sql: str, values: dict[str, Any]) -> int:
        statement = self._statements.get(sql)
        if statement is None:
            statement = self._statements[sql] = sa.text(sql)
        return self._connection.execute(
            statement, {_mark(name): self._value(name, value) for name, value in values.items()}
        ).rowcount

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, list) and name in self._arrays:
            return value
        return json.dumps(value) if isinstance(value, dict | list) else value

    def _check_columns(self, records: Sequence[Record]) -> None:
        # All records of a run have the same properties.
        for name in [*records[0].properties, *records[0].identity] if records else ():
            if name not in self._columns:
                raise RunError(
                    f"The table {self._name} of {self._url} has no column {name!r}: it has"
                    f" {', '.join(sorted(self._columns))}. Correct the mapping."
                )

    def _set(self, name: str) -> str:
        return f"{_quoted(name)} = :{_mark(name)}"

    def _where(self, key: Sequence[str]) -> str:
        return " AND ".join(self._set(name) for name in key)

    def _unwritable(self, error: Exception) -> RunError:
        message = reason(error) if isinstance(error, sa.exc.SQLAlchemyError) else str(error)
        return RunError(f"The table {self._name} of {self._url} cannot be written: {message}.")


def _quoted(name: str) -> str:
    # Quoting as in both databases. A colon would start a bind parameter.
    return '"' + name.replace('"', '""').replace(":", "\\:") + '"'


def _mark(name: str) -> str:
    """Return a bind parameter name for any property name."""
    return f"v{name.encode().hex()}"


def _is_lost(error: Exception) -> bool:
    """Return True if the connection or the database failed, and not a record."""
    return isinstance(error, sa.exc.DBAPIError) and (
        error.connection_invalidated or isinstance(error, sa.exc.OperationalError)
    )
