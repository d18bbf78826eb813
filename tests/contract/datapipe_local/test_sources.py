"""Tests of sources: folders of files, generated data, SQL databases."""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from tests.contract.datapipe_local.elt_home import Home, Json
from tests.support.local_service import LocalService
from tests.support.postgresql import PostgreSQL, need_postgresql
from tests.support.processes import wait_for

pytestmark = pytest.mark.slow

KEY = {"incremental_primary_key_name": ["id"]}


@pytest.fixture(scope="module", autouse=True)
def no_secret_in_the_log(empty_service: LocalService) -> Iterator[None]:
    yield
    assert "s3cret" not in empty_service.log


def test_files_of_a_pattern_are_one_stream(home: Home) -> None:
    folder = home.folder / "sales"
    folder.mkdir()
    (folder / "1.csv").write_text("id,at\n1,1\n2,2\n")
    (folder / "2 [x].csv").write_text("id,at,more\n3,2.5,x\n")
    (folder / "3.csv").write_text("")
    (folder / ".hidden.csv").write_text("id,at\n9,9\n")
    (home.folder / "mixed").mkdir()
    for name in ("a.csv", "b.parquet"):
        (home.folder / "mixed" / name).write_text("")
    pointer = {"incremental_pointer_id": "at", **KEY}
    home.seed({"name": "all", "files": "sales/*.csv", **pointer})
    assert list(home.offers()) == ["all"]
    assert home.run("all") == (3, "FULL", "INITIAL_SYNC")
    assert home.rows('SELECT id, "at", more FROM {{raw.shop.all}}') == [(1, 1.0, None), (2, 2.0, None), (3, 2.5, "x")]
    with zipfile.ZipFile(folder / "4.csv.zip", "w") as archive:
        archive.writestr("in/a.csv", "id,at\n4,4\n")
        archive.writestr("in/b.csv", "id,at\n5,5\n")
    (folder / "5.csv").write_text("id,at,late\n6,6,true\n")
    assert home.run("all") == (1, "INCREMENTAL", "NONE")
    assert home.rows("SELECT late FROM {{raw.shop.all}} WHERE id > 3") == [(True,)]


def test_folders_and_archives_of_many_files(home: Home) -> None:
    (home.folder / "Weekly Sales").mkdir()
    (home.folder / "Weekly Sales" / "1.jsonl").write_text('{"id": 1}\n')
    with zipfile.ZipFile(home.folder / "all.zip", "w") as archive:
        archive.writestr("a.csv", "id\n1\n")
        archive.writestr("b.csv", "id\n2\n")
    home.seed({"name": "zipped", "files": "all.zip", "format": "csv"}, {"name": "none", "files": "no/*.csv"})
    found = home.offers()
    assert found["weekly_sales"]["is_selectable"]
    assert found["none"]["retired"]
    (added,) = home.change(name="weekly_sales")
    run = home.api.run_stream(added["id"])
    assert (run.status, run.rows_synced) == ("COMPLETED", 1)
    assert home.run("zipped")[0] == 2
    assert home.failure("none").startswith(f"No file with a row matches {home.folder}/no/*.csv: put one there")


def test_files_outside_the_folder_are_refused(home: Home) -> None:
    for field in ({"files": "../*.csv"}, {"files": "/etc/*.csv"}, {"file": "a.csv", "files": "*.csv"}, {}):
        stream = {"name": "x", "format": "csv", **field}
        with pytest.raises(AssertionError, match=r"'\.\.'|pattern such as"):
            home.connect("files", {"path": str(home.folder)}, [stream])


COLUMNS = [
    {"name": "id", "kind": "id"},
    {"name": "n", "kind": "int"},
    {"name": "x", "kind": "float"},
    {"name": "t", "kind": "text"},
    {"name": "born", "kind": "timestamp"},
    {"name": "color", "kind": "enum", "values": ["red", "it's"]},
]


def test_generated_data(home: Home) -> None:
    tables = [
        {"name": "still", "rows": 1000, "columns": COLUMNS},
        {"name": "moving", "rows": 1000, "columns": COLUMNS, "changes_per_hour": 3600},
    ]
    home.connect("generated", {"seed": 7, "tables": tables}, [{"name": "still", "table": "still"}])
    assert list(home.offers()) == ["moving", "still"]
    (stream,) = home.change(name="moving", incremental_pointer_id="updated_at", enabled_history_table=True)
    assert stream["incremental_primary_key_name"] == ["id"]
    assert home.run("still")[0] == 1000
    first = home.rows("FROM {{raw.shop.still}}")
    assert home.run("still")[0] == 1000
    assert home.rows("FROM {{raw.shop.still}}") == first
    counts = (
        "SELECT count(DISTINCT id), count(DISTINCT n), count(DISTINCT color), min(id), count(born) FROM {{raw.shop.%s}}"
    )
    ((ids, numbers, colors, least, born),) = home.rows(counts % "still")
    assert (ids, colors, least, born) == (1000, 2, 1, 1000)
    assert numbers > 900
    home.api.run_stream(stream["id"])
    versions = "SELECT count(*), count(DISTINCT id), max(updated_at) <= now()::TIMESTAMP FROM {{raw.shop.moving}}"
    assert home.rows(versions) == [(1000, 1000, True)]
    before = home.rows("SELECT max(updated_at) FROM {{raw.shop.moving}}")

    def has_changed() -> bool:
        home.api.run_stream(stream["id"])
        return home.rows("SELECT max(updated_at) FROM {{raw.shop.moving}}") != before

    wait_for("a changed row", has_changed, limit=60)
    assert home.rows("SELECT count(*) FROM {{raw.shop.moving}}") == [(1000,)]
    ((past,),) = home.rows("SELECT count(*) FROM {{raw.shop.moving_history}}")
    assert past > 1000


