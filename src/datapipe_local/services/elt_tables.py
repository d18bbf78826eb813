"""Record of the tables that ELT syncs created, and their deferred removal."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from datapipe_local.common.errors import BadRequestError
from datapipe_local.services import references
from datapipe_local.warehouse.loading.substreams import prefix_of
from datapipe_local.warehouse.loading.table_loader import TableLoader
from datapipe_local.warehouse.warehouse import Place, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from datapipe_local.services.context import Context

log = logging.getLogger(__name__)


def locked(context: Context, place: Place, *, wait: bool = True) -> AbstractContextManager[bool]:
    """
    Return a context manager that locks a table against concurrent loads and drops.

    With ``wait=False`` it yields False if another thread holds the lock.
    """
    return context.loading.of((place.schema.lower(), place.name.lower()), wait=wait)


def note(context: Context, sync_id: str, place: Place) -> None:
    """Record that a sync creates a table. The caller holds the table lock and has not created the table yet."""
    if _is_marked_for_removal(context, place):
        _drop(context, place)
    context.store.database.run(
        "INSERT OR IGNORE INTO elt_tables (elt_sync_id, schema_name, name) VALUES (?, ?, ?)", sync_id, *place
    )


def note_parts(context: Context, sync_id: str, stream_id: str, parts: Iterable[Place]) -> None:
    """Mark the given places, and no others, as the substream views and the history table of a stream."""
    context.store.database.run("UPDATE elt_tables SET beside = NULL WHERE beside = ?", stream_id)
    for place in parts:
        context.store.database.run(
            "INSERT INTO elt_tables (elt_sync_id, schema_name, name, beside) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET beside = excluded.beside",
            sync_id,
            *place,
            stream_id,
        )


def is_beside_a_stream(context: Context, sync_id: str, place: Place) -> bool:
    """Return True if a place is that of the history or of a substream of a stream of the sync."""
    return bool(
        context.store.database.value(
            "SELECT 1 FROM elt_tables WHERE elt_sync_id = ? AND name = ? AND beside IS NOT NULL", sync_id, place.name
        )
    )


def refuse_if_taken(context: Context, place: Place) -> None:
    """
    Raise if a transform cannot have a place, because it belongs to a stream, or can belong to one.

    :raises BadRequestError: the place is that of a table, a history or a substream.
    """
    tables = list(references.stream_tables(context))
    for table in tables:
        if str(table.place).lower() == str(place).lower():
            raise BadRequestError(
                f"name: {place} is a table of the ELT stream {table.stream_id!r}: choose another name or folder.",
                error_code="name_taken",
            )
    # The removal of a table that a deleted stream has left also removes its substreams.
    left = context.store.database.rows("SELECT schema_name, name FROM elt_tables")
    for parent in (*(table.place for table in tables), *(Place(row["schema_name"], row["name"]) for row in left)):
        if str(place).lower().startswith(prefix_of(str(parent)).lower()):
            raise BadRequestError(
                f"name: {place} is reserved for a substream of {parent}: choose another name or folder.",
                error_code="name_taken",
            )


def mark_for_removal(context: Context, sync_id: str) -> None:
    """
    Mark the tables of a sync for removal.

    Call this in the transaction that deletes the sync, and :func:`drop_marked_tables` after it.
    """
    for row in context.store.database.rows("SELECT schema_name, name FROM elt_tables WHERE elt_sync_id = ?", sync_id):
        place = Place(row["schema_name"], row["name"])
        # After a stream was deleted, a transform may have been published under the name of its table.
        if references.transform_at(context, place) is None:
            context.store.database.run("INSERT OR IGNORE INTO doomed_tables (schema_name, name) VALUES (?, ?)", *place)


def drop_marked_tables(context: Context) -> None:
    """
    Drop the tables that are marked for removal.

    It skips tables that another thread loads; that thread calls this function after the load. If the warehouse fails,
    for example because the service is stopping, the table is dropped at the next start.
    """
    for row in context.store.database.rows("SELECT schema_name, name FROM doomed_tables"):
        place = Place(row["schema_name"], row["name"])
        with locked(context, place, wait=False) as is_locked:
            if is_locked and _is_marked_for_removal(context, place):
                try:
                    _drop(context, place)
                except WarehouseError as error:
                    log.warning("%s is dropped at the next start: %s", place, error)


def _is_marked_for_removal(context: Context, place: Place) -> bool:
    return bool(context.store.database.value("SELECT 1 FROM doomed_tables WHERE schema_name = ? AND name = ?", *place))


def _drop(context: Context, place: Place) -> None:
    TableLoader(context.warehouse).drop(place)
    context.store.database.run("DELETE FROM doomed_tables WHERE schema_name = ? AND name = ?", *place)
