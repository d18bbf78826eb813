"""What the tests are given: a home for Airflow that is not the user's, Ctrl-C, and time."""

from __future__ import annotations

import gc
import os
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# Before anything else: it replaces time.time and time.sleep by functions that can be simulated.
import tests.support.simulated_time  # noqa: F401 - see above
from tests.support.examples import LARGE
from tests.support.local_service import LocalService

LocalService.forked = True

# What is imported during the collection stays. Garbage collections during it take a fifth of its time.
gc.disable()

# Before any test imports Airflow.
_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
# Deferrable tasks defer at once, so that short runs test the triggers, too. The tests of the setting remove it.
os.environ["AIRFLOW__DATAPIPE__DEFER_AFTER"] = "0"

# A shell has what it starts in the background ignore SIGINT, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The time of an example depends on the machine's load. Examples are the same in each run, so that no landing fails by
# chance: `make test` uses "small", `make test-slow` "large". A search for new examples:
# pytest --hypothesis-profile=thorough --hypothesis-seed=...
_COMMON = settings(settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("small", _COMMON, max_examples=LARGE // 5, derandomize=True, database=None)
settings.register_profile("large", _COMMON, max_examples=LARGE, derandomize=True, database=None)
settings.register_profile("thorough", _COMMON, max_examples=50 * LARGE, derandomize=False)
settings.load_profile("small")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


#: Each test has exactly one tier: that of its marker, else that of its folder.
_TIERS = {"fast": "tests/unit", "medium": "tests/contract", "slow": "tests/system"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the markers of the tier and of property tests, before pytest selects tests by marker."""
    for item in items:
        marked = {mark.name for mark in item.iter_markers()} & _TIERS.keys()
        if len(marked) > 1:
            raise pytest.UsageError(f"{item.nodeid}: one tier, not {sorted(marked)}")
        folder = item.path.relative_to(item.config.rootpath).as_posix()
        if not marked:
            (tier,) = (tier for tier, root in _TIERS.items() if folder.startswith(f"{root}/"))
            item.add_marker(tier)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
