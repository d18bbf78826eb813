"""The control plane's own tables, and the triggers that keep the journal."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import resources
from typing import TYPE_CHECKING

from datapipe_local.control.paths import matches

if TYPE_CHECKING:
    from datapipe_local.clock import Clock
    from datapipe_local.store.database import Database

#: The request that is being carried out, by its number in the journal. Threads that serve a request inherit it.
REQUEST: ContextVar[int | None] = ContextVar("REQUEST", default=None)

_OWN = ("journal_", "control_", "sqlite_")


def prepare(database: Database, clock: Clock) -> None:
    """
    Have a database keep the journal, for as long as it is open.

    :param database: The state of a service.
    :param clock: Its time.
    """
    database.define("journal_request", 0, REQUEST.get)
    database.define("journal_now", 0, clock.now)
    database.define("path_matches", 2, matches)
    database.script(_text("schema.sql"))
    database.script(_text("triggers.sql"))
    for table in tables(database):
        if not table.startswith(_OWN):
            for change in ("INSERT", "UPDATE", "DELETE"):
                # In the transaction of the change: a request is committed in the journal if, and only if, it is.
                database.script(
                    f"CREATE TEMP TRIGGER committed_{change}_{table} AFTER {change} ON main.{table}"  # noqa: S608 - the schema's
                    " WHEN journal_request() IS NOT NULL BEGIN"
                    " UPDATE journal_requests SET committed = 1 WHERE seq = journal_request() AND NOT committed; END;"
                )


def tables(database: Database) -> list[str]:
    """Give the names of all tables of the state, the control plane's among them."""
    return [row["name"] for row in database.rows("SELECT name FROM main.sqlite_master WHERE type = 'table'")]


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
