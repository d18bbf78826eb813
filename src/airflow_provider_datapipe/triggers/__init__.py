"""Waiting in the triggerer; and importing what that needs without holding up the event loop that all triggers share."""

from __future__ import annotations

import asyncio
import importlib

_loaded: set[str] = set()


async def load(*modules: str) -> None:
    """
    Import modules in a thread: it takes too long for an event loop that others use.

    :param modules: their names.
    """
    for module in modules:
        if module not in _loaded:
            await asyncio.to_thread(importlib.import_module, module)
            _loaded.add(module)
