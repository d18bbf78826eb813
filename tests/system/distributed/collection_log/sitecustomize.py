"""
Log each full garbage collection of a triggerer, in which its event loop cannot run.

Python imports this module at its start if its folder is in ``PYTHONPATH``. Each line of the file
``$AIRFLOW_HOME/collections.log`` contains the end of a collection in seconds since the epoch, and its duration in
seconds.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

_FULL = 2


class CollectionLog:
    """Callback of the garbage collector that appends each full collection to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begun = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """Receive the begin or the end of a collection, as :data:`gc.callbacks` defines it."""
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._begun = time.monotonic()
            return
        with self._file.open("a", encoding="utf-8") as log:
            log.write(f"{time.time()} {time.monotonic() - self._begun}\n")


if "triggerer" in sys.orig_argv:
    gc.callbacks.append(CollectionLog(Path(os.environ["AIRFLOW_HOME"], "collections.log")))
