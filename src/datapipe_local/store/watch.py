"""Knowing that tables have not changed, for those who remember what they have read there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datapipe_local.store.database import Database


class Watch:
    """
    Counts the changes of some tables.

    The count goes up while a change is made, so before it is committed: whoever reads the tables waits for that. One
    who notes the count, then reads, and finds the same count later knows that what was read still holds.

    :param database: Where the tables are.
    :param tables: Their names.
    """

    def __init__(self, database: Database, *tables: str) -> None:
        self.count = 0
        name = f"watch_{'_'.join(tables)}"
        database.define(name, 0, self._change)
        for table in tables:
            for change in ("INSERT", "UPDATE", "DELETE"):
                # This connection's own, as it is the only one that changes anything.
                database.script(
                    f"CREATE TEMP TRIGGER {name}_{change}_{table} AFTER {change} ON main.{table}"
                    f" BEGIN SELECT {name}(); END"
                )

    def _change(self) -> None:
        self.count += 1
