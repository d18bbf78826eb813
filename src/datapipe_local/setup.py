"""``init``: the home, its key, its state, its seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datapipe_local.clock import Clock
from datapipe_local.seed.apply import Seeding
from datapipe_local.seed.document import Document
from datapipe_local.service.context import Context
from datapipe_local.store.store import Store
from datapipe_local.warehouse import Warehouse

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from datapipe_local.home import Home

_NAMES = {
    "connection": "connections",
    "orchestration": "orchestrations",
    "elt_sync": "ELT syncs",
    "elt_stream": "ELT streams",
    "transform": "transforms",
    "reverse_etl_sync": "reverse ETL syncs",
}


def initialise(home: Home, seed_file: Path | None, wanted_key: str | None) -> list[str]:
    """
    Create what is not there yet and apply the seed.

    :param home: Where.
    :param seed_file: The seed; ``None`` adds nothing.
    :param wanted_key: The API key to use; ``None`` keeps the present one, or makes one up.
    :return: What was done, in lines for a person. The key is not among them.
    :raises SetupError: it cannot be done; of the seed, nothing is then.
    """
    # The seed first: what cannot be read leaves no home behind.
    document = None if seed_file is None else Document(seed_file)
    home.create()
    with home.locked():
        created = not home.is_initialised
        home.scratch.mkdir(exist_ok=True)
        key_written = home.keep_key(wanted_key)
        context = Context(Store(home.state), Warehouse(home.warehouse, home.scratch), Clock())
        try:
            done = [
                f"Home: {home.folder} ({'created' if created else 'was there'})",
                f"API key: in {home.key_file} ({'written' if key_written else 'unchanged'})",
            ]
            if document is not None:
                seeding = Seeding(context, document)
                seeding.apply()
                done.append(f"Seed: {document.path} ({_summary(seeding.applied)})")
        finally:
            context.warehouse.close()
            context.store.close()
    return done


def _summary(applied: Counter[str]) -> str:
    counts = [f"{applied[kind]} {name}" for kind, name in _NAMES.items() if applied[kind]]
    return f"created or changed: {', '.join(counts)}" if counts else "nothing to change"
