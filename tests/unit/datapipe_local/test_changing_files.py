"""Tests of files with other types than their first rows, or than the table: no row is lost."""

from __future__ import annotations

import threading
from datetime import date
from typing import Any

import duckdb
import pytest

from datapipe_local.warehouse.loading.incremental import OutdatedError
from datapipe_local.warehouse.loading.load_options import LoadOptions
from datapipe_local.warehouse.warehouse import Place, Scan, Warehouse, WarehouseError
from tests.unit.datapipe_local.file_loads import PLACE, FileLoads, lines

HISTORY = Place("raw", "things_history")
#: More rows than DuckDB reads to infer their types.
MANY = 25_000


@pytest.fixture
def merged(files: FileLoads) -> FileLoads:
    """Return incremental loads."""
    files.options = LoadOptions(pointer="at", key=("id",))
    return files


def load_json(files: FileLoads, *rows: Any) -> int:
    return files.load_text("things.jsonl", lines(*rows))


def load_csv(files: FileLoads, content: str) -> int:
    return files.load_text("things.csv", content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "late", "expected"),
    [
        ({"a": "2026-01-01"}, {"a": "soon"}, "soon"),
        ({"a": 1}, {"a": {"b": 1}}, '{"b":1}'),
        ({}, {"a": 5}, 5),
    ],
    ids=["no day", "nested", "new"],
)
def test_later_lines_are_of_another_type(merged: FileLoads, first: Any, late: Any, expected: Any) -> None:
    rows = [{"id": number, "at": 1, **first} for number in range(MANY)]
    assert load_json(merged, *rows, {"id": MANY, "at": 1, **late}) == MANY + 1
    assert merged.rows(f"id, a FROM {PLACE.sql} WHERE id = {MANY} --") == [(MANY, expected)]
    # The same in an incremental load.
    assert load_json(merged, *rows, {"id": MANY + 1, "at": 2, **late}) == 1


def test_rows_with_thousands_of_keys_load_in_linear_time(files: FileLoads, warehouse: Warehouse) -> None:
    values = [7, 2.5, "x", None, True, [1], {"a": 1}, 12345678901234567890123]
    row = {f"k{number}": values[number % len(values)] for number in range(4_000)}
    # A condition for each column takes an hour, lists of columns take one second.
    limit = threading.Timer(60, warehouse.interrupt)
    limit.start()
    try:
        assert load_json(files, row, row) == 2
    finally:
        limit.cancel()
    types = list(files.types().values())[: len(values)]
    assert [*types[:6], types[7]] == ["BIGINT", "DOUBLE", "VARCHAR", "VARCHAR", "BOOLEAN", "BIGINT[]", "BIGNUM"]


def test_dates_keep_their_values_next_to_large_integers(files: FileLoads) -> None:
    dates = {"usual": "2026-12-31", "us": "12-31-2026", "short": "31-12-26", "many": ["31-12-26"]}
    assert load_json(files, {"n": 1.5, **dates}, {"n": 10**20 + 1}) == 2
    assert list(files.types().values()) == ["VARCHAR", "DATE", "VARCHAR", "VARCHAR", "JSON"]
    assert ("1.5", date(2026, 12, 31), "12-31-2026", "31-12-26", '["31-12-26"]') in files.rows()


def test_text_among_other_values_is_the_same_in_each_run(merged: FileLoads) -> None:
    load_json(merged, {"id": 1, "at": 1, "a": "x"})
    # DuckDB reads values of several kinds as JSON.
    rows = [{"id": 2, "at": 2, "a": 'it\'s "y"'}, {"id": 3, "at": 2, "a": [1]}, {"id": 4, "at": 2}]
    assert load_json(merged, *rows) == 3
    assert merged.rows("a") == [("[1]",), ('it\'s "y"',), ("x",), (None,)]


@pytest.mark.slow
def test_rows_with_very_many_fields_have_as_many_columns(merged: FileLoads) -> None:
    wide = {f"c{number}": number for number in range(400)}
    assert load_json(merged, {"id": 1, "at": 1, **wide}, {"id": 2, "at": 1, "c399": 1}) == 2
    assert merged.rows("id, c0, c399") == [(1, 0, 399), (2, None, 1)]
    # A value with many fields stays one.
    load_json(merged, {"id": 3, "at": 3, "m": wide})
    assert merged.types()["m"].startswith("MAP(")


def test_days_in_several_forms_and_huge_numbers_stay(merged: FileLoads) -> None:
    huge = "9" * 41
    assert load_csv(merged, f"id,at,day,big\n1,1,2026-01-02,1\n2,2,03/04/2026,{huge}\n") == 2
    assert merged.rows("id, day, big::VARCHAR") == [(1, "2026-01-02", "1"), (2, "03/04/2026", huge)]


def test_a_file_without_a_row_removes_nothing(merged: FileLoads) -> None:
    load_csv(merged, "id,at\n1,1\n")
    # DuckDB reads a column without a value as text. This is not a change of the pointer's type.
    assert [load_csv(merged, f"id,at\n{rows}") for rows in ("", "1,\n", "2,2\n")] == [0, 0, 1]
    # A row without a pointer does not replace one that has a pointer.
    assert merged.rows() == [(1, 1), (2, 2)]


