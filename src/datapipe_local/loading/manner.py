"""How a stream is loaded, and what stands with its table about its last load."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from datapipe_local.loading.readable import Selection
from datapipe_local.warehouse import literal

if TYPE_CHECKING:
    import duckdb

    from datapipe_local.warehouse import Place


@dataclass(frozen=True)
class Manner:
    """
    How a stream is loaded.

    :param selection: Which columns its table gets.
    :param pointer: The column that tells what is new: none is less than those before.
    :param key: The columns that tell rows apart; of several rows with one key, the one whose pointer is greatest stays.
    :param keeps_history: It has a history table.
    """

    selection: Selection = field(default_factory=Selection)
    pointer: str | None = None
    key: tuple[str, ...] = ()
    keeps_history: bool = False

    @property
    def signature(self) -> list[object]:
        """What rows that were loaded in another manner do not fit to."""
        return [
            sorted(self.selection.omitted),
            sorted({name.casefold() for name in self.selection.hashed}),
            self.pointer and self.pointer.casefold(),
            [name.casefold() for name in self.key],
        ]


@dataclass(frozen=True)
class Run:
    """
    A run of a stream.

    :param id: Its id: a run that has loaded a table does not load it again.
    :param moment: Its time, in the words of SQL: from when on its rows hold.
    :param resets_history: It begins the history table anew.
    """

    id: str
    moment: str
    resets_history: bool = False


@dataclass(frozen=True)
class Note:
    """
    What is known of the last load of a table. It is written in the transaction of the load.

    :param run: The run that has loaded it; none for a slice.
    :param rows: How many rows it has moved.
    :param size: How many bytes it has read at the source.
    :param mode: How it has loaded, as the interface says it.
    :param trigger: Why it has loaded everything, if it has, as the interface says it.
    :param signature: That of the manner.
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
        """Put it where the table is."""
        # A comment, so that it comes and goes with the table in every way.
        cursor.execute(f"COMMENT ON TABLE {place.sql} IS {literal(json.dumps(asdict(self)))}")

    @classmethod
    def read(cls, cursor: duckdb.DuckDBPyConnection, place: Place) -> Note | None:
        """Read it, if there is a table that has one."""
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
            # Not ours.
            return None
