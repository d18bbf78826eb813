"""Tests of tables, batches and HTTP collections as destinations, also with kills of the service."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_provider_datapipe.api.models.reverse_etl_syncs import ReverseEtlSyncRun
from tests.contract.datapipe_local.api import served
from tests.contract.datapipe_local.collection import Collection
from tests.contract.datapipe_local.partner import Partner, accept
from tests.contract.datapipe_local.reverse_etl_home import Home, body, seed
from tests.contract.datapipe_local.seeds import connection, transform
from tests.support.local_service import LocalService
from tests.support.processes import wait_for

pytestmark = pytest.mark.slow

Json = dict[str, Any]
ROWS = 10_000
NUMBER = 4_000


@pytest.fixture(scope="module")
def careful() -> Iterator[Partner]:
    with Partner(honours_keys=True) as partner:
        yield partner


@pytest.fixture(scope="module")
def controlled(folder: Path, partner: Partner, endpoint: Collection, careful: Partner) -> Iterator[LocalService]:
    content = seed(folder, partner.url)
    content["connections"] += [
        connection("collection", "http", url=endpoint.url),
        connection("careful", "http", url=careful.url),
        connection("shop_db", "sql_tables", url=f"sqlite:///{folder}/shop.db"),
    ]
    sql = f"SELECT range AS id, 'name ' || range AS name FROM range({ROWS})"  # noqa: S608 - a constant
    content["transforms"].append(transform("many", sql, publish=True))
    with served(content, control=True) as (service, _):
        yield service


@pytest.fixture
def home(controlled: LocalService, folder: Path, partner: Partner, endpoint: Collection, careful: Partner) -> Home:
    controlled.reset()
    for server in (partner, endpoint, careful):
        server.reset()
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
    # Only changed records are sent. A refused record is sent again after it changes.
    assert home.run(sync)[2:] == (0, 0, 0)
    assert home.run(sync, {2: "Eve", 3: "Cyd"})[2:] == (2, 2, 0)
    assert execute(folder, "SELECT * FROM people") == [(2, "Eve"), (3, "Cyd")]
    assert home.failures(sync) == {}


def test_mirror_keeps_rows_if_the_type_of_the_key_changes(home: Home, folder: Path) -> None:
    home.load({1: "Ada", 3: "Cyd"})
    sync = home.create(mode="mirror", destination_connection_id="shop_db")
    home.run(sync)
    home.write("id,name\n1.0,Ada L.\n3.0,Cyd\n2.5,Dan\n")
    # The database refuses 2.5 in its column of integers.
    assert home.run(sync) == (3, 3, 2, 1, 1)
    assert execute(folder, "SELECT * FROM people") == [(1, "Ada L."), (3, "Cyd")]
    home.write("id,name\n1,Ada L.\nx,Cyd\n")
    assert home.run(sync) == (2, 2, 3, 2, 1)
    assert execute(folder, "SELECT * FROM people") == [(1, "Ada L.")]


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
    assert "has no table nobody: create it there" in home.failure(sync)


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
    assert home.run(sync, {1: "Ada", 2: "Bo", 3: "Cyd", 4: "Dan", 5: "Eva"})[2:] == (2, 2, 0)
    again: list[Any] = partner.records
    assert again == [[{"id": 2, "name": "Bo"}, {"id": 5, "name": "Eva"}]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "update", "settings": {"batch_size": 2}}, "sent one by one"),
        ({"settings": {"batch_size": 2, "address": "record"}}, "sent one by one"),
        ({"settings": {"batch_size": 0}}, "settings.batch_size: "),
        ({"settings": {"batch_size": 1_001}}, "settings.batch_size: "),
        ({"settings": {"batch_size": "2"}}, "wrong type"),
    ],
)
def test_invalid_batch_sizes_are_refused(home: Home, changes: Json, message: str) -> None:
    home.load({1: "Ada"})
    content = body(destination_connection_id="endpoint", **changes)
    assert message in home.api.refused("POST", "/reverse_etl_syncs", 400, json=content)["message"]


def numbers(run: Json) -> tuple[Any, ...]:
    assert run["status"] == "COMPLETED", run
    return tuple(run[f"{name}_rows"] for name in ("total", "distinct", "new", "synced", "failed"))


def test_killed_mirror_writes_and_counts_each_record_once(home: Home, controlled: LocalService) -> None:
    sync_id = home.create(mode="mirror")
    assert home.run(sync_id, {n: f"P{n}" for n in range(NUMBER)}) == (NUMBER, NUMBER, NUMBER, NUMBER, 0)
    # Half of the records are deleted, as many are new, and a few change.
    half = NUMBER // 2
    home.load({n: "changed" if n % 100 == 0 else f"P{n}" for n in range(half, NUMBER + half)})
    url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
    for moment in range(6):
        time.sleep(0.01 * moment)
        controlled.kill()
        controlled.start()
    due = NUMBER + half // 100
    assert numbers(home.api.ended(url)) == (NUMBER, NUMBER, due, due, 0)
    lines = home.lines("people.jsonl")
    assert {line["id"]: line["name"] for line in lines} == {
        n: "changed" if n % 100 == 0 else f"P{n}" for n in range(half, NUMBER + half)
    }
    assert len(lines) == NUMBER
    assert list(home.file("").glob(".*")) == []
    assert home.run(sync_id) == (NUMBER, NUMBER, 0, 0, 0)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_kill_repeats_at_most_one_request(
    home: Home, controlled: LocalService, endpoint: Collection, method: str
) -> None:
    sync_id = home.create(mode="mirror", destination_connection_id="collection", object_type_id=method.lower())
    assert home.run(sync_id, {n: f"P{n}" for n in range(20)}) == (20, 20, 20, 20, 0)
    endpoint.calls.clear()
    home.load({n: f"P{n}" for n in range(10, 30)})
    with endpoint.held(lambda: [called for called, _ in endpoint.calls].count(method) == 5) as enough:
        url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
        assert enough.wait(10)
        controlled.kill()
    controlled.start()
    assert numbers(home.api.ended(url)) == (20, 20, 20, 20, 0)
    assert sorted(map(int, endpoint.objects)) == list(range(10, 30))
    assert 20 <= len(endpoint.calls) <= 21


@pytest.mark.parametrize(("settings", "under_way"), [({}, [2]), ({"batch_size": 3}, [6, 7, 8])])
def test_idempotency_keys_prevent_repeated_writes(
    home: Home, controlled: LocalService, careful: Partner, settings: Json, under_way: list[int]
) -> None:
    sync_id = home.create(destination_connection_id="careful", object_type_id="people", settings=settings)
    home.load({n: f"P{n}" for n in range(12)})
    enough, go_on = threading.Event(), threading.Event()

    def third(_: Json) -> tuple[int, Json]:
        if len(careful.received) == 3:
            enough.set()
            go_on.wait(10)
        return 200, {}

    careful.rule = third
    url = home.api.post(f"/reverse_etl_syncs/{sync_id}/request_run")["status_url"]
    assert enough.wait(10)
    controlled.kill()
    # The changed source would be divided into other batches.
    with duckdb.connect(str(controlled.warehouse)) as warehouse:
        warehouse.execute("UPDATE shop.people SET name = 'new' WHERE id IN (2, 8)")
        warehouse.execute("DELETE FROM shop.people WHERE id = 7")
        warehouse.execute("INSERT INTO shop.people (id, name) VALUES (-1, 'first')")
    go_on.set()
    controlled.start()
    assert home.api.ended(url)["status"] == "COMPLETED"
    careful.rule = accept
    sent: list[Any] = careful.records
    batches = [content if isinstance(content, list) else [content] for content in sent]
    assert batches[2] == [{"id": n, "name": f"P{n}"} for n in under_way]
    assert careful.repeated == 1
    assert careful.keys[2] == careful.keys[3]
    records = [(one["id"], one["name"]) for batch in batches for one in batch]
    assert len(records) == len(set(records))
    # The request of the kill is repeated, also for records that the source has lost.
    expected = {-1: "first", **{n: f"P{n}" for n in range(12)}, 2: "new", 8: "new"}
    if 7 not in under_way:
        del expected[7]
    if 2 not in under_way:
        assert (2, "P2") in records
    assert dict(records) == expected
    assert home.run(sync_id)[2:] == (0, 0, 0)


def test_retry_reuses_idempotency_key_only_for_unchanged_record(home: Home, careful: Partner) -> None:
    sync_id = home.create(destination_connection_id="careful", object_type_id="again")
    assert home.run(sync_id, {1: "Ada"})[2:] == (1, 1, 0)

    def fail(name: str) -> str:
        """Fail a run after the endpoint executed its request, and return the idempotency key."""
        home.load({1: name})
        careful.breaks = True
        home.failure(sync_id)
        careful.breaks = False
        assert len(set(careful.keys[-5:])) == 1
        return str(careful.keys[-1])

    key = fail("Bob")
    assert home.run(sync_id)[2:] == (1, 1, 0)
    assert careful.keys[-1] == key
    assert [one["name"] for one in careful.records] == ["Ada", "Bob"]
    # A changed record has a new key, also if it has the value of the last success.
    key = fail("Cyd")
    assert home.run(sync_id, {1: "Bob"})[2:] == (1, 1, 0)
    assert careful.keys[-1] != key
    assert [one["name"] for one in careful.records] == ["Ada", "Bob", "Cyd", "Bob"]
    # So has the same record with another operation.
    key = fail("Dan")
    home.update(sync_id, mode="mirror", object_type_id="again")
    assert home.run(sync_id)[2:] == (1, 1, 0)
    assert careful.keys[-1] != key
    assert home.run(sync_id)[2:] == (0, 0, 0)


@pytest.mark.parametrize("is_executed", [True, False])
@pytest.mark.parametrize(("settings", "unknown"), [({}, [1]), ({"batch_size": 2}, [1, 2])])
def test_failed_insert_is_repeated_unchanged(
    home: Home, careful: Partner, settings: Json, unknown: list[int], is_executed: bool
) -> None:
    target = {"destination_connection_id": "careful", "object_type_id": "events", "settings": settings}
    sync_id = home.create(mode="insert", **target)
    home.load({1: "Ada", 2: "Bob"})
    careful.breaks, careful.loses = is_executed, not is_executed
    home.failure(sync_id)
    careful.breaks = careful.loses = False
    key = careful.keys[-1]
    home.load({1: "changed", 3: "Cyd"})
    assert home.api.run_reverse(sync_id).status == "COMPLETED"
    # The endpoint gets the stored request first, also for records that the source has lost.
    assert careful.keys[:6] == [key] * 6
    sent = [one for content in careful.records for one in (content if settings else [content])]
    names = {1: "Ada", 2: "Bob"}
    assert sent == [*({"id": n, "name": names[n]} for n in unknown), {"id": 3, "name": "Cyd"}]
    assert home.run(sync_id)[2:] == (0, 0, 0)


def test_record_that_returns_after_a_failed_delete_is_sent_again(home: Home, endpoint: Collection) -> None:
    sync_id = home.create(mode="mirror", destination_connection_id="collection", object_type_id="back")
    assert home.run(sync_id, {1: "Ada", 2: "Bob"})[2:] == (2, 2, 0)
    home.load({1: "Ada"})
    # It deletes the object, and responds with an error.
    del endpoint.objects["2"]
    endpoint.refuses = lambda method, key: 500
    home.failure(sync_id)
    endpoint.refuses = lambda method, key: 0
    assert home.run(sync_id, {1: "Ada", 2: "Bob"})[2:] == (1, 1, 0)
    assert sorted(endpoint.objects) == ["1", "2"]
