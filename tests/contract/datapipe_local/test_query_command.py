"""Tests of ``datapipe-local query`` with a running and a stopped service."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import duckdb
import pytest

from datapipe_local.storage.home import Home
from tests.contract.datapipe_local.api import Api
from tests.contract.datapipe_local.seeds import connection, elt_sync, stream
from tests.contract.datapipe_local.test_cli import failure, run
from tests.support.local_service import LocalService
from tests.support.processes import ReservedPort
from tests.support.scripted_server import Reply, ScriptedServer

PEOPLE = "id,name,note\n1,Ada,\n2,Bob,NA\n3,Cyd,\x1b[31mred\n"
SEED = {
    "connections": [connection("files", "files", path=".")],
    "elt_syncs": [elt_sync("shop", "files", [stream("people", options={"nullstr": ["", "NA"]})])],
}


@pytest.fixture(scope="module", params=["running", "stopped"])
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    with LocalService(SEED) as service:
        (service.folder / "people.csv").write_text(PEOPLE)
        Api(service).run_stream("people")
        if request.param == "stopped":
            service.stop()
        yield service.home


@pytest.fixture
def empty_home(tmp_path: Path) -> Path:
    assert run("init", "--home", tmp_path / "home").returncode == 0
    return tmp_path / "home"


def query(home: Path, *arguments: str, **environment: str) -> CompletedProcess[str]:
    return run("query", "--home", home, *arguments, **environment)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_results_do_not_depend_on_the_time_zone(empty_home: Path, zone: str) -> None:
    times = "SELECT TIMESTAMPTZ '2026-01-01T02:00:00Z' AS t UNION ALL SELECT TIMESTAMPTZ '2026-01-01T20:00:00Z'"
    sql = f"SELECT CAST(t AS DATE) AS day, CAST(t AS VARCHAR) AS text FROM ({times}) ORDER BY t"  # noqa: S608 - text of the test
    done = query(empty_home, "--format", "csv", sql, TZ=zone)
    rows = ["2026-01-01,2026-01-01 02:00:00+00", "2026-01-01,2026-01-01 20:00:00+00"]
    assert done.stdout.splitlines() == ["day,text", *rows], done.stderr


def test_table(home: Path) -> None:
    done = query(home, "SELECT id, name, note FROM shop.people ORDER BY id;")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "id | name | note",
        "---+------+------------",
        " 1 | Ada  | NULL",
        " 2 | Bob  | NULL",
        r" 3 | Cyd  | \x1b[31mred",
        "(3 rows)",
    ]
    done = query(home, "SELECT count(*) AS people FROM {{raw.shop.people}}")
    assert done.stdout.splitlines()[-2:] == ["     3", "(1 row)"]


def test_json_and_csv(home: Path) -> None:
    done = query(home, "--format", "json", "SELECT id, [id, 0] AS pair, note FROM shop.people WHERE id < 3 ORDER BY id")
    assert json.loads(done.stdout) == [{"id": 1, "pair": [1, 0], "note": None}, {"id": 2, "pair": [2, 0], "note": None}]
    done = query(home, "--format", "csv", "SELECT id, 'a,\"b' AS t, id = 1 AS b, [id] AS l, NULL AS n FROM shop.people")
    rows = sorted(csv.reader(done.stdout.splitlines()))
    assert rows[:2] == [["1", 'a,"b', "true", "[1]", ""], ["2", 'a,"b', "false", "[2]", ""]]
    assert rows[-1] == ["id", "t", "b", "l", "n"]


@pytest.mark.slow
def test_query_without_rows(home: Path) -> None:
    for form, expected in (("table", "(0 rows)\n"), ("json", "[]\n"), ("csv", "")):
        done = query(home, "--format", form, "SELECT id FROM shop.people WHERE id > 3")
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_limit(home: Path) -> None:
    done = query(home, "--limit", "2", "SELECT id FROM shop.people ORDER BY id")
    assert done.stdout.splitlines()[-3:] == [" 1", " 2", "(2 of 3 rows)"]
    assert done.stderr == "datapipe-local: These are 2 of 3 rows: to see more, raise --limit.\n"


def test_result_with_more_rows_than_the_largest_limit(home: Path) -> None:
    done = query(home, "--limit", "1000", "--format", "json", "SELECT range AS n FROM range(1234) ORDER BY n")
    assert len(json.loads(done.stdout)) == 1000
    assert "1,000 of 1,234 rows" in done.stderr
    assert "LIMIT and OFFSET" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT nothing FROM shop.people", 'Referenced column "nothing" not found'),
        ("DROP TABLE shop.people", "SELECT"),
        ("SELECT * FROM read_csv('people.csv')", "read_csv"),
        ("SELECT * FROM {{raw.shop.person}}", "raw.shop.people"),
        (";", "no SQL"),
    ],
)
def test_refused_query(home: Path, sql: str, problem: str) -> None:
    assert problem in query_failure(home, sql)


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "all", "\u0661"])
def test_invalid_limit(tmp_path: Path, limit: str) -> None:
    done = query(tmp_path, f"--limit={limit}", "SELECT 1")
    assert done.returncode == 2
    assert "use a number from 1 to 1000" in done.stderr


def query_failure(home: Path, sql: str = "SELECT 1", **environment: str) -> str:
    return failure("query", "--home", home, sql, **environment)


@pytest.mark.slow
def test_stopped_home_is_unchanged(empty_home: Path) -> None:
    def tables() -> list[tuple[str]]:
        with duckdb.connect(str(empty_home / "warehouse.duckdb"), read_only=True) as connection:
            return connection.execute("SELECT table_name FROM information_schema.tables").fetchall()

    before = tables()
    assert query(empty_home, "SELECT 1 AS one").returncode == 0
    assert query(empty_home, "CREATE TABLE t AS SELECT 1").returncode == 1
    assert tables() == before
    assert list((empty_home / "scratch").iterdir()) == []


def test_time_limit_of_a_stopped_home(empty_home: Path) -> None:
    endless = "SELECT count(*) FROM range(100000000000) a, range(100000) b WHERE a.range % 7 = b.range % 5"
    assert "longer than 0.2 seconds" in query_failure(empty_home, endless, DATAPIPE_LOCAL_PREVIEW_TIME_LIMIT="0.2")
    message = query_failure(empty_home, DATAPIPE_LOCAL_PREVIEW_TIME_LIMIT="soon")
    assert "DATAPIPE_LOCAL_PREVIEW_TIME_LIMIT" in message


def test_service_that_does_not_answer(empty_home: Path) -> None:
    home, port = Home(empty_home), ReservedPort()
    with home.locked():
        assert "does not answer requests yet" in query_failure(empty_home)
        home.note_address(f"http://127.0.0.1:{port.number}")
        message = query_failure(empty_home)
    port.release()
    assert f"No valid answer from the service at http://127.0.0.1:{port.number} (Connection refused)" in message


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(401, {"error_code": "unauthorized", "message": "The API key is wrong."}), "The API key is wrong."),
        (Reply(502, b"<html>"), "No valid answer"),
        (Reply(200, {}), "No valid answer"),
        (Reply(200, []), "No valid answer"),
        (Reply(0), "No valid answer"),
    ],
)
def test_unexpected_answers(empty_home: Path, reply: Reply, problem: str) -> None:
    home = Home(empty_home)
    with ScriptedServer([reply]) as server, home.locked():
        home.note_address(server.url)
        message = query_failure(empty_home)
    assert problem in message
    assert home.read_key() not in message
