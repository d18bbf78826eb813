"""Storage of watcher cursors in Airflow's asset state store, so that they survive a restart of the triggerer."""

from __future__ import annotations

import hashlib
import json
from typing import Any


class CursorStore:
    """
    Stored cursor of one watcher.

    :param accessors: Airflow's state store of the assets (``asset_state_store``).
    :param identity: trigger class and arguments that the cursor depends on. They make up its key.
    """

    def __init__(self, accessors: Any, identity: dict[str, Any]) -> None:
        # A trigger can serve several assets. Then Airflow has one accessor for each of them.
        self._accessors = list(getattr(accessors, "_by_name", {}).values()) or [accessors]
        text = json.dumps(identity, sort_keys=True)
        self._key = f"datapipe-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    async def get(self) -> dict[str, Any] | None:
        """Return the cursor, None if none is stored."""
        for accessor in self._accessors:
            stored = await accessor.aget(self._key)
            if isinstance(stored, dict):
                return stored
        return None

    async def set(self, cursor: dict[str, Any]) -> None:
        """Store the cursor for all assets, because one of them may be removed."""
        for accessor in self._accessors:
            await accessor.aset(self._key, cursor)
