"""What the tests and all that they start are given: a home for Airflow that is not the user's, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import tempfile

# Before any test imports Airflow.
_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

# A shell has what it starts in the background ignore SIGINT, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
