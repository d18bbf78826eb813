"""A home for Airflow, and a shop for each test: see docs/testing.md."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.testing import DatapipeLocal

SHOP = Path(__file__).parents[1] / "shop"

# Before anything imports Airflow.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-")
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(SHOP)
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.fixture(scope="session", autouse=True)
def airflow_database() -> Iterator[None]:
    """Make Airflow's database, once."""
    from airflow.utils.db import initdb

    # What Airflow loads stays: to look through it for garbage, also at the end, takes a third of the time.
    gc.set_threshold(100_000)
    initdb()
    yield
    gc.freeze()
    shutil.rmtree(os.environ["AIRFLOW_HOME"])


@dataclass(frozen=True)
class Shop:
    """
    A shop, with files that a test may change.

    :param folder: Its files.
    :param service: The service.
    :param crm: The database that contacts are written to.
    """

    folder: Path
    service: DatapipeLocal
    crm: Path

    def load(self, *streams: str) -> None:
        """Have the service load streams, as somebody else might."""
        for stream in streams:
            before = len(self.service.journal.runs(stream))
            self.service.api.post(f"/elt_streams/{stream}/request_run").raise_for_status()
            self.service.journal.wait_for_runs(stream, before + 1)

    def replace(self, file: str, old: str, new: str) -> None:
        """Change a file at the source."""
        path = self.folder / "data" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def ask_crm(self, sql: str) -> list[Any]:
        """Ask the CRM, or change it; give the first column."""
        with closing(sqlite3.connect(self.crm)) as database, database:
            return [row[0] for row in database.execute(sql)]


@pytest.fixture
def shop(datapipe_local: DatapipeLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Give the shop of seed.yaml, in which nothing has run yet."""
    folder, crm = tmp_path / "shop", tmp_path / "crm.db"
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    with closing(sqlite3.connect(crm)) as database:
        database.executescript((folder / "crm.sql").read_text())
    monkeypatch.setenv("SHOP_CRM", str(crm))
    monkeypatch.setenv("SHOP_WEBHOOK_SECRET", "made up for this test")
    datapipe_local.seed(folder / "seed.yaml")
    datapipe_local.connect("shop")
    return Shop(folder, datapipe_local, crm)