VALUES: Json = {
    "id": 2**60 + 1,
    "name": "it's \n ☃",
    "empty": "",
    "price": "12.50",
    "born": dt.datetime(2026, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001 - a column without a zone
    "day": dt.date(2026, 1, 2),
    "paid": True,
    "raw": b"\x00\xff",
    "missing": None,
}


def fill(engine: sa.Engine) -> Callable[..., None]:
    """Create a table, and return a function that adds rows to it."""
    table = sa.Table(
        "Shop Orders",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("name", sa.String),
        sa.Column("empty", sa.Text),
        sa.Column("price", sa.Numeric(10, 2)),
        sa.Column("born", sa.DateTime),
        sa.Column("day", sa.Date),
        sa.Column("paid", sa.Boolean),
        sa.Column("raw", sa.LargeBinary),
        sa.Column("missing", sa.Integer),
    )
    table.metadata.create_all(engine)

    def add(**more: Any) -> None:
        with engine.begin() as connection:
            connection.execute(table.insert().values({**VALUES, "price": Decimal("12.50"), **more}))

    add()
    return add


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    need_postgresql()
    with PostgreSQL() as server:
        yield server.url.replace("+psycopg", "")


def check_database(home: Home, url: str, engine: sa.Engine) -> None:
    add = fill(engine)
    home.connect("sql", {"url": url}, [])
    (name,) = home.offers()
    assert name == "shop_orders"
    (stream,) = home.change(name=name, incremental_pointer_id="born", hashed_columns=["name"])
    assert stream["incremental_primary_key_name"] == ["id"]

    def run() -> tuple[int, str]:
        run = home.api.run_stream(stream["id"])
        latest = home.latest(name)
        assert run.status == "COMPLETED", latest["error_message"]
        return int(run.rows_synced or 0), latest["operation_mode"]

    assert run() == (1, "FULL")
    shown = "id::VARCHAR, length(name), empty, price::VARCHAR, born::VARCHAR, day::VARCHAR, paid, hex(raw), missing"
    assert home.rows(f"SELECT {shown} FROM {{{{raw.shop.shop_orders}}}}") == [  # noqa: S608 - fixed names of the test
        (str(2**60 + 1), 64, "", "12.50", "2026-01-02 03:04:05.678901", "2026-01-02", True, "00FF", None)
    ]
    add(id=1)
    add(id=2, born=dt.datetime(2027, 1, 1))  # noqa: DTZ001 - as above
    add(id=3, born=dt.datetime(2020, 1, 1))  # noqa: DTZ001 - as above
    assert run() == (2, "INCREMENTAL")
    assert run() == (0, "INCREMENTAL")
    assert len(home.rows("FROM {{raw.shop.shop_orders}}")) == 3
    with engine.begin() as connection:
        connection.execute(sa.text('DROP TABLE "Shop Orders"'))
    assert home.api.run_stream(stream["id"]).status == "FAILED"
    assert "has no table 'Shop Orders'" in home.latest(name)["error_message"]
    assert len(home.rows("FROM {{raw.shop.shop_orders}}")) == 3


def test_sqlite(home: Home) -> None:
    url = f"sqlite:///{home.folder}/shop.db"
    engine = sa.create_engine(url)
    check_database(home, url, engine)
    with engine.begin() as connection:
        # SQLite stores values of any type.
        connection.execute(sa.text("CREATE TABLE loose (id INTEGER, n INTEGER)"))
        connection.execute(sa.text("INSERT INTO loose VALUES (1, 2), (2, 'two')"))
        connection.execute(sa.text("CREATE TABLE bare (id INTEGER)"))
        # More rows than the service reads at a time.
        numbers = (
            "WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r LIMIT 23456) SELECT n, 'n' || n FROM r"
        )
        connection.execute(sa.text("CREATE TABLE big (id INTEGER PRIMARY KEY, n TEXT)"))
        connection.execute(sa.text(f"INSERT INTO big {numbers}"))
    home.connect("sql", {"url": url}, [{"name": name, "table": name} for name in ("loose", "bare", "big")])
    assert home.run("big")[0] == 23456
    assert home.rows("SELECT count(DISTINCT n), max(id) FROM {{raw.shop.big}}") == [(23456, 23455)]
    assert home.run("loose")[0] == 2
    assert home.rows("SELECT id, CAST(n AS VARCHAR) AS n FROM {{raw.shop.loose}}") == [(1, "2"), (2, "two")]
    assert home.run("bare")[0] == 0
    (home.folder / "shop.db").unlink()
    assert "There is no database" in home.failure("loose")
    assert not (home.folder / "shop.db").exists()


def test_postgresql(home: Home, postgresql: str) -> None:
    engine = sa.create_engine(postgresql.replace("postgresql:", "postgresql+psycopg:"))
    try:
        check_database(home, postgresql, engine)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE SCHEMA apart"))
            connection.execute(
                sa.text(
                    "CREATE TABLE apart.odd AS SELECT 1 AS id, timestamptz '2026-01-01 00:00+02' AS moment,"
                    " '{\"a\": [1]}'::jsonb AS j, ARRAY[1, 2] AS l, interval '1 day' AS i,"
                    " 'NaN'::float8 AS f, 1.5::numeric AS n,"
                    " gen_random_uuid() AS u, time '10:00' AS t"
                )
            )
        home.connect("sql", {"url": postgresql, "database_schema": "apart"}, [{"name": "odd", "table": "odd"}])
        assert home.run("odd")[0] == 1
        shown = "epoch(moment), (j->>'a') AS a, l::VARCHAR, i, isnan(f), n"
        assert home.rows(f"SELECT {shown} FROM {{{{raw.shop.odd}}}}") == [  # noqa: S608 - as above
            (1767218400, "[1]", "[1,2]", "1 day", True, "1.5")
        ]
        wrong = postgresql.replace("s3cret", "wrong-s3cret")
        home.connect("sql", {"url": wrong}, [{"name": "odd", "table": "odd"}])
        message = home.failure("odd")
        assert "password authentication failed" in message
        assert "s3cret" not in message
    finally:
        engine.dispose()


#: A view with endless rows, and a view whose first row never comes.
ENDLESS = {
    "rows": "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n",
    "none": "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n WHERE id < 0",
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_long_read_ends_with_its_stream_and_the_service(
    request: pytest.FixtureRequest, home: Home, database: str, kind: str
) -> None:
    url = request.getfixturevalue("postgresql") if database == "postgresql" else f"sqlite:///{home.folder}/long.db"
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE VIEW {kind} AS {ENDLESS[kind]}"))
    engine.dispose()
    scratch = home.service.home / "scratch"

    def is_reading() -> bool:
        if kind == "none":
            return list(scratch.glob("tmp*")) != []
        return any(file.stat().st_size for file in scratch.glob("tmp*/rows.jsonl"))

    home.connect("sql", {"url": url}, [{"name": "long", "table": kind}])
    home.api.post("/elt_streams/long/request_run")
    wait_for("the read has begun", is_reading, limit=60)
    assert home.service.stop() == 0
    assert list(scratch.glob("tmp*")) == []
    for _ in range(2):
        home.service.start()
        # The read starts again. The files of a killed process are removed.
        wait_for("the read has begun again", is_reading, limit=60)
        assert len(list(scratch.glob("tmp*"))) == 1
        home.service.kill()
    home.service.start()
    deleted = home.api.client.delete("/elt_streams/long")
    assert deleted.is_success, deleted.text
    wait_for("the read has ended", lambda: list(scratch.glob("tmp*")) == [], limit=60)


def test_incremental_query_reads_only_new_rows(home: Home) -> None:
    url = f"sqlite:///{home.folder}/new.db"
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)

    def add(*rows: tuple[Any, Any]) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE IF NOT EXISTS t (id INTEGER, at INTEGER, secret TEXT)"))
            values = [{"id": row[0], "at": row[1]} for row in rows]
            connection.execute(sa.text("INSERT INTO t VALUES (:id, :at, 'long, and not to be read')"), values)

    def size() -> int:
        return int(home.latest("new")["bytes_synced"])

    add(*((number, number) for number in range(1000)))
    stream = {"name": "new", "table": "t", "incremental_pointer_id": "at", "excluded_columns": ["secret"]}
    home.connect("sql", {"url": url}, [stream])
    assert home.run("new") == (1000, "FULL", "INITIAL_SYNC")
    assert 1000 * len('{"id": 1, "at": 1}') < size() < 1000 * len('{"id": 100, "at": 1000, ""}')
    add((1000, 1000))
    assert home.run("new") == (1, "APPEND", "NONE")
    # The row of the cursor, and the new one.
    assert size() < 2 * len('{"id": 1000, "at": 1000, ""}')
    # A value of another type forces a full load.
    add((1001, "late"))
    assert home.run("new") == (1002, "FULL", "SCHEMA_CHANGE")
    assert home.rows("SELECT count(*), max(id) FROM {{raw.shop.new}}") == [(1002, 1001)]
