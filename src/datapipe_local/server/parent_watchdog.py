"""Watchdog that stops this process when its parent process ends."""

from __future__ import annotations

import os
import signal
import threading
import time

_STDIN = 0
_SECONDS_BETWEEN_SIGNALS = 0.5


def stop_with_stdin() -> None:
    """Send SIGTERM to this process when its standard input ends, because the parent process has gone."""
    threading.Thread(target=_watch, name="parent-watchdog", daemon=True).start()


def _watch() -> None:
    # Not sys.stdin: a waiting thread would hold its lock at the exit of the process.
    while os.read(_STDIN, 1 << 16):
        pass
    # A signal that arrives too early can be lost. Repeat it.
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_SECONDS_BETWEEN_SIGNALS)
