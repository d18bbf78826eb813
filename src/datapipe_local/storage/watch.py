"""Change detection for caches of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datapipe_local.storage.database import Database


class Watch:
    """
    Counter of changes to some tables.

    The count increases within the transaction of a change, before its commit. A cache entry is valid if the count is
    still the same as before the entry was read.

    :param database: Database that contains the tables.
    :param tables: Names of the tables.
    """

    def __init__(self, database: Database, *tables: str) -> None:
        self.count = 0
        name = f"watch_{'_'.join(tables)}"
        database.define(name, 0, self._change)
        for table in tables:
            for change in ("INSERT", "UPDATE", "DELETE"):
                # A temporary trigger sees the changes of this connection only, which is the only writer.
                database.script(
                    f"CREATE TEMP TRIGGER {name}_{change}_{table} AFTER {change} ON main.{table}"
                    f" BEGIN SELECT {name}(); END"
                )

    def _change(self) -> None:
        self.count += 1
