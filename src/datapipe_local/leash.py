"""Not outliving whoever started this process."""

from __future__ import annotations

import os
import signal
import threading
import time

_STDIN = 0
_SECONDS_BETWEEN_SIGNALS = 0.5


def stop_with_stdin() -> None:
    """Have this process told to stop (SIGTERM) once its standard input ends: nobody holds the other end any more."""
    threading.Thread(target=_watch, name="leash", daemon=True).start()


def _watch() -> None:
    # Not through sys.stdin, whose lock a thread that waits would hold at the end of the process.
    while os.read(_STDIN, 1 << 16):
        pass
    # Once may be too early: there is an instant in which the signal is not heeded.
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_SECONDS_BETWEEN_SIGNALS)
