"""Tests of SQL tables as destinations, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import RunError
from datapipe_local.connectors import destinations
from datapipe_local.connectors.destinations.base import ABSENT, Destination, Outcome, Progress, Record, Target
from datapipe_local.connectors.destinations.sql_delivery_log import TABLE
from datapipe_local.storage.records import Connection
from tests.support.postgresql import PostgreSQL

INSERT, UPDATE, UPSERT, MIRROR = OperationName.INSERT, OperationName.UPDATE, OperationName.UPSERT, OperationName.MIRROR
PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(5) NOT NULL, age INTEGER CHECK (age >= 0))"
ADA = "INSERT INTO people VALUES (1, 'Ada', 36)"
LOG = "CREATE TABLE log (name TEXT)"
A, B, C, D = (Record(name, {"name": name}) for name in "abcd")


def person(number: int, name: str | None, **others: Any) -> Record:
    return Record(str(number), {"id": number, "name": name, **others}, {"id": number})


class Database(ExitStack):
    """A database, and the destinations that are opened in it. They are closed at the end."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    @property
    def connection(self) -> Connection:
        return Connection(id="db", integration_id="sql_tables", label="", settings={"url": self.url}, created_at="")

    def open(self, mode: OperationName = UPSERT, table: str = "people", **progress: Any) -> Destination:
        target = Target("sync", table, mode)
        opened = destinations.connect(self.connection, target, progress=Progress(**progress), pause=lambda _: None)
        self.callback(opened.close)
        return opened

    def run(self, *records: Record, **progress: Any) -> tuple[list[Outcome], str | None]:
        """Insert into the log as one process, and return its outcomes and its checkpoint."""
        destination = self.open(INSERT, "log", **progress)
        outcomes = destination.send(records)
        checkpoint = destination.checkpoint()
        destination.close()
        return outcomes, checkpoint

    def execute(self, *statements: str) -> list[Any]:
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            results = [connection.execute(sa.text(statement)) for statement in statements]
            found = [tuple(row) for row in results[-1].fetchall()] if results[-1].returns_rows else []
        engine.dispose()
        return found

    def people(self) -> list[Any]:
        return self.execute("SELECT id, name, age FROM people ORDER BY id")

    def log(self) -> str:
        return "".join(name for (name,) in self.execute("SELECT name FROM log ORDER BY name"))


@pytest.fixture
def postgresql(postgresql_server: PostgreSQL) -> Iterator[Database]:
    with Database(postgresql_server.url) as database:
        yield database
    database.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path / 'shop.db'}") as database:
        yield database


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_upsert_adds_and_changes_sent_columns(database: Database) -> None:
    database.execute(PEOPLE, ADA)
    table = database.open()
    # The second time, as after a kill, nothing changes.
    for _ in range(2):
        assert table.send([person(1, "Eve"), person(2, "Bob")]) == [None, None]
        assert database.people() == [(1, "Eve", 36), (2, "Bob", None)]
    assert table.checkpoint() is None


@pytest.mark.parametrize("mode", [INSERT, UPSERT, MIRROR])
def test_each_refused_record_has_the_reason_of_the_database(database: Database, mode: OperationName) -> None:
    database.execute(PEOPLE)
    people = [person(1, "Ada"), person(2, None), person(3, "Cyd", age=-1), person(4, "Dan"), person(2**70, "Big")]
    outcomes = database.open(mode).send(people)
    assert [outcome is None for outcome in outcomes] == [True, False, False, True, False]
    assert "null" in str(outcomes[1]).lower()
    assert "check" in str(outcomes[2]).lower()
    assert database.people() == [(1, "Ada", None), (4, "Dan", None)]


def test_insert_refuses_a_key_that_exists(database: Database) -> None:
    database.execute(PEOPLE, ADA)
    first, second = database.open(INSERT).send([person(1, "Eve"), person(2, "Bob")])
    assert "unique" in str(first).lower()
    assert second is None
    assert database.people() == [(1, "Ada", 36), (2, "Bob", None)]


def test_update_changes_existing_rows_only(database: Database) -> None:
    database.execute(PEOPLE, ADA)
    table = database.open(UPDATE)
    assert table.send([person(1, "Eve"), person(2, "Bob")]) == [None, ABSENT]
    assert "check" in str(table.send([person(1, "Ada", age=-1)])[0]).lower()
    assert database.people() == [(1, "Eve", 36)]
    # Records of their key alone.
    assert table.send([Record("1", {"id": 1}, {"id": 1}), Record("9", {"id": 9}, {"id": 9})]) == [None, ABSENT]


