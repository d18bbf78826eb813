"""Tables of the control plane, and the triggers that keep the journal."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import resources
from typing import TYPE_CHECKING

from datapipe_local.control.paths import matches

if TYPE_CHECKING:
    from datapipe_local.storage.clock import Clock
    from datapipe_local.storage.database import Database

#: Journal number of the present request. Threads that serve a request inherit it.
REQUEST: ContextVar[int | None] = ContextVar("REQUEST", default=None)

_OWN = ("journal_", "control_")


def prepare(database: Database, clock: Clock) -> None:
    """
    Create the tables and triggers of the journal in a database, while it is open.

    :param database: The state of a service.
    :param clock: The clock of the service.
    """
    database.define("journal_request", 0, REQUEST.get)
    database.define("journal_now", 0, clock.now)
    database.define("path_matches", 2, matches)
    database.script(_text("schema.sql"))
    database.script(_text("triggers.sql"))
    for table in database.tables():
        if not table.startswith(_OWN):
            for change in ("INSERT", "UPDATE", "DELETE"):
                # In the transaction of the change: the journal shows the request as committed exactly if the change is.
                database.script(
                    f"CREATE TEMP TRIGGER committed_{change}_{table} AFTER {change} ON main.{table}"  # noqa: S608 - the schema's
                    " WHEN journal_request() IS NOT NULL BEGIN"
                    " UPDATE journal_requests SET committed = 1 WHERE seq = journal_request() AND NOT committed; END;"
                )


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
