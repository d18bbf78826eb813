"""Local service of a test module, with the seed and the files that the module declares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.seeds import ROWS, connect
from tests.contract.transform_commands import deployed, models, say
from tests.support.local_service import LocalService

__all__ = ["client", "deployed", "folder", "models", "running", "say", "service"]


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with the source files in ``SOURCES`` of the module."""
    folder = tmp_path_factory.mktemp("source")
    for name, text in getattr(request.module, "SOURCES", {"orders.csv": ROWS, "people.csv": ROWS}).items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, folder: Path) -> Iterator[LocalService]:
    """Start a service with ``SEED`` of the module."""
    seed = json.loads(json.dumps(request.module.SEED).replace("{folder}", str(folder)))
    with LocalService(seed, control=True) as service:
        yield service


@pytest.fixture
def client(running: LocalService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.base_url, headers=running.headers) as client:
        yield client


@pytest.fixture
def service(running: LocalService, monkeypatch: pytest.MonkeyPatch) -> LocalService:
    """Reset the service to its seed, and create the default Airflow connection."""
    running.reset()
    connect(monkeypatch, running)
    return running
