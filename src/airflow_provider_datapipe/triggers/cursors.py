"""Cursors of watchers in Airflow's asset state store, where they survive a restart of the triggerer."""

from __future__ import annotations

import hashlib
import json
from typing import Any


class CursorStore:
    """
    The cursor of one watcher.

    :param accessors: Airflow's state store of the assets (``asset_state_store``).
    :param identity: what the cursor depends on; a watcher of something else has another one.
    """

    def __init__(self, accessors: Any, identity: dict[str, Any]) -> None:
        # A trigger can serve several assets; then Airflow wants to be told for which.
        self._accessors = list(getattr(accessors, "_by_name", {}).values()) or [accessors]
        text = json.dumps(identity, sort_keys=True)
        self._key = f"datapipe-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    async def get(self) -> dict[str, Any] | None:
        """Read it; None if there is none yet."""
        for accessor in self._accessors:
            stored = await accessor.aget(self._key)
            if isinstance(stored, dict):
                return stored
        return None

    async def set(self, cursor: dict[str, Any]) -> None:
        """Write it, for all the assets: one of them may be taken away."""
        for accessor in self._accessors:
            await accessor.aset(self._key, cursor)
