"""Fixtures: a home for Airflow, and a shop for each test (see docs/testing.md)."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from datapipe_local.testing import DatapipeLocal

SHOP = Path(__file__).parents[1] / "shop"

# Set before the import of Airflow.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-")
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(SHOP)
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.fixture(scope="session", autouse=True)
def airflow_database() -> Iterator[None]:
    """Create the database of Airflow once."""
    from airflow.utils.db import initdb

    # Exclude Airflow's modules from garbage collection, which would take a third of the time.
    gc.set_threshold(100_000)
    initdb()
    yield
    gc.freeze()
    shutil.rmtree(os.environ["AIRFLOW_HOME"])


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the messages that are posted to the connection ``shop_chat``."""
    messages: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        connection = {"conn_type": "http", "host": f"http://127.0.0.1:{server.server_port}"}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_CHAT", json.dumps(connection))
        yield messages
        server.shutdown()
        thread.join()


@dataclass(frozen=True)
class Shop:
    """
    Shop with files that a test can change.

    :param folder: The folder of its files.
    :param service: The service.
    :param crm: The database of the contacts.
    """

    folder: Path
    service: DatapipeLocal
    crm: Path

    def load(self, *streams: str) -> None:
        """Load streams of the service, like another client."""
        for stream in streams:
            before = len(self.service.journal.runs(stream))
            self.service.api.post(f"/elt_streams/{stream}/request_run").raise_for_status()
            self.service.journal.wait_for_runs(stream, before + 1)

    def replace(self, file: str, old: str, new: str) -> None:
        """Change a source file."""
        path = self.folder / "data" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def is_loaded_at(self) -> tuple[str, bool]:
        """Return the schedule of the service's own loads, and whether it is enabled."""
        sync = self.service.api.get("/elt_syncs/shop").json()
        return sync["sync_interval"], sync["enabled"]

    def ask_crm(self, sql: str) -> list[Any]:
        """Query or change the CRM, and return the first column."""
        with closing(sqlite3.connect(self.crm)) as database, database:
            return [row[0] for row in database.execute(sql)]


@pytest.fixture
def shop(datapipe_local: DatapipeLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return the shop of seed.yaml, without any runs."""
    folder, crm = tmp_path / "shop", tmp_path / "crm.db"
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    with closing(sqlite3.connect(crm)) as database:
        database.executescript((folder / "crm.sql").read_text())
    monkeypatch.setenv("SHOP_CRM", str(crm))
    monkeypatch.setenv("SHOP_WEBHOOK_SECRET", "made up for this test")
    datapipe_local.seed(folder / "seed.yaml")
    datapipe_local.connect("shop")
    return Shop(folder, datapipe_local, crm)
