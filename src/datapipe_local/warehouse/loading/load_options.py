"""Load options of a stream, and the note about the last load of its table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from datapipe_local.warehouse.loading.readable import Selection
from datapipe_local.warehouse.warehouse import literal

if TYPE_CHECKING:
    import duckdb

    from datapipe_local.warehouse.warehouse import Place


@dataclass(frozen=True)
class LoadOptions:
    """
    Load options of a stream.

    :param selection: The columns of the table, and their protection.
    :param pointer: The column that identifies new rows: their values are not less than the earlier ones.
    :param key: The columns that identify rows; of several rows with the same key, the one with the greatest pointer
        value stays.
    :param keeps_history: The stream has a history table.
    """

    selection: Selection = field(default_factory=Selection)
    pointer: str | None = None
    key: tuple[str, ...] = ()
    keeps_history: bool = False

    @property
    def signature(self) -> list[object]:
        """Key of the load options. A change forces a full load."""
        return [
            sorted(self.selection.omitted),
            sorted({name.casefold() for name in self.selection.hashed}),
            self.pointer and self.pointer.casefold(),
            [name.casefold() for name in self.key],
        ]


@dataclass(frozen=True)
class Run:
    """
    Run of a stream.

    :param id: The ID of the run: a run that has loaded a table does not load it again.
    :param moment: The time of the run, in SQL form: its rows are valid from then on.
    :param resets_history: The run clears the history table.
    """

    id: str
    moment: str
    resets_history: bool = False


@dataclass(frozen=True)
class Note:
    """
    Note about the last load of a table, written in the transaction of the load.

    :param run: The run that loaded the table; None for a slice.
    :param rows: The number of rows that it loaded.
    :param size: The number of bytes that it read at the source.
    :param mode: The load mode, in the terms of the interface.
    :param trigger: The reason for a full load, if it was one, in the terms of the interface.
    :param signature: The key of the load options.
    """

    run: str | None
    rows: int
    size: int
    mode: str
    trigger: str
    signature: list[object]

    @property
    def hashed(self) -> set[str]:
        """The columns that contain hashes, in lower case."""
        names = self.signature[1]
        return {str(name) for name in names} if isinstance(names, list) else set()

    def write(self, cursor: duckdb.DuckDBPyConnection, place: Place) -> None:
        """Store the note with its table."""
        # As a comment on the table, so that it always exists exactly as long as the table.
        cursor.execute(f"COMMENT ON TABLE {place.sql} IS {literal(json.dumps(asdict(self)))}")

    @classmethod
    def read(cls, cursor: duckdb.DuckDBPyConnection, place: Place) -> Note | None:
        """Return the note of a table; None if there is no table or no note."""
        found = cursor.execute(
            "SELECT comment FROM duckdb_tables() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
            [*place],
        ).fetchone()
        if found is None or found[0] is None:
            return None
        try:
            return cls(**json.loads(found[0]))
        except (ValueError, TypeError):
            # A comment by others.
            return None