def test_a_mirror_deletes_by_key(database: Database) -> None:
    orders = "CREATE TABLE orders (person INTEGER REFERENCES people (id))"
    database.execute(PEOPLE, ADA, "INSERT INTO people VALUES (2, 'Bob', 7)", orders, "INSERT INTO orders VALUES (2)")
    first, second, third = database.open(MIRROR).delete([person(1, ""), person(2, ""), person(3, "")])
    assert (first, third) == (None, None)
    assert "foreign key" in str(second).lower()
    assert database.people() == [(2, "Bob", 7)]


def test_a_key_of_several_columns_and_odd_names(database: Database) -> None:
    database.execute('CREATE TABLE odd ("a b" INTEGER, "c\\:d" TEXT, "e""f%" TEXT, UNIQUE ("a b", "c\\:d"))')
    table = database.open(UPSERT, "odd")
    for value in ("old", "new; DROP TABLE odd; --"):
        key = {"a b": 1, "c:d": "y"}
        assert table.send([Record("x", {**key, 'e"f%': value}, key)]) == [None]
    assert database.execute("SELECT * FROM odd") == [(1, "y", "new; DROP TABLE odd; --")]


def test_values_get_the_types_of_the_columns(database: Database) -> None:
    is_sqlite = database.url.startswith("sqlite")
    database.execute(
        "CREATE TABLE kinds (id TEXT PRIMARY KEY, day DATE, at TIMESTAMP, x NUMERIC(10, 2), exact NUMERIC(30, 2),"
        f" big BIGINT, ok BOOLEAN, more {'JSON' if is_sqlite else 'JSONB'})",
    )
    values = {"id": "ü", "day": "2026-01-02", "at": "2026-01-02T03:04:05", "x": 1.5, "exact": "12345678901234567.89"}
    values |= {"big": 2**40, "ok": True, "more": {"a": [1, None]}}
    assert database.open(UPSERT, "kinds").send([Record("ü", values, {"id": "ü"})]) == [None]
    (row,) = database.execute("SELECT id, CAST(day AS TEXT), CAST(x AS REAL), big, CAST(more AS TEXT) FROM kinds")
    assert row == ("ü", "2026-01-02", 1.5, 2**40, '{"a": [1, null]}')
    if not is_sqlite:
        # SQLite has no such numbers.
        assert database.execute("SELECT CAST(exact AS TEXT) FROM kinds") == [("12345678901234567.89",)]


def test_lists_become_arrays_in_columns_of_arrays(postgresql: Database) -> None:
    postgresql.execute("CREATE TABLE lists (id INTEGER PRIMARY KEY, numbers INTEGER[], texts TEXT[], json JSONB)")
    values = {"id": 1, "numbers": [1, None, 3], "texts": ["a,b", 'c"'], "json": [1, {"a": None}]}
    records = [Record("1", values, {"id": 1}), Record("2", {**values, "id": 2, "numbers": ["x"]}, {"id": 2})]
    outcomes = postgresql.open(UPSERT, "lists").send(records)
    assert outcomes[0] is None
    assert "integer" in str(outcomes[1])
    found = postgresql.execute("SELECT id, numbers, texts, json::text FROM lists")
    assert found == [(1, [1, None, 3], ["a,b", 'c"'], '[1, {"a": null}]')]


def test_a_deferred_constraint_refuses_one_record(postgresql: Database) -> None:
    postgresql.execute(
        "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
        "INSERT INTO parents VALUES (1)",
        "CREATE TABLE children (id INTEGER PRIMARY KEY,"
        " parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)",
    )
    records = [Record(str(n), {"id": n, "parent": parent}, {"id": n}) for n, parent in enumerate((1, 2, 1))]
    outcomes = postgresql.open(UPSERT, "children").send(records)
    assert [outcome is None for outcome in outcomes] == [True, False, True]
    assert "violates foreign key constraint" in str(outcomes[1])
    assert postgresql.execute("SELECT id FROM children ORDER BY id") == [(0,), (2,)]


def test_a_table_of_another_schema(postgresql: Database) -> None:
    postgresql.execute("CREATE SCHEMA crm", "CREATE TABLE crm.people (id INTEGER PRIMARY KEY, name TEXT)")
    table = postgresql.open(UPSERT, "crm.people")
    assert table.send([person(1, "Ada")]) == [None]
    assert postgresql.execute("SELECT * FROM crm.people") == [(1, "Ada")]
    table.close()
    postgresql.execute("DROP SCHEMA crm CASCADE")


