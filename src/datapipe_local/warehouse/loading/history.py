"""History tables: all versions of each row, with their validity periods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.warehouse.loading.readable import hash_of
from datapipe_local.warehouse.loading.types import described, evolve
from datapipe_local.warehouse.warehouse import Place, WarehouseError, drop, exists_at, quoted

if TYPE_CHECKING:
    import duckdb

    from datapipe_local.warehouse.loading.load_options import Run

_SUFFIX = "_history"
_FROM, _TO = "valid_from", "valid_to"


def history_of(place: Place) -> Place:
    """Return the history table of a table."""
    return Place(place.schema, place.name + _SUFFIX)


def keep(cursor: duckdb.DuckDBPyConnection, place: Place, run: Run, *, cautious: bool = False) -> None:
    """
    Write the changes of a table to its history: end the removed versions, and add the new ones.

    :param cursor: A cursor in a transaction, after the load.
    :param place: The table.
    :param run: The run that has loaded the table.
    :param cautious: See :func:`datapipe_local.warehouse.loading.types.evolve`.
    :raises WarehouseError: the table has a column with a name that the history needs.
    """
    history = history_of(place)
    taken_names = {name.lower() for name, _ in described(cursor, place.sql)} & {_FROM, _TO}
    if taken_names:
        raise WarehouseError(
            f"the source has a column {min(taken_names)}, which the history table needs: exclude it, or disable the"
            " history table"
        )
    if run.resets_history:
        drop(cursor, history)
    cursor.execute(
        f"CREATE TABLE IF NOT EXISTS {history.sql} AS SELECT *, CAST(NULL AS TIMESTAMP) AS {_FROM},"  # noqa: S608 - quoted names
        f" CAST(NULL AS TIMESTAMP) AS {_TO} FROM {place.sql} LIMIT 0"
    )
    _, values = evolve(cursor, history, place.sql, cautious=cautious)
    columns = [quoted(name) for name, _ in described(cursor, history.sql) if name not in (_FROM, _TO)]
    # Columns that the table no longer has are null from now on.
    taken = f"SELECT {', '.join(values)} FROM {place.sql}"  # noqa: S608 - as above
    now = f"((SELECT * EXCLUDE ({_FROM}, {_TO}) FROM {history.sql} LIMIT 0) UNION ALL BY NAME ({taken}))"  # noqa: S608 - quoted names
    same = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in columns)
    moment = f"TIMESTAMP '{run.moment}'"
    cursor.execute(
        f"UPDATE {history.sql} AS a SET {_TO} = {moment} WHERE {_TO} IS NULL"  # noqa: S608 - quoted names
        f" AND NOT EXISTS (SELECT 1 FROM {now} AS b WHERE {same})"
    )
    cursor.execute(
        f"INSERT INTO {history.sql} BY NAME SELECT DISTINCT {', '.join(columns)}, {moment} AS {_FROM} FROM {now} AS a"  # noqa: S608 - quoted names
        f" ANTI JOIN (SELECT * FROM {history.sql} WHERE {_TO} IS NULL) AS b ON {same}"
    )


def hide(cursor: duckdb.DuckDBPyConnection, place: Place, signature: list[object], before: list[object] | None) -> None:
    """
    Remove excluded columns from a history, and hash its newly protected ones.

    :param cursor: A cursor in a transaction.
    :param place: The table.
    :param signature: The key of the present load options.
    :param before: The key of the options of the previous load, if known.
    """
    history = history_of(place)
    excluded, hashed = _names(signature, 0), _names(signature, 1)
    already = hashed if before is None else _names(before, 1)
    if before == signature or not exists_at(cursor, history):
        return
    for name, _ in described(cursor, history.sql):
        if name.casefold() in excluded:
            cursor.execute(f"ALTER TABLE {history.sql} DROP COLUMN {quoted(name)}")
        elif name.casefold() in hashed - already:
            cursor.execute(f"ALTER TABLE {history.sql} ALTER COLUMN {quoted(name)} TYPE VARCHAR USING {hash_of(name)}")


def _names(signature: list[object], index: int) -> set[str]:
    names = signature[index]
    return {str(name) for name in names} if isinstance(names, list) else set()
