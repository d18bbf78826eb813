"""What the tests are given: a home for Airflow that is not the user's, Ctrl-C, and time."""

from __future__ import annotations

import os
import signal
import tempfile

from hypothesis import HealthCheck, settings

# Before anything else: it replaces time.time and time.sleep by functions that can be simulated.
import tests.support.simulated_time  # noqa: F401 - see above

# Before any test imports Airflow.
_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
# Deferrable tasks defer at once, so that short runs test the triggers, too. The tests of the setting remove it.
os.environ["AIRFLOW__DATAPIPE__DEFER_AFTER"] = "0"

# A shell has what it starts in the background ignore SIGINT, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is up to what else the machine does; all else stays as it is, also where CI has its own.
settings.register_profile("busy_machine", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For a longer search: pytest --hypothesis-profile=thorough --hypothesis-seed=...
settings.register_profile("thorough", settings.get_profile("busy_machine"), max_examples=5_000, print_blob=True)
settings.load_profile("busy_machine")