def test_unsuitable_tables_fail_the_run(database: Database) -> None:
    with pytest.raises(RunError, match="has no table people: create it there"):
        database.open()
    database.execute("CREATE TABLE people (id INTEGER, name TEXT)")
    for record, message in (
        (person(1, "Ada"), "no primary key, and no unique index, of id"),
        (Record("1", {"id": 1, "nmae": "Ada"}, {"id": 1}), "has no column 'nmae': it has id, name"),
    ):
        with pytest.raises(RunError, match=message) as raised:
            database.open().send([record])
        assert "s3cret" not in str(raised.value)
    assert database.execute("SELECT * FROM people") == []


def test_an_unreachable_database_fails_the_run(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/no/such/folder.db", "postgresql://u:s3cret@127.0.0.1:1/x"):
        away = Database(url)
        with pytest.raises(RunError, match="cannot be reached") as raised:
            away.open()
        assert "s3cret" not in str(raised.value)
        offer = destinations.catalog_of(away.connection)
        assert (offer.object_type_ids(), offer.properties("people")) == ([], [])


@pytest.mark.parametrize("is_stored", [False, True], ids=["before its checkpoint", "after its checkpoint"])
def test_a_batch_committed_before_a_kill_is_not_repeated(database: Database, is_stored: bool) -> None:
    database.execute(LOG)
    killed = database.open(INSERT, "log")
    begin = killed.checkpoint()
    assert killed.send([A, B]) == [None, None]
    after_two = killed.checkpoint()
    assert killed.send([C]) == [None]
    noted = killed.checkpoint() if is_stored else after_two
    killed.close()
    left = [D] if is_stored else [C, D]
    outcomes, checkpoint = database.run(*left, checkpoint=noted)
    assert outcomes == [None] * len(left)
    assert database.log() == "abcd"
    # The next run may insert the same record again.
    assert begin != checkpoint
    assert database.run(D)[0] == [None]
    assert database.log() == "abcdd"


def test_a_batch_committed_by_a_failed_run_is_not_repeated(database: Database) -> None:
    """The connection was lost during COMMIT: the last checkpoint of the failed run is from before it."""
    database.execute(LOG)
    failed = database.open(INSERT, "log")
    failed.send([A])
    noted = failed.checkpoint()
    failed.send([B])
    failed.close()
    outcomes, noted = database.run(B, C, before=noted)
    assert outcomes == [None, None]
    assert database.log() == "abc"
    # Then the same may be inserted again, also if someone removed the receipts.
    for statements in ([], [f"DELETE FROM {TABLE}"]):  # noqa: S608 - fixed names of the test
        database.execute("SELECT 1", *statements)
        outcomes, noted = database.run(A, before=noted)
        assert outcomes == [None]
    assert database.log() == "aaabc"


def test_a_record_in_another_batch_after_a_kill_is_not_repeated(database: Database) -> None:
    database.execute(LOG)
    killed = database.open(INSERT, "log")
    noted = killed.checkpoint()
    killed.send([A, B])
    killed.close()
    # The source returns its rows in another order now.
    for batch in ((C, B), (D, A)):
        outcomes, noted = database.run(*batch, checkpoint=noted)
        assert outcomes == [None, None]
    assert database.log() == "abcd"


def test_a_refused_record_may_be_inserted_after_a_kill(database: Database) -> None:
    database.execute(PEOPLE, ADA)
    killed = database.open(INSERT)
    noted = killed.checkpoint()
    assert killed.send([person(1, "Eve")])[0] is not None
    killed.close()
    database.execute("DELETE FROM people")
    assert database.open(INSERT, checkpoint=noted).send([person(1, "Eve")]) == [None]


def test_tables_are_offered_with_their_columns(database: Database) -> None:
    database.execute(PEOPLE, "CREATE TABLE other (x REAL)")
    offer = destinations.catalog_of(database.connection)
    database.open(INSERT).close()
    assert offer.object_type_ids() == ["other", "people"]
    found = {one.id: (one.type, one.required, one.primary_key) for one in offer.properties("people")}
    assert found["name"] == ("string", True, False)
    assert found["age"] == ("integer", False, False)
    assert found["id"][::2] == ("integer", True)
    assert database.execute(f"SELECT sync_id FROM {TABLE}") == []  # noqa: S608 - fixed names of the test