@pytest.mark.parametrize("first", ["id,at\n", "id,at\n1,\n"])
def test_a_table_without_a_pointer_accepts_any_type(merged: FileLoads, first: str) -> None:
    load_csv(merged, first)
    assert load_csv(merged, "id,at\n1,1\n2,2\n") == 2
    assert merged.rows() == [(1, 1), (2, 2)]
    with pytest.raises(OutdatedError, match="was BIGINT, and is VARCHAR"):
        load_csv(merged, "id,at\n3,soon\n")


@pytest.mark.parametrize("number", ["9007199254740993", "18446744073709551615", "9" * 41])
def test_numbers_that_would_lose_digits_become_text(merged: FileLoads, number: str) -> None:
    load_csv(merged, f"id,at,n\n1,1,{number}\n")
    load_csv(merged, "id,at,n\n2,2,0.5\n")
    assert merged.rows("id, n") == [(1, number), (2, "0.5")]


def test_decimals_that_would_lose_digits_become_text(merged: FileLoads, warehouse: Warehouse) -> None:
    load_json(merged, {"id": 1, "at": 1, "n": 1, "m": 1})
    exact = "1234567890123456789.01"
    with warehouse.cursor() as cursor:
        for name, value in (("n", exact), ("m", "0.10")):
            cursor.execute(f"ALTER TABLE {PLACE.sql} ALTER {name} TYPE DECIMAL(30, 2) USING '{value}'")
    load_json(merged, {"id": 2, "at": 2, "n": 0.5, "m": 0.5})
    assert merged.rows("id, n, m") == [(1, exact, 0.1), (2, "0.5", 0.5)]


def test_text_of_the_table_stays_the_same_text(merged: FileLoads) -> None:
    load_csv(merged, "id,at,version\nx,a,1.50\n1.50,b,beta\n")
    # DuckDB reads these as numbers and days, including the pointer.
    assert load_csv(merged, "id,at,version\n1.50,2026-01-01,2.0\n2.50,c,03\n") == 1
    assert load_csv(merged, "id,version,at\n1.50,2.50,2099-01-01\n07,2.50,2099-01-01\n") == 0
    assert load_csv(merged, "id,version,AT\n1.50,2.50,d\n") == 1
    assert merged.rows() == [("1.50", "d", "2.50"), ("2.50", "c", "03"), ("x", "a", "1.50")]


def test_a_history_accepts_a_list_for_a_structure(files: FileLoads) -> None:
    files.options = LoadOptions(keeps_history=True)
    for value in ({"a": 1}, {"a": 1, "b": 2}, [1], "text"):
        assert load_json(files, {"id": 1, "x": value}) == 1
    assert files.rows("x", HISTORY) == [("[1]",), ("text",), ('{"a":1,"b":2}',), ('{"a":1,"b":null}',)]
    assert files.rows(f"x FROM {HISTORY.sql} WHERE valid_to IS NULL --") == [("text",)]


def test_no_column_name_is_reserved(files: FileLoads) -> None:
    files.options = LoadOptions(pointer="at")
    row = dict.fromkeys(("_", "__", "__number__", "__fresh__", "f", "k", "t", "n", "range", "rowid"), 1)
    load_json(files, {"at": 1, **row})
    assert load_json(files, {"at": 1, **row}, {"at": 1, **row}, {"at": 2, **row}) == 2
    assert len(files.rows()) == 3


def test_a_file_replaced_during_a_read_fails_the_load(files: FileLoads) -> None:
    file, other = files.folder / "things.csv", files.folder / "other.csv"
    file.write_text("id,name\n1,2\n")

    def append() -> None:
        with file.open("a") as more:
            more.write("2,3\n")

    assert files.load(while_open=append, file=file.name) == 2
    other.write_text("name,id\n8,9\n10,11\n12,13\n")
    for change in (lambda: other.replace(file), lambda: file.write_text("id\n")):
        with pytest.raises(WarehouseError, match="was replaced while it was read: run the stream again"):
            files.load(while_open=change, file=file.name)
        assert files.rows("id, name") == [(1, 2), (2, 3)]
    scan = Scan("read_csv", file).stamped()
    file.unlink()
    with pytest.raises(WarehouseError, match="was removed while it was read"):
        scan.check()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("DATE '2026-01-02'", ["2026-01-02", "5"]),
        ("{'a': 1}", ["5", '{"a":1}']),
        ("[1]", ["5", "[1]"]),
        ("1.5", ["1.5", "5.0"]),
        ("NULL::BLOB", ["5", None]),
    ],
)
def test_parquet_files_of_a_pattern_differ_in_types(files: FileLoads, other: str, expected: list[str | None]) -> None:
    for name, value in (("1", "5"), ("2", other)):
        duckdb.execute(f"COPY (SELECT {value} AS x, {name} AS id) TO '{files.folder / name}.parquet'")
    assert files.load(files="*.parquet") == 2
    assert [value for (value,) in files.rows("CAST(x AS VARCHAR)")] == expected
