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
from typing import Any

_FULL = 2
_begun = 0.0


def _log(phase: str, info: dict[str, Any]) -> None:
    global _begun  # noqa: PLW0603 - the callbacks of one collection share it
    if info["generation"] != _FULL:
        return
    if phase == "start":
        _begun = time.monotonic()
        return
    line = f"{time.time()} {time.monotonic() - _begun}\n"
    with open(os.path.join(os.environ["AIRFLOW_HOME"], "collections.log"), "a", encoding="utf-8") as log:  # noqa: PTH118, PTH123 - all Python processes import this module
        log.write(line)


if "triggerer" in sys.orig_argv:
    gc.callbacks.append(_log)
