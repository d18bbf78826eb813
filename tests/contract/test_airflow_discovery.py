"""Tests that Airflow's command line finds the connection type of the provider and its form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.get_provider_info import CONNECTION_FIELDS
from tests.support.airflow_versions import since

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return environment variables with a temporary AIRFLOW_HOME."""
    folder = tmp_path_factory.mktemp("airflow")
    return {**os.environ, "AIRFLOW_HOME": str(folder), "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}


def listed(home: Mapping[str, str], what: str) -> list[dict[str, Any]]:
    airflow = Path(sys.executable).with_name("airflow")
    command = [str(airflow), "providers", what, "--output", "json"]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603 - command line of Airflow
    answer: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("[") :])
    return answer


def test_the_hook_is_listed_and_loads(home: Mapping[str, str]) -> None:
    (ours,) = [each for each in listed(home, "hooks") if each["connection_type"] == "datapipe"]
    assert ours["class"] == "airflow_provider_datapipe.hooks.datapipe.DatapipeHook"
    assert ours["conn_id_attribute_name"] == "datapipe_conn_id"
    assert ours["hook_name"] == "Datapipe"


@since("3.2", "forms of connections without code")
def test_the_form_is_listed(home: Mapping[str, str]) -> None:
    names = {each["connection_parameter_name"] for each in listed(home, "widgets")}
    assert {f"extra__datapipe__{name}" for name in CONNECTION_FIELDS} <= names
    assert {"field_behaviours": "datapipe"} in listed(home, "behaviours")
