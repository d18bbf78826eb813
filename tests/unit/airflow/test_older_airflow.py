"""Messages with an Airflow version that is too old for a feature: they name the required version."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest
from airflow import __version__


def test_the_retry_policy_says_which_airflow_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    # As before Airflow 3.3: the module has no RetryPolicy.
    monkeypatch.setitem(sys.modules, "airflow.sdk", ModuleType("airflow.sdk"))
    monkeypatch.delitem(sys.modules, "airflow_provider_datapipe.retries", raising=False)
    with pytest.raises(ImportError, match=rf"requires Airflow 3\.3 or later; this is {__version__}"):
        importlib.import_module("airflow_provider_datapipe.retries")
