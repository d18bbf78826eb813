"""Triggers, and an import function that does not block the event loop of the triggerer."""

from __future__ import annotations

import asyncio
import importlib

_loaded: set[str] = set()


async def load(*modules: str) -> None:
    """
    Import modules in a thread, so that the import does not block the event loop that all triggers share.

    :param modules: names of the modules.
    """
    for module in modules:
        if module not in _loaded:
            await asyncio.to_thread(importlib.import_module, module)
            _loaded.add(module)
