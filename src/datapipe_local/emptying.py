"""Putting a state back to where it was before anything ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.seed.apply import Seeding, stored_seeds

if TYPE_CHECKING:
    from datapipe_local.service.context import Context


def empty(context: Context, *, keep_seed: bool) -> int:
    """
    Empty the store and the warehouse. The caller is in a transaction of the store, and nothing is going on.

    A process that is killed in here may have emptied the warehouse and not yet the store; then it is done again.

    :param context: The service.
    :param keep_seed: Apply again what was applied; else nothing is left at all.
    :return: How many seeds were applied again.
    :raises SetupError: a seed cannot be applied any more; then the store is as it was.
    """
    database = context.store.database
    seeds = stored_seeds(context.store) if keep_seed else []
    # The order in which tables are emptied does not matter then.
    database.run("PRAGMA defer_foreign_keys = ON")
    for row in database.rows("SELECT name FROM main.sqlite_master WHERE type = 'table'"):
        if not row["name"].startswith("sqlite_"):
            database.run(f"DELETE FROM {row['name']}")  # noqa: S608 - the schema's own names
    context.warehouse.clear()
    for seed in seeds:
        Seeding(context, seed).apply()
    return len(seeds)
