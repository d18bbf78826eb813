"""Tests of the columns of a full load, compared with the table of the previous load."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.contract.datapipe_local.elt_home import Home, Json
from tests.support.local_service import LocalService

STREAM: Json = {"name": "people"}
BEFORE = [{"id": 1, "name": "ann"}]
RENAMED = [{"no": 2, "title": "bob"}]
SECRET = "ann@x.org"


@pytest.fixture(scope="module")
def running() -> Iterator[LocalService]:
    with LocalService({}, control=True) as service:
        yield service
        assert "Traceback" not in service.log


@pytest.fixture
def home(running: LocalService, tmp_path: Path) -> Home:
    return Home(running, tmp_path)


def write_csv(file: Path, rows: list[Json]) -> None:
    lines = [list(rows[0]), *(row.values() for row in rows)]
    file.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))


def write_parquet(file: Path, rows: list[Json]) -> None:
    values = ", ".join(f"{value!r} AS {name}" for name, value in rows[0].items())
    duckdb.sql(f"COPY (SELECT {values}) TO '{file}' (FORMAT parquet)")


def write_table(file: Path, rows: list[Json]) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DROP TABLE IF EXISTS people")
        database.execute(f"CREATE TABLE people ({', '.join(rows[0])})")
        marks = ", ".join("?" * len(rows[0]))
        database.execute(f"INSERT INTO people VALUES ({marks})", [*rows[0].values()])  # noqa: S608 - question marks


def people(home: Home) -> list[tuple[Any, ...]]:
    return home.rows("FROM {{raw.shop.people}}")


@pytest.mark.parametrize(("kind", "write"), [("csv", write_csv), ("parquet", write_parquet)])
@pytest.mark.parametrize("declared", ["file", "files"])
def test_renamed_columns_of_a_file(
    home: Home, kind: str, write: Callable[[Path, list[Json]], None], declared: str
) -> None:
    file = home.folder / f"people.{kind}"
    write(file, BEFORE)
    stream = {"name": "people", declared: file.name if declared == "file" else f"*.{kind}"}
    home.connect("files", {"path": str(home.folder)}, [stream])
    home.run("people")
    write(file, RENAMED)
    error = home.failure("people")
    assert "it had 'id', 'name', and the source now has 'no', 'title'. Restore the header, or request" in error
    assert people(home) == [(1, "ann")]


def test_renamed_columns_of_json_lines(home: Home) -> None:
    home.seed(STREAM)
    home.write("people", *BEFORE)
    home.run("people")
    home.write("people", *RENAMED)
    assert "no column of the previous load is left" in home.failure("people")
    assert people(home) == [(1, "ann")]


def test_renamed_columns_of_a_database_table(home: Home) -> None:
    write_table(home.folder / "shop.db", BEFORE)
    home.connect("sql", {"url": f"sqlite:///{home.folder}/shop.db"}, [{"name": "people", "table": "people"}])
    home.run("people")
    write_table(home.folder / "shop.db", RENAMED)
    assert "no column of the previous load is left" in home.failure("people")
    assert people(home) == [("1", "ann")]


def test_renamed_columns_of_generated_rows(home: Home) -> None:
    def seed(column: str) -> None:
        table = {"name": "people", "rows": 3, "columns": [{"name": column, "kind": "id"}]}
        home.connect("generated", {"tables": [table]}, [{"name": "people", "table": "people"}])

    seed("id")
    home.run("people")
    seed("number")
    assert "it had 'id', and the source now has 'number'" in home.failure("people")
    assert len(people(home)) == 3


def test_a_webhook_changed_to_packed(home: Home) -> None:
    def seed(mode: str) -> None:
        settings = {"tables": [{"name": "people", "sync_mode": mode}]}
        home.connect("webhook", settings, [{"name": "people", "table": "people"}])

    seed("unpacked")
    # Without requests there are no columns to compare with.
    home.run("people")
    home.api.post("/webhooks/data/people", {"id": 1})
    assert home.run("people")[0] == 1
    seed("packed")
    assert "it had 'id', and the source now has 'payload'" in home.failure("people")
    assert people(home) == [(1,)]


def test_renamed_columns_when_slices_are_set(home: Home) -> None:
    home.seed(STREAM, first_load_slice_rows=1)
    home.write("people", *BEFORE)
    home.run("people")
    home.write("people", *RENAMED)
    assert "no column of the previous load is left" in home.failure("people")
    assert people(home) == [(1, "ann")]


@pytest.mark.parametrize("options", [{"full_sync_always": True}, {"hashed_columns": ["no"]}])
def test_renamed_columns_of_an_incremental_stream(home: Home, options: Json) -> None:
    home.seed({**STREAM, "incremental_pointer_id": "id"})
    home.write("people", *BEFORE)
    home.run("people")
    home.seed({**STREAM, "incremental_pointer_id": "title", **options})
    home.write("people", *RENAMED)
    assert "no column of the previous load is left" in home.failure("people")
    assert people(home) == [(1, "ann")]


def test_a_full_refresh_accepts_renamed_columns(home: Home) -> None:
    home.seed(STREAM)
    home.write("people", *BEFORE)
    home.run("people")
    home.write("people", *RENAMED)
    home.failure("people")
    home.api.post("/elt_streams/people/request_full_refresh", status=204)
    assert home.run("people") == (1, "FULL", "USER")
    assert people(home) == [(2, "bob")]
    assert home.run("people") == (1, "FULL", "NONE")


def test_a_new_stream_accepts_a_table_that_was_left(home: Home) -> None:
    home.seed(STREAM)
    home.write("people", *BEFORE)
    home.run("people")
    assert home.api.client.delete("/elt_streams/people").status_code == 204
    home.write("people", *RENAMED)
    body = {"source_streams": [{"name": "people"}]}
    (stream,) = home.api.post("/elt_syncs/shop/source_streams", body, status=201)["source_streams"]
    assert home.api.run_stream(stream["id"]).status == "COMPLETED"
    assert people(home) == [(2, "bob")]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"ID": 2, "new": 3}, [(2, 3)]),
        ({"name": "bob"}, [("bob",)]),
        ({"id": 2, "name": "bob", "new": 3}, [(2, "bob", 3)]),
    ],
)
def test_columns_can_be_added_and_removed(home: Home, row: Json, expected: list[tuple[Any, ...]]) -> None:
    home.seed(STREAM)
    home.write("people", *BEFORE)
    home.run("people")
    home.write("people", row)
    home.run("people")
    assert people(home) == expected


def test_a_shared_column_that_is_rare(home: Home) -> None:
    home.seed(STREAM)
    home.write("people", *BEFORE)
    home.run("people")
    # More rows than the reader samples for columns.
    home.write("people", *[{"no": 1}] * 21_000, {"no": 2, "id": 1})
    assert home.run("people")[0] == 21_001


def test_a_changed_choice_of_columns_is_no_renaming(home: Home) -> None:
    home.seed({**STREAM, "excluded_columns": ["name"]})
    home.write("people", *BEFORE)
    home.run("people")
    change = {"name": "people", "excluded_columns": ["id"]}
    home.api.post("/elt_syncs/shop/source_streams", {"source_streams": [change]}, status=201)
    home.run("people")
    assert people(home) == [("ann",)]


def test_a_table_without_rows_accepts_all_columns(home: Home) -> None:
    home.connect("files", {"path": str(home.folder)}, [{"name": "people", "file": "people.csv"}])
    (home.folder / "people.csv").write_text("id,name\n")
    home.run("people")
    write_csv(home.folder / "people.csv", RENAMED)
    assert home.run("people")[0] == 1


def test_new_names_are_hidden_if_columns_are_protected(home: Home) -> None:
    home.connect(
        "files", {"path": str(home.folder)}, [{"name": "people", "file": "people.csv", "hashed_columns": ["email"]}]
    )
    write_csv(home.folder / "people.csv", [{"name": "ann", "email": SECRET}])
    home.run("people")
    write_csv(home.folder / "people.csv", [{"email2": 1, SECRET: 2}])
    assert SECRET not in home.failure("people")
    home.seed({"name": "people", "file": "people.csv", "hashed_columns": ["email2"]})
    error = home.failure("people")
    assert "it had 'name', 'email', and the source now has 2 others" in error
    assert SECRET not in error
