"""Tests of protected columns: a load without them in the source fails before it writes rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from zipfile import ZipFile

import duckdb
import pytest

from tests.contract.datapipe_local.elt_home import Home, Json
from tests.support.local_service import LocalService

SECRET = "ann@x.org"
MISSING = "has no column 'email', which is protected by `excluded_columns` or `hashed_columns`"
PROTECTIONS = [{"excluded_columns": ["email"]}, {"hashed_columns": ["email"]}]
protections = pytest.mark.parametrize("protection", PROTECTIONS, ids=["excluded", "hashed"])


@pytest.fixture(scope="module", autouse=True)
def no_secret_in_the_log(empty_service: LocalService) -> Iterator[None]:
    yield
    assert SECRET not in empty_service.log


def connect(home: Home, **options: Any) -> None:
    home.seed({"name": "people", "file": "people.csv", **options})


def table(home: Home) -> list[tuple[Any, ...]]:
    return home.rows("FROM {{raw.shop.people}}")


@pytest.mark.slow
@protections
@pytest.mark.parametrize(
    "content", [f"id,mail\n2,{SECRET}\n", f"2,{SECRET}\n3,bob@x.org\n", f"bob,{SECRET}\nbob,{SECRET}\n"]
)
def test_csv_file_without_the_column(home: Home, protection: Json, content: str) -> None:
    connect(home, **protection)
    file = home.folder / "people.csv"
    file.write_text(f"id,EMAIL\n1,{SECRET}\n")
    home.run("people")
    before = table(home)
    file.write_text(content)
    error = home.failure("people")
    assert MISSING in error
    assert SECRET not in error
    assert table(home) == before
    assert SECRET not in str(before)


def connect_slices(home: Home, protection: Json) -> None:
    home.seed({"name": "people", **protection}, first_load_slice_rows=1)
    home.write("people", {"id": 2, "mail": SECRET}, {"id": 3, "mail": SECRET})


def connect_csv(home: Home, protection: Json) -> None:
    connect(home, **protection)
    (home.folder / "people.csv").write_text(f"id,mail\n1,{SECRET}\n")


def connect_generated(home: Home, protection: Json) -> None:
    table = {"name": "people", "rows": 3, "columns": [{"name": "id", "kind": "id"}]}
    home.connect("generated", {"tables": [table]}, [{"name": "people", "table": "people", **protection}])


@protections
@pytest.mark.parametrize("connect_source", [connect_csv, connect_slices, connect_generated])
def test_first_load_without_the_column(
    home: Home, protection: Json, connect_source: Callable[[Home, Json], None]
) -> None:
    connect_source(home, protection)
    assert MISSING in home.failure("people")
    assert home.api.client.post("/_local/query", json={"sql": "FROM shop.people"}).status_code == 400


@protections
@pytest.mark.parametrize("options", [{}, {"incremental_pointer_id": "id"}], ids=["full", "append"])
def test_json_lines_without_the_column(home: Home, protection: Json, options: Json) -> None:
    home.seed({"name": "people", **protection, **options})
    home.load("people", {"id": 1, "email": SECRET})
    before = table(home)
    assert MISSING in home.failure("people", {"id": 2, "mail": SECRET})
    assert table(home) == before


@protections
def test_column_that_some_rows_lack(home: Home, protection: Json) -> None:
    home.seed({"name": "people", **protection})
    # More rows than the reader samples for columns.
    assert home.load("people", *[{"id": 1}] * 21_000, {"id": 2, "Email": SECRET})[0] == 21_001
    assert SECRET not in str(home.rows("FROM {{raw.shop.people}} WHERE id = 2"))


@protections
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "zip"])
def test_one_file_of_a_pattern_without_the_column(home: Home, protection: Json, kind: str) -> None:
    rows = {"a": "email", "b": "mail"}
    archive = ZipFile(home.folder / "all.zip", "w") if kind == "zip" else None
    for name, column in rows.items():
        file, csv = home.folder / f"{name}.{kind}", f"id,{column}\n1,{SECRET}\n"
        if archive:
            archive.writestr(f"{name}.csv", csv)
        elif kind == "jsonl":
            home.write(name, {"id": 1, column: SECRET})
        elif kind == "parquet":
            duckdb.sql(f"COPY (SELECT 1 AS id, '{SECRET}' AS {column}) TO '{file}' (FORMAT parquet)")
        else:
            file.write_text(csv)
    if archive:
        archive.close()
    home.seed({"name": "people", "files": f"*.{kind}", **protection})
    error = home.failure("people")
    assert f"file 2 of 2 ({'b.csv' if kind == 'zip' else f'b.{kind}'}) {MISSING}" in error
    assert SECRET not in error


@protections
def test_files_of_a_pattern_with_the_column(home: Home, protection: Json) -> None:
    home.write("a", {"id": 1, "email": SECRET})
    home.write("b", *[{"id": 2}] * 21_000, {"id": 2, "EMAIL": SECRET})
    (home.folder / "c.csv").write_text(f"id,email,no\n1,{SECRET},1\n")
    (home.folder / "d.csv").write_text(f"id,Email\n1,{SECRET}\n")
    home.seed(
        {"name": "people", "files": "*.jsonl", **protection},
        {"name": "more", "files": "*.csv", "options": {"types": {"no": "VARCHAR"}}, **protection},
    )
    assert (home.run("people")[0], home.run("more")[0]) == (21_002, 2)


@protections
@pytest.mark.parametrize("second", ["email", "EMAIL"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_protected_name_that_occurs_twice(home: Home, protection: Json, kind: str, second: str) -> None:
    file = home.folder / f"people.{kind}"
    if kind == "csv":
        file.write_text(f"id,email,{second}\n1,a,{SECRET}\n")
    else:
        file.write_text(f'{{"id": 1, "email": "a"}}\n{{"id": 2, "{second}": "{SECRET}"}}\n')
    home.seed({"name": "people", "file": file.name, **protection})
    if kind == "jsonl" and second == "email":
        assert home.run("people")[0] == 2
    else:
        reason = "columns 2 and 3 have the same name" if kind == "csv" else "differ only by case"
        assert reason in home.failure("people")


@protections
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_name_like_that_of_a_second_column(home: Home, protection: Json, kind: str) -> None:
    file = home.folder / f"people.{kind}"
    query = "SELECT 1 AS id, 'a' AS email, 'b' AS Email_1"
    duckdb.sql(f"COPY ({query}) TO '{file}' ({'FORMAT json' if kind == 'jsonl' else f'FORMAT {kind}'})")
    home.seed({"name": "people", "file": file.name, **protection})
    assert home.run("people")[0] == 1
    assert "b" in table(home)[0]


@protections
def test_database_table_without_the_column(home: Home, protection: Json) -> None:
    with closing(sqlite3.connect(home.folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE people (id INTEGER, Email TEXT)")
        database.execute("INSERT INTO people VALUES (1, ?)", [SECRET])
        url = f"sqlite:///{home.folder}/shop.db"
        home.connect("sql", {"url": url}, [{"name": "people", "table": "people", **protection}])
        database.commit()
        home.run("people")
        before = table(home)
        database.execute("ALTER TABLE people RENAME COLUMN Email TO mail")
    assert MISSING in home.failure("people")
    assert table(home) == before


@protections
def test_webhook_table_without_rows(home: Home, protection: Json) -> None:
    stream = {"name": "people", "table": "people", **protection}
    home.connect("webhook", {"tables": [{"name": "people"}]}, [stream])
    assert home.run("people")[0] == 0
    home.api.post("/webhooks/data/people", {"id": 1, "mail": SECRET})
    assert MISSING in home.failure("people")
    home.api.post("/webhooks/data/people", {"id": 1, "email": SECRET})
    assert home.run("people")[0] == 2


@pytest.mark.parametrize("field", ["excluded_columns", "hashed_columns"])
def test_name_of_a_nested_field(home: Home, field: str) -> None:
    home.seed({"name": "people", field: ["who.email"]})
    home.write("people", {"id": 1, "who": {"email": SECRET}})
    assert "has no column 'who.email', which is protected" in home.failure("people")


def test_excluded_substream_can_be_missing(home: Home) -> None:
    home.seed({"name": "people", "excluded_substreams": ["items"]})
    assert home.load("people", {"id": 1})[0] == 1
    home.load("people", {"id": 1, "items": [{"n": 1}]})
    assert table(home) == [(1,)]


@protections
def test_change_of_options_without_the_header(home: Home, protection: Json) -> None:
    connect(home, **protection)
    (home.folder / "people.csv").write_text(f"bob,{SECRET}\nann,{SECRET}\n")
    change = {"source_streams": [{"name": "people", "hashed_columns": ["phone"]}]}
    refused = home.api.refused("POST", "/elt_syncs/shop/source_streams", 400, json=change)
    assert "the source has no column 'phone': restore the header." in refused["message"]
    assert SECRET not in refused["message"]


@protections
def test_custom_report_on_a_file_without_the_column(home: Home, protection: Json) -> None:
    connect_csv(home, protection)
    reports = [{"elt_sync_id": "shop", "name": "Mine", "query": "SELECT * FROM people"}]
    answer = home.api.post("/custom_reports", {"reports": reports}, status=201)
    assert MISSING in str(answer)
    assert SECRET not in str(answer)


@protections
def test_load_after_the_option_is_removed(home: Home, protection: Json) -> None:
    connect_csv(home, protection)
    home.failure("people")
    home.change(name="people", **{field: [] for field in protection})
    assert home.run("people")[0] == 1


@protections
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_error_messages_do_not_contain_values(home: Home, protection: Json, kind: str) -> None:
    file = home.folder / f"people.{kind}"
    stream: Json = {"name": "people", "file": file.name, **protection}
    if kind == "csv":
        file.write_text(f"id,email\n1,a\nx,{SECRET}\n")
        stream["options"] = {"types": {"id": "BIGINT"}}
    else:
        file.write_text(f'{{"id": 1, "email": "{SECRET}"}}\n{{"id": "{SECRET}", "email": 1}}\n')
        stream["options"] = {"columns": {"id": "BIGINT", "email": "VARCHAR"}}
    home.seed(stream)
    error = home.failure("people")
    assert SECRET not in error
    assert re.search("line [23]", error.lower())
