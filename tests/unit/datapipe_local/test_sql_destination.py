"""SQL tables as destinations, of both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_datapipe.api.models.reverse_etl import OperationName
from datapipe_local import destinations
from datapipe_local.destinations.base import ABSENT, Destination, Progress, Record, Target
from datapipe_local.destinations.sql_receipts import TABLE
from datapipe_local.errors import RunError
from datapipe_local.store.records import Connection
from tests.support.postgresql import PostgreSQL, need_postgresql

INSERT, UPDATE, UPSERT, MIRROR = OperationName.INSERT, OperationName.UPDATE, OperationName.UPSERT, OperationName.MIRROR
PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(5) NOT NULL, age INTEGER CHECK (age >= 0))"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    need_postgresql()
    with PostgreSQL() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shop.db'}"
        return
    url = request.getfixturevalue("server").url
    yield url
    execute(url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


def execute(url: str, *statements: str) -> list[Any]:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        results = [connection.execute(sa.text(statement)) for statement in statements]
        found = [tuple(row) for row in results[-1].fetchall()] if results[-1].returns_rows else []
    engine.dispose()
    return found


def connection(url: str) -> Connection:
    return Connection(id="db", integration_id="sql_tables", label="", settings={"url": url}, created_at="")


def connect(
    url: str, mode: OperationName = UPSERT, table: str = "people", checkpoint: str | None = None
) -> Destination:
    return destinations.connect(
        connection(url), Target("sync", table, mode), progress=Progress(checkpoint), pause=lambda _: None
    )


@pytest.fixture
def opened() -> Iterator[Callable[..., Destination]]:
    """Opens a destination, and closes it."""
    made: list[Destination] = []

    def make(*arguments: Any, **options: Any) -> Destination:
        made.append(connect(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def person(number: int, name: str | None, **others: Any) -> Record:
    return Record(str(number), {"id": number, "name": name, **others}, {"id": number})


def people(url: str) -> list[Any]:
    return execute(url, "SELECT id, name, age FROM people ORDER BY id")


def test_upsert_adds_and_changes_and_leaves_what_is_not_sent(url: str, opened: Callable[..., Destination]) -> None:
    execute(url, PEOPLE, "INSERT INTO people VALUES (1, 'Ada', 36)")
    table = opened(url)
    assert table.send([person(1, "Eve"), person(2, "Bob")]) == [None, None]
    assert people(url) == [(1, "Eve", 36), (2, "Bob", None)]
    # Again, as after a kill: nothing changes.
    assert table.send([person(1, "Eve"), person(2, "Bob")]) == [None, None]
    assert people(url) == [(1, "Eve", 36), (2, "Bob", None)]
    assert table.checkpoint() is None


@pytest.mark.parametrize("mode", [INSERT, UPSERT, MIRROR])
def test_each_refused_record_has_the_reason_of_the_database(
    url: str, opened: Callable[..., Destination], mode: OperationName
) -> None:
    execute(url, PEOPLE)
    outcomes = opened(url, mode).send(
        [person(1, "Ada"), person(2, None), person(3, "Cyd", age=-1), person(4, "Dan"), person(2**70, "Big")]
    )
    assert [outcome is None for outcome in outcomes] == [True, False, False, True, False]
    assert all(isinstance(outcome, str) for outcome in outcomes[1:3])
    assert "null" in str(outcomes[1]).lower()
    assert "check" in str(outcomes[2]).lower()
    assert people(url) == [(1, "Ada", None), (4, "Dan", None)]


def test_insert_tells_of_a_key_that_is_there(url: str, opened: Callable[..., Destination]) -> None:
    execute(url, PEOPLE, "INSERT INTO people VALUES (1, 'Ada', 36)")
    first, second = opened(url, INSERT).send([person(1, "Eve"), person(2, "Bob")])
    assert "unique" in str(first).lower()
    assert second is None
    assert people(url) == [(1, "Ada", 36), (2, "Bob", None)]


def test_update_changes_what_is_there(url: str, opened: Callable[..., Destination]) -> None:
    execute(url, PEOPLE, "INSERT INTO people VALUES (1, 'Ada', 36)")
    table = opened(url, UPDATE)
    refused = person(1, "Ada", age=-1)
    assert table.send([person(1, "Eve"), person(2, "Bob")]) == [None, ABSENT]
    assert "check" in str(table.send([refused])[0]).lower()
    assert people(url) == [(1, "Eve", 36)]
    # Of its key alone: it is there, or is not.
    assert table.send([Record("1", {"id": 1}, {"id": 1}), Record("9", {"id": 9}, {"id": 9})]) == [None, ABSENT]


def test_a_mirror_deletes_by_key(url: str, opened: Callable[..., Destination]) -> None:
    execute(
        url,
        PEOPLE,
        "CREATE TABLE orders (person INTEGER REFERENCES people (id))",
        "INSERT INTO people VALUES (1, 'Ada', 36), (2, 'Bob', 7)",
        "INSERT INTO orders VALUES (2)",
    )
    first, second, third = opened(url, MIRROR).delete([person(1, ""), person(2, ""), person(3, "")])
    assert (first, third) == (None, None)
    assert "foreign key" in str(second).lower()
    assert people(url) == [(2, "Bob", 7)]


def test_a_key_of_several_columns_and_odd_names(url: str, opened: Callable[..., Destination]) -> None:
    execute(url, 'CREATE TABLE odd ("a b" INTEGER, "c\\:d" TEXT, "e""f%" TEXT, UNIQUE ("a b", "c\\:d"))')
    table = opened(url, UPSERT, "odd")

    def record(value: str) -> Record:
        return Record("x", {"a b": 1, "c:d": "y", 'e"f%': value}, {"a b": 1, "c:d": "y"})

    assert table.send([record("old")]) == table.send([record("new; DROP TABLE odd; --")]) == [None]
    assert execute(url, "SELECT * FROM odd") == [(1, "y", "new; DROP TABLE odd; --")]


def test_values_become_what_the_columns_are(url: str, opened: Callable[..., Destination]) -> None:
    json_type = "JSON" if url.startswith("sqlite") else "JSONB"
    execute(
        url,
        "CREATE TABLE kinds (id TEXT PRIMARY KEY, day DATE, at TIMESTAMP, x NUMERIC(10, 2), exact NUMERIC(30, 2),"
        f" big BIGINT, ok BOOLEAN, more {json_type})",
    )
    values = {
        "id": "ü",
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:05",
        "x": 1.5,
        "exact": "12345678901234567.89",
        "big": 2**40,
        "ok": True,
        "more": {"a": [1, None]},
    }
    assert opened(url, UPSERT, "kinds").send([Record("ü", values, {"id": "ü"})]) == [None]
    (row,) = execute(url, "SELECT id, CAST(day AS TEXT), CAST(x AS REAL), big, CAST(more AS TEXT) FROM kinds")
    assert row == ("ü", "2026-01-02", 1.5, 2**40, '{"a": [1, null]}')
    if not url.startswith("sqlite"):
        # SQLite has no such numbers.
        assert execute(url, "SELECT CAST(exact AS TEXT) FROM kinds") == [("12345678901234567.89",)]


def test_lists_become_arrays_where_the_column_is_one(server: PostgreSQL, opened: Callable[..., Destination]) -> None:
    execute(server.url, "CREATE TABLE lists (id INTEGER PRIMARY KEY, numbers INTEGER[], texts TEXT[], json JSONB)")
    values = {"id": 1, "numbers": [1, None, 3], "texts": ["a,b", 'c"'], "json": [1, {"a": None}]}
    records = [Record("1", values, {"id": 1}), Record("2", {**values, "id": 2, "numbers": ["x"]}, {"id": 2})]
    try:
        outcomes = opened(server.url, UPSERT, "lists").send(records)
        assert outcomes[0] is None
        assert "integer" in str(outcomes[1])
        found = execute(server.url, "SELECT id, numbers, texts, json::text FROM lists")
        assert found == [(1, [1, None, 3], ["a,b", 'c"'], '[1, {"a": null}]')]
    finally:
        execute(server.url, "DROP TABLE lists")


def test_a_deferred_constraint_refuses_a_record_and_not_the_run(
    server: PostgreSQL, opened: Callable[..., Destination]
) -> None:
    execute(
        server.url,
        "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
        "INSERT INTO parents VALUES (1)",
        "CREATE TABLE children (id INTEGER PRIMARY KEY,"
        " parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)",
    )
    records = [Record(str(n), {"id": n, "parent": parent}, {"id": n}) for n, parent in enumerate((1, 2, 1))]
    try:
        outcomes = opened(server.url, UPSERT, "children").send(records)
        assert [outcome is None for outcome in outcomes] == [True, False, True]
        assert "violates foreign key constraint" in str(outcomes[1])
        assert execute(server.url, "SELECT id FROM children ORDER BY id") == [(0,), (2,)]
    finally:
        execute(server.url, "DROP TABLE children, parents")


def test_what_cannot_be_written_at_all(url: str) -> None:
    with pytest.raises(RunError, match="has no table people: create it there"):
        connect(url)
    execute(url, "CREATE TABLE people (id INTEGER, name TEXT)")
    for record, said in (
        (person(1, "Ada"), "no primary key, and no unique index, of id"),
        (Record("1", {"id": 1, "nmae": "Ada"}, {"id": 1}), "has no column 'nmae': it has id, name"),
    ):
        table = connect(url)
        with pytest.raises(RunError, match=said) as raised:
            table.send([record])
        table.close()
        assert "s3cret" not in str(raised.value)
    assert execute(url, "SELECT * FROM people") == []


def test_a_database_that_is_away(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/no/such/folder.db", "postgresql://u:s3cret@127.0.0.1:1/x"):
        with pytest.raises(RunError, match="cannot be reached") as raised:
            connect(url)
        assert "s3cret" not in str(raised.value)
        assert destinations.offer(connection(url)).object_type_ids() == []
        assert destinations.offer(connection(url)).properties("people") == []


@pytest.mark.parametrize("killed_after", ["commit", "note"])
def test_no_row_is_inserted_twice_after_a_kill(url: str, opened: Callable[..., Destination], killed_after: str) -> None:
    """The service stores the checkpoint. The kill occurs between the commit and that, or later."""
    execute(url, "CREATE TABLE log (name TEXT)")
    records = [Record(name, {"name": name}) for name in "abcd"]
    first = opened(url, INSERT, "log")
    begin = first.checkpoint()
    assert first.send(records[:2]) == [None, None]
    after_two = first.checkpoint()
    assert first.send(records[2:3]) == [None]
    noted = after_two if killed_after == "commit" else first.checkpoint()
    first.close()
    # What was noted is not sent again; the rest is.
    second = opened(url, INSERT, "log", checkpoint=noted)
    left = records[2:] if killed_after == "commit" else records[3:]
    assert second.send(left) == [None] * len(left)
    assert execute(url, "SELECT name FROM log ORDER BY name") == [("a",), ("b",), ("c",), ("d",)]
    # A run of its own begins with nothing: the same record may be sent for a good reason.
    assert begin != second.checkpoint()
    assert opened(url, INSERT, "log").send(records[3:]) == [None]
    assert len(execute(url, "SELECT name FROM log")) == 5


def test_rows_committed_at_a_disconnect_are_not_inserted_again(url: str, opened: Callable[..., Destination]) -> None:
    """Nobody was told of the COMMIT: the run failed, and what it noted last is of before."""
    execute(url, "CREATE TABLE log (name TEXT)")
    records = [Record(name, {"name": name}) for name in "abc"]
    failed = opened(url, INSERT, "log")
    failed.send(records[:1])
    noted = failed.checkpoint()
    failed.send(records[1:2])
    failed.close()
    following = destinations.connect(
        connection(url), Target("sync", "log", INSERT), progress=Progress(before=noted), pause=lambda _: None
    )
    assert following.send(records[1:]) == [None, None]
    noted = following.checkpoint()
    following.close()
    assert sorted(execute(url, "SELECT name FROM log")) == [("a",), ("b",), ("c",)]
    # Once that is noted, the same may be sent for a good reason; also where somebody has removed the receipts.
    for is_emptied in (False, True):
        if is_emptied:
            execute(url, f"DELETE FROM {TABLE}")  # noqa: S608 - our own name
        again = destinations.connect(
            connection(url), Target("sync", "log", INSERT), progress=Progress(before=noted), pause=lambda _: None
        )
        assert again.send(records[:1]) == [None]
        noted = again.checkpoint()
        again.close()
    assert len(execute(url, "SELECT name FROM log")) == 5


def test_a_record_that_moves_after_a_kill_is_not_inserted_twice(url: str, opened: Callable[..., Destination]) -> None:
    execute(url, "CREATE TABLE log (name TEXT)")
    a, b, c, d = (Record(name, {"name": name}) for name in "abcd")
    first = opened(url, INSERT, "log")
    noted = first.checkpoint()
    first.send([a, b])
    first.close()
    # The source gives its rows in another order now.
    second = opened(url, INSERT, "log", checkpoint=noted)
    assert second.send([c, b]) == [None, None]
    noted = second.checkpoint()
    second.close()
    third = opened(url, INSERT, "log", checkpoint=noted)
    assert third.send([d, a]) == [None, None]
    assert sorted(execute(url, "SELECT name FROM log")) == [("a",), ("b",), ("c",), ("d",)]


def test_a_record_that_was_refused_may_be_inserted_after_a_kill(url: str, opened: Callable[..., Destination]) -> None:
    execute(url, PEOPLE, "INSERT INTO people VALUES (1, 'Ada', 36)")
    first = opened(url, INSERT)
    noted = first.checkpoint()
    assert first.send([person(1, "Eve")])[0] is not None
    first.close()
    execute(url, "DELETE FROM people")
    assert opened(url, INSERT, checkpoint=noted).send([person(1, "Eve")]) == [None]


def test_what_a_database_offers(url: str) -> None:
    execute(url, PEOPLE, "CREATE TABLE other (x REAL)")
    offer = destinations.offer(connection(url))
    connect(url, INSERT).close()
    assert offer.object_type_ids() == ["other", "people"]
    found = {one.id: (one.type, one.required, one.primary_key) for one in offer.properties("people")}
    assert found["name"] == ("string", True, False)
    assert found["age"] == ("integer", False, False)
    assert found["id"][::2] == ("integer", True)
    assert execute(url, f"SELECT sync_id FROM {TABLE}") == []  # noqa: S608 - our own name


def test_a_table_of_another_schema(server: PostgreSQL, opened: Callable[..., Destination]) -> None:
    execute(server.url, "CREATE SCHEMA crm", "CREATE TABLE crm.people (id INTEGER PRIMARY KEY, name TEXT)")
    assert opened(server.url, UPSERT, "crm.people").send([person(1, "Ada")]) == [None]
    assert execute(server.url, "SELECT * FROM crm.people") == [(1, "Ada")]
    assert execute(server.url, "DROP SCHEMA crm CASCADE") == []
