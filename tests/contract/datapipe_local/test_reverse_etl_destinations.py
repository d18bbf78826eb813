"""End-to-end tests of table and batch destinations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_datapipe.api.models.reverse_etl import ReverseEtlSyncRun
from tests.contract.datapipe_local.partner import Partner
from tests.contract.datapipe_local.reverse_etl_home import Home, body, seed
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

pytestmark = pytest.mark.slow


Json = dict[str, Any]
ROWS = 10_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("destinations")


@pytest.fixture(scope="module")
def controlled(folder: Path, partner: Partner) -> Iterator[LocalService]:
    content = seed(folder, partner.url)
    settings = {"url": f"sqlite:///{folder}/shop.db"}
    content["connections"].append({"id": "shop_db", "integration_id": "sql_tables", "label": "S", "settings": settings})
    sql = f"SELECT range AS id, 'name ' || range AS name FROM range({ROWS})"  # noqa: S608 - a constant
    content["transforms"].append({"id": "many", "name": "many", "publish": True, "sql_template": sql})
    with LocalService(content, control=True) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture
def home(controlled: LocalService, folder: Path, partner: Partner) -> Home:
    controlled.reset()
    partner.reset()
    (folder / "shop.db").unlink(missing_ok=True)
    execute(folder, "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT CHECK (name <> 'Bob'))")
    execute(folder, "CREATE TABLE log (id INTEGER, name TEXT)")
    return Home(controlled, folder)


def execute(folder: Path, statement: str) -> list[Any]:
    """Execute a statement in the database of the destination, and return its rows."""
    with closing(sqlite3.connect(folder / "shop.db", timeout=30)) as database, database:
        return database.execute(statement).fetchall()


def test_mirror_to_a_table(home: Home, folder: Path) -> None:
    home.load({1: "Ada", 2: "Bob", 3: "Cyd"})
    sync = home.create(mode="mirror", destination_connection_id="shop_db")
    assert home.run(sync) == (3, 3, 3, 2, 1)
    assert execute(folder, "SELECT * FROM people") == [(1, "Ada"), (3, "Cyd")]
    (reason,) = home.failures(sync).values()
    assert "CHECK constraint failed" in reason
    # Only what has changed is sent; what was refused is not, before it changes.
    assert home.run(sync)[2:] == (0, 0, 0)
    home.load({2: "Eve", 3: "Cyd"})
    assert home.run(sync)[2:] == (2, 2, 0)
    assert execute(folder, "SELECT * FROM people") == [(2, "Eve"), (3, "Cyd")]
    assert home.failures(sync) == {}


def test_tables_are_object_types_with_their_columns(home: Home) -> None:
    home.load({1: "Ada"})
    of = {"connection_id": "shop_db"}
    listed = home.api.get("/reverse_etl_syncs/object_types", **of)["data"]
    assert [one["id"] for one in listed] == ["log", "people"]
    of |= {"object_type_id": "people", "operation_mode": "upsert", "source_id": "shop.people"}
    known = home.api.get("/reverse_etl_syncs/destination_schema", **of)["data"]
    assert [(one["id"], one["property_type"], one["is_primary_key"]) for one in known] == [
        ("id", "integer", True),
        ("name", "string", False),
    ]


def test_missing_table_fails_the_run(home: Home) -> None:
    home.load({1: "Ada"})
    sync = home.create(destination_connection_id="shop_db", object_type_id="nobody")
    run = home.api.run_reverse(sync)
    assert run.status == "FAILED"
    assert "has no table nobody: create it there" in str(run.error)


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_kills_neither_lose_nor_repeat_rows(home: Home, folder: Path, controlled: LocalService, mode: str) -> None:
    table = "log" if mode == "insert" else "people"
    execute(folder, "DROP TABLE people")
    execute(folder, "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
    sync = home.create(mode=mode, source_id="many", destination_connection_id="shop_db", object_type_id=table)
    url = home.api.post(f"/reverse_etl_syncs/{sync}/request_run")["status_url"]
    select = "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM"
    for part in (0.1, 0.4, 0.7):
        enough = partial(lambda least: execute(folder, f"{select} {table}")[0][0] >= least, part * ROWS)
        wait_for("enough rows", enough, limit=60, interval=0.01)
        controlled.kill()
        controlled.start()
    run = ReverseEtlSyncRun.model_validate(home.api.ended(url))
    assert (run.status, run.synced_rows, run.failed_rows) == ("COMPLETED", ROWS, 0), run.error
    assert execute(folder, f"{select} {table}") == [(ROWS, ROWS, 0, ROWS - 1)]
    # The next run has nothing to do.
    assert home.run(sync)[2:] == (0, 0, 0)


def test_batches_with_refused_records(home: Home, partner: Partner) -> None:
    home.load({1: "Ada", 2: "Bob", 3: "Cyd", 4: "Dan", 5: "Eve"})

    def no_bob(batch: Any) -> tuple[int, Json]:
        errors = [{"record_id": str(one["id"]), "message": "not him"} for one in batch if one["name"] == "Bob"]
        return 200, {"errors": errors}

    partner.rule = no_bob
    sync = home.create(destination_connection_id="endpoint", settings={"batch_size": 2})
    assert home.run(sync) == (5, 5, 5, 4, 1)
    assert home.failures(sync) == {"2": "not him"}
    sent: list[Any] = partner.records
    assert [[one["id"] for one in batch] for batch in sent] == [[1, 2], [3, 4], [5]]
    partner.reset()
    home.load({1: "Ada", 2: "Bo", 3: "Cyd", 4: "Dan", 5: "Eva"})
    assert home.run(sync)[2:] == (2, 2, 0)
    again: list[Any] = partner.records
    assert again == [[{"id": 2, "name": "Bo"}, {"id": 5, "name": "Eva"}]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "update", "settings": {"batch_size": 2}}, "sent one by one"),
        ({"settings": {"batch_size": 2, "address": "record"}}, "sent one by one"),
        ({"settings": {"batch_size": 0}}, "settings.batch_size: "),
        ({"settings": {"batch_size": 1_001}}, "settings.batch_size: "),
        ({"settings": {"batch_size": "2"}}, "wrong type"),
    ],
)
def test_invalid_batch_sizes_are_refused(home: Home, changes: Json, said: str) -> None:
    home.load({1: "Ada"})
    content = body(destination_connection_id="endpoint", **changes)
    assert said in home.api.refused("POST", "/reverse_etl_syncs", 400, json=content)["message"]
