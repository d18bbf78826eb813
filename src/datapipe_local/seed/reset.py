"""Reset of the store and the warehouse to their state before any run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.seed.apply import Seeding, stored_seeds

if TYPE_CHECKING:
    from datapipe_local.services.context import Context


def reset_service(context: Context, *, keep_seed: bool) -> int:
    """
    Empty the store and the warehouse. The caller holds a store transaction, and no job is running.

    If the process is killed midway, the warehouse may be empty while the store is not; the next reset completes it.

    :param context: The service.
    :param keep_seed: Apply all stored seeds again; otherwise nothing is left.
    :return: The number of seeds that were applied again.
    :raises SetupError: a seed can no longer be applied; the warehouse is unchanged, and so is the store if the caller
        rolls its transaction back.
    """
    database = context.store.database
    seeds = stored_seeds(context.store) if keep_seed else []
    # The tables can be emptied in any order.
    database.run("PRAGMA defer_foreign_keys = ON")
    for table in database.tables():
        database.run(f"DELETE FROM {table}")  # noqa: S608 - the schema's own names
    with context.warehouse.transaction():
        context.warehouse.clear()
        for seed in seeds:
            Seeding(context, seed).put_entries()
    return len(seeds)
