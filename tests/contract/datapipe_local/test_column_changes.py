"""Tests of the columns of a full load, compared with the table of the previous load."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import duckdb
import pytest

from tests.contract.datapipe_local.elt_home import Home, Json

STREAM: Json = {"name": "people"}
BEFORE = [{"id": 1, "name": "ann"}]
RENAMED = [{"no": 2, "title": "bob"}]
SECRET = "ann@x.org"


def people(home: Home) -> list[tuple[Any, ...]]:
    return home.rows("FROM {{raw.shop.people}}")


def lines(home: Home, rows: list[Json], **settings: Any) -> None:
    home.seed({**STREAM, **settings.pop("stream", {})}, **settings)
    home.write("people", *rows)


def csv(home: Home, rows: list[Json], **stream: Any) -> None:
    home.seed({**STREAM, **(stream or {"file": "people.csv"})})
    records = [list(rows[0]), *(row.values() for row in rows)]
    (home.folder / "people.csv").write_text("".join(",".join(map(str, record)) + "\n" for record in records))


def parquet(home: Home, rows: list[Json], **stream: Any) -> None:
    home.seed({**STREAM, **stream})
    values = ", ".join(f"{value!r} AS {name}" for name, value in rows[0].items())
    duckdb.sql(f"COPY (SELECT {values}) TO '{home.folder / 'people.parquet'}' (FORMAT parquet)")


def database(home: Home, rows: list[Json]) -> None:
    with closing(sqlite3.connect(home.folder / "shop.db")) as shop, shop:
        shop.execute("DROP TABLE IF EXISTS people")
        shop.execute(f"CREATE TABLE people ({', '.join(rows[0])})")
        marks = ", ".join("?" * len(rows[0]))
        shop.execute(f"INSERT INTO people VALUES ({marks})", [*rows[0].values()])  # noqa: S608 - question marks
    home.connect("sql", {"url": f"sqlite:///{home.folder}/shop.db"}, [{**STREAM, "table": "people"}])


def generated(home: Home, rows: list[Json]) -> None:
    columns = [{"name": name, "kind": "id"} for name in rows[0]]
    home.connect("generated", {"tables": [{**STREAM, "rows": 3, "columns": columns}]}, [{**STREAM, "table": "people"}])


def incremental(home: Home, rows: list[Json], **options: Any) -> None:
    pointer = "title" if rows is RENAMED else "id"
    lines(home, rows, stream={"incremental_pointer_id": pointer, **(options if rows is RENAMED else {})})


SOURCES: dict[str, Callable[[Home, list[Json]], None]] = {
    "CSV file": csv,
    "CSV files": partial(csv, files="*.csv"),
    "Parquet file": partial(parquet, file="people.parquet"),
    "Parquet files": partial(parquet, files="*.parquet"),
    "JSON Lines": lines,
    "JSON Lines in slices": partial(lines, first_load_slice_rows=1),
    "incremental stream, always full": partial(incremental, full_sync_always=True),
    "incremental stream, then hashed": partial(incremental, hashed_columns=["no"]),
    "database table": database,
    "generated rows": generated,
}


@pytest.mark.parametrize("source", SOURCES)
def test_renamed_columns_keep_the_table(home: Home, source: str) -> None:
    SOURCES[source](home, BEFORE)
    home.run("people")
    before = people(home)
    SOURCES[source](home, RENAMED)
    error = home.failure("people")
    assert "no column of the previous load is left: it had 'id', 'name', and the source now has " in error
    assert "Restore the header, or request" in error
    # New names of a stream with protected columns can be values.
    assert ("now has 'no', 'title'." in error) == ("hashed" not in source)
    assert people(home) == before != []


def test_a_webhook_changed_to_packed(home: Home) -> None:
    def seed(mode: str) -> None:
        settings = {"tables": [{"name": "people", "sync_mode": mode}]}
        home.connect("webhook", settings, [{**STREAM, "table": "people"}])

    seed("unpacked")
    # Without requests, there are no columns to compare with.
    home.run("people")
    home.api.post("/webhooks/data/people", {"id": 1})
    assert home.run("people")[0] == 1
    seed("packed")
    assert "it had 'id', and the source now has 'payload'" in home.failure("people")
    assert people(home) == [(1,)]


def test_a_full_refresh_accepts_renamed_columns(home: Home) -> None:
    lines(home, BEFORE)
    home.run("people")
    home.failure("people", *RENAMED)
    home.api.post("/elt_streams/people/request_full_refresh", status=204)
    assert home.run("people") == (1, "FULL", "USER")
    assert people(home) == [(2, "bob")]
    assert home.run("people") == (1, "FULL", "NONE")


def test_a_new_stream_accepts_a_leftover_table(home: Home) -> None:
    lines(home, BEFORE)
    home.run("people")
    home.api.delete("/elt_streams/people")
    home.write("people", *RENAMED)
    (stream,) = home.change(name="people")
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
    lines(home, BEFORE)
    home.run("people")
    home.load("people", row)
    assert people(home) == expected


def test_a_rare_shared_column_is_recognized(home: Home) -> None:
    lines(home, BEFORE)
    home.run("people")
    # More rows than the reader samples for columns.
    assert home.load("people", *[{"no": 1}] * 21_000, {"no": 2, "id": 1})[0] == 21_001


def test_a_changed_selection_is_not_a_rename(home: Home) -> None:
    home.seed({**STREAM, "excluded_columns": ["name"]})
    home.load("people", *BEFORE)
    home.change(name="people", excluded_columns=["id"])
    home.run("people")
    assert people(home) == [("ann",)]


def test_a_table_without_rows_accepts_all_columns(home: Home) -> None:
    csv(home, RENAMED)
    (home.folder / "people.csv").write_text("id,name\n")
    home.run("people")
    csv(home, RENAMED)
    assert home.run("people")[0] == 1


def test_new_names_are_hidden_if_columns_are_protected(home: Home) -> None:
    csv(home, [{"name": "ann", "email": SECRET}], file="people.csv", hashed_columns=["email"])
    home.run("people")
    csv(home, [{"email2": 1, SECRET: 2}], file="people.csv", hashed_columns=["email"])
    assert SECRET not in home.failure("people")
    home.seed({**STREAM, "file": "people.csv", "hashed_columns": ["email2"]})
    error = home.failure("people")
    assert "it had 'name', 'email', and the source now has 2 others" in error
    assert SECRET not in error
