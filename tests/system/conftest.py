"""What the system tests share. Starting Airflow takes long, so one set of components serves the session."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.components import AirflowComponents
from tests.system.process_table import working_in

if TYPE_CHECKING:
    from collections.abc import Iterator

DAGS = Path(__file__).with_name("dags")


@pytest.fixture(scope="session")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the shared components read DAG files from; a test may add its own."""
    folder = tmp_path_factory.mktemp("airflow") / "dags"
    shutil.copytree(DAGS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="session")
def airflow(dags_folder: Path) -> Iterator[AirflowComponents]:
    """Return running components. A test that kills one starts it again before it ends."""
    with AirflowComponents(dags_folder, env={"AIRFLOW_CONN_FS_DEFAULT": "fs:///"}) as components:
        home = components.home
        yield components
    assert working_in(home) == []
    assert not home.exists()
