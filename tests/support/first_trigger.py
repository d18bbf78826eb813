"""
Program that runs the first trigger of a process, and prints the modules that its event loop thread loads.

``python -m tests.support.first_trigger`` reads a JSON object from its standard input: the ``module`` and ``name`` of a
trigger class, its ``arguments``, the ``connection`` that it uses, and ``kill``, true to kill it. It prints a JSON
object: the status of the event (``status``), and the modules and certificates that the thread loaded (``loaded``).
"""

from __future__ import annotations

import asyncio
import importlib
import json
import ssl
import sys
import threading
from typing import Any

from airflow.sdk import BaseHook


class LoadRecorder:
    """Record of the modules that a thread imports, and of the certificates that it reads."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self._thread: int | None = None
        sys.addaudithook(self._audit)
        # No audit event exists for certificates. ssl.create_default_context() calls one of these methods.
        for method in ("load_verify_locations", "load_default_certs"):
            setattr(ssl.SSLContext, method, self._recorded(getattr(ssl.SSLContext, method)))

    def start(self) -> None:
        """Start the record for the current thread."""
        self._thread = threading.get_ident()

    def stop(self) -> None:
        """Stop the record."""
        self._thread = None

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import" and threading.get_ident() == self._thread:
            self.loaded.append(f"module {arguments[0]}")

    def _recorded(self, load: Any) -> Any:
        def recorded(context: ssl.SSLContext, *arguments: Any, **options: Any) -> Any:
            if threading.get_ident() == self._thread:
                self.loaded.append("certificates")
            return load(context, *arguments, **options)

        return recorded


async def first_event(trigger: Any, conn_id: str, recorder: LoadRecorder, *, kill: bool) -> dict[str, Any]:
    """
    Run a trigger until its first event, or kill it.

    :param recorder: records the thread of the event loop.
    :param kill: kill the trigger instead.
    """
    # Imports of Airflow that all triggers with a connection need.
    await BaseHook.aget_connection(conn_id)
    # Name resolution uses a thread, too.
    await asyncio.to_thread(int)
    recorder.start()
    try:
        async with asyncio.timeout(30):
            if kill:
                await trigger.on_kill()
                return {}
            payload: dict[str, Any] = (await anext(trigger.run())).payload
            return payload
    finally:
        recorder.stop()


def main() -> None:
    """Run the program."""
    given = json.load(sys.stdin)
    trigger = getattr(importlib.import_module(given["module"]), given["name"])(**given["arguments"])
    recorder = LoadRecorder()
    event = asyncio.run(first_event(trigger, given["connection"], recorder, kill=given["kill"]))
    print(json.dumps({"status": event.get("status") or event.get("outcome"), "loaded": recorder.loaded}))


if __name__ == "__main__":
    main()
