from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from datapipe_local.services.context import Context
from datapipe_local.storage.clock import Clock
from datapipe_local.storage.store import Store
from datapipe_local.warehouse.warehouse import Warehouse
from tests.support.postgresql import PostgreSQL, need_postgresql
from tests.unit.datapipe_local.file_loads import FileLoads


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state.sqlite")
    yield store
    store.close()


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    warehouse = Warehouse(tmp_path / "warehouse.duckdb", scratch)
    yield warehouse
    warehouse.close()


@pytest.fixture
def context(store: Store, warehouse: Warehouse) -> Context:
    return Context(store, warehouse, Clock())


@pytest.fixture
def files(tmp_path: Path, warehouse: Warehouse) -> FileLoads:
    return FileLoads(tmp_path / "source", warehouse)


@pytest.fixture(scope="module")
def postgresql_server() -> Iterator[PostgreSQL]:
    need_postgresql()
    with PostgreSQL() as server:
        yield server
