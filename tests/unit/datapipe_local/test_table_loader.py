"""Tests of loads into the warehouse in slices, with protected columns, and from query results."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import duckdb
import pytest

from datapipe_local.warehouse import sandbox
from datapipe_local.warehouse.loading.load_options import LoadOptions
from datapipe_local.warehouse.loading.readable import Selection, Stored
from datapipe_local.warehouse.loading.table_loader import Slice, TableLoader
from datapipe_local.warehouse.sandbox import SandboxTable
from datapipe_local.warehouse.warehouse import Scan, Warehouse, WarehouseError
from tests.unit.datapipe_local.file_loads import FACTS, PLACE, PLAIN


@pytest.fixture
def numbers(tmp_path: Path) -> Scan:
    file = tmp_path / "numbers.csv"
    file.write_text("n,text\n" + "".join(f"{n},t{n}\n" for n in range(10)))
    return Scan("read_csv", file)


@pytest.fixture
def loader(warehouse: Warehouse) -> TableLoader:
    return TableLoader(warehouse)


def fetched(warehouse: Warehouse, query: str) -> list[Any]:
    with warehouse.cursor() as cursor:
        return [row[0] for row in cursor.execute(query).fetchall()]


def values(warehouse: Warehouse) -> list[Any]:
    return fetched(warehouse, f"SELECT n FROM {PLACE.sql} ORDER BY 1")  # noqa: S608 - fixed names of the test


def tables(warehouse: Warehouse) -> list[str]:
    return fetched(warehouse, "SELECT table_name FROM duckdb_tables()")


@pytest.mark.parametrize("repeats", [1, 2], ids=["once", "repeated after a kill"])
@pytest.mark.parametrize(("size", "slices"), [(10, 1), (11, 1), (4, 3), (5, 2), (1, 10), (9, 2)])
def test_slices_add_up(
    loader: TableLoader, warehouse: Warehouse, numbers: Scan, size: int, slices: int, *, repeats: int
) -> None:
    start = 0
    for number in range(slices):
        rows = min(size, 10 - start)
        for _ in range(repeats):
            found = (
                loader.load_next_slice(PLACE, start, size, *PLAIN)
                if start
                else loader.load_first_slice(PLACE, numbers, size, *PLAIN)
            )
            assert found == Slice(rows, is_last=number == slices - 1)
            assert len(set(values(warehouse))) == len(values(warehouse)) == start + rows
        start += rows
    assert values(warehouse) == list(range(10))
    assert tables(warehouse) == ["things"]


@pytest.mark.parametrize("size", [4, 10], ids=["slices", "one slice"])
def test_slices_with_a_column_rowid(loader: TableLoader, warehouse: Warehouse, tmp_path: Path, size: int) -> None:
    file = tmp_path / "numbered.csv"
    file.write_text("RowID,n\n" + "".join(f"{n + 100},{n}\n" for n in range(10)))
    loader.load_first_slice(PLACE, Scan("read_csv", file), size, *PLAIN)
    for start in range(size, 10, size):
        loader.load_next_slice(PLACE, start, size, *PLAIN)
    assert [column.name for column in warehouse.columns(f"FROM {PLACE.sql}")] == ["RowID", "n"]
    assert fetched(warehouse, f"SELECT RowID - 100 FROM {PLACE.sql} ORDER BY 1") == values(warehouse) == [*range(10)]  # noqa: S608 - fixed names of the test


@pytest.mark.parametrize("text", ["1.10", "2026-01-01T02:00:00+01:00", "TRUE"])
def test_csv_values_are_hashed_as_text(loader: TableLoader, warehouse: Warehouse, tmp_path: Path, text: str) -> None:
    file = tmp_path / "hashed.csv"
    file.write_text(f"id,n\n1,{text}\n2,{text}\n")
    scan, expected = Scan("read_csv", file), hashlib.sha256(text.encode()).hexdigest()
    options = LoadOptions(Selection(hashed=["N"]), pointer="id")
    loader.load_all_rows(PLACE, scan, options, FACTS)
    assert values(warehouse) == [expected] * 2
    # Neither row is new.
    assert loader.load_new_rows(PLACE, scan, options, FACTS) == 0
    loader.load_first_slice(PLACE, scan, 1, options, FACTS)
    assert values(warehouse) == [expected]
    stored = tmp_path / "stored.duckdb"
    sandbox.store(warehouse, "SELECT n FROM hashed", {"hashed": SandboxTable(scan, options.selection)}, stored)
    loader.load_all_rows(PLACE, Stored(stored), LoadOptions(), FACTS)
    assert values(warehouse) == [expected] * 2


def test_a_table_changed_between_slices_fails_a_load(loader: TableLoader, warehouse: Warehouse, numbers: Scan) -> None:
    loader.load_first_slice(PLACE, numbers, 4, *PLAIN)
    fetched(warehouse, f"DELETE FROM {PLACE.sql} WHERE n IN (SELECT min(n) FROM {PLACE.sql})")  # noqa: S608 - fixed names of the test
    with pytest.raises(WarehouseError, match="3 rows"):
        loader.load_next_slice(PLACE, 4, 4, *PLAIN)


def test_a_failed_first_slice_keeps_the_table(loader: TableLoader, warehouse: Warehouse, numbers: Scan) -> None:
    loader.load_all_rows(PLACE, numbers, *PLAIN)
    with pytest.raises(WarehouseError):
        loader.load_first_slice(PLACE, Scan("read_csv", numbers.path, {"types": {"text": "INTEGER"}}), 2, *PLAIN)
    assert values(warehouse) == list(range(10))
    assert tables(warehouse) == ["things"]


def test_slices_have_the_types_of_the_whole_file(loader: TableLoader, warehouse: Warehouse, tmp_path: Path) -> None:
    file = tmp_path / "late.csv"
    file.write_text("n\n" + "1\n" * 30_000 + "x\n")
    assert loader.load_first_slice(PLACE, Scan("read_csv", file), 10, *PLAIN) == Slice(10, is_last=False)
    # The setting was removed between the slices.
    assert loader.load_next_slice(PLACE, 10, None, *PLAIN) == Slice(29_991, is_last=True)
    assert values(warehouse)[-1] == "x"


def test_excluded_and_hashed_columns(loader: TableLoader, warehouse: Warehouse, numbers: Scan) -> None:
    with pytest.raises(WarehouseError, match="No column would be left"):
        loader.load_all_rows(PLACE, numbers, LoadOptions(Selection(excluded=["N", "text"])), FACTS)
    # Column names can contain any characters.
    odd = 'a"; DROP TABLE x; --'
    numbers.paths[0].write_text(f'"{odd.replace(chr(34), chr(34) * 2)}",b\n1,2\n')
    loader.load_all_rows(PLACE, numbers, LoadOptions(Selection(["B"], [odd], substreams=["gone"])), FACTS)
    assert [(column.name, column.type) for column in warehouse.columns(f"FROM {PLACE.sql}")] == [(odd, "VARCHAR")]


def test_the_shape_of_a_table_during_a_load(loader: TableLoader, warehouse: Warehouse, numbers: Scan) -> None:
    assert loader.shape(PLACE) is None
    loader.load_all_rows(PLACE, numbers, LoadOptions(Selection(hashed=["TEXT"])), FACTS)
    columns = [("n", "BIGINT", False), ("text", "VARCHAR", True)]
    with warehouse.cursor() as cursor:
        cursor.execute(f"BEGIN; CREATE OR REPLACE TABLE {PLACE.sql} AS SELECT 1 AS other")
        assert loader.shape(PLACE) == (columns, 10)
        cursor.execute("ROLLBACK")


def test_query_results_keep_types(loader: TableLoader, warehouse: Warehouse, numbers: Scan, tmp_path: Path) -> None:
    query = "SELECT sum(n) AS n, list(text) AS texts, INTERVAL 1 DAY AS day, NULL::UUID AS id FROM numbers"
    file = tmp_path / "it's.duckdb"
    sandbox.store(warehouse, query, {"numbers": SandboxTable(numbers, Selection())}, file)
    assert loader.load_all_rows(PLACE, Stored(file), *PLAIN) == 1
    types = [column.type for column in warehouse.columns(f"FROM {PLACE.sql}")]
    assert types == ["HUGEINT", "VARCHAR[]", "INTERVAL", "UUID"]
    assert values(warehouse) == [45]
    assert fetched(warehouse, "SELECT count(*) FROM duckdb_databases() WHERE NOT internal") == [1]


@pytest.mark.parametrize(
    "query",
    [
        "FROM '{0}'",
        "FROM read_text('{0}')",
        "FROM read_csv('http://127.0.0.1:1/x.csv')",
        "SELECT text FROM numbers",
        "FROM raw.things",
        "WITH c AS (COPY (SELECT 1 AS n) TO '{0}' (USE_TMP_FILE false)) FROM c",
        "SELECT n FROM numbers, (WITH c AS (COPY (SELECT 1 AS n) TO '{0}' (USE_TMP_FILE false)) FROM c)",
        "WITH c AS (INSERT INTO numbers VALUES (1, 'x') RETURNING *) FROM c",
        "WITH c AS (CREATE TABLE x AS SELECT 1 AS n) FROM c",
    ],
)
def test_a_sandbox_has_its_tables_only(warehouse: Warehouse, numbers: Scan, tmp_path: Path, query: str) -> None:
    allowed = {"Numbers": SandboxTable(numbers, Selection(excluded=["text"]))}
    assert sandbox.columns(warehouse, "SELECT * FROM nUMBERS", allowed) == [("n", "BIGINT")]
    before, text = numbers.paths[0].read_text(), query.format(numbers.path)
    with pytest.raises(WarehouseError):
        sandbox.columns(warehouse, text, allowed)
    with pytest.raises(WarehouseError):
        sandbox.store(warehouse, text, allowed, tmp_path / "never.duckdb")
    assert numbers.paths[0].read_text() == before
    if "WITH c" in query:
        assert not (tmp_path / "never.duckdb").exists()
        with pytest.raises(WarehouseError):
            sandbox.tables_named(text)


def test_a_query_reads_the_late_types_of_a_file(loader: TableLoader, warehouse: Warehouse, tmp_path: Path) -> None:
    file, result = tmp_path / "late.jsonl", tmp_path / "result.duckdb"
    file.write_text('{"n": 1}\n' * 25_000 + '{"n": "x", "new": 1}\n')
    late = {"late": SandboxTable(Scan("read_json", file, {"format": "newline_delimited"}), Selection())}
    sandbox.store(warehouse, "SELECT count(*) + sum(new) AS n FROM late", late, result)
    assert loader.load_all_rows(PLACE, Stored(result), *PLAIN) == 1
    assert values(warehouse) == [25_002]


def test_a_sandbox_can_be_interrupted(warehouse: Warehouse) -> None:
    warehouse.interrupt()
    with pytest.raises(WarehouseError, match="stopping"):
        sandbox.columns(warehouse, "SELECT 1 AS a", {})
    warehouse.resume()
    assert sandbox.columns(warehouse, "SELECT 1 AS a", {}) == [("a", "INTEGER")]


def test_tables_of_a_query_are_found() -> None:
    assert sandbox.tables_named("WITH x AS (FROM a) SELECT * FROM x JOIN B USING (c)") == {"a", "B", "x"}
    for refused in ("SELECT 1; SELECT 2", "DROP TABLE a", "", "\0", "x" * 1_000_000, "SELECT FROM FROM"):
        with pytest.raises(WarehouseError):
            sandbox.tables_named(refused)


def test_duckdb_numbers_the_rows_of_a_new_table_from_0(tmp_path: Path) -> None:
    """Assumption of slices, also in the next process."""
    file = str(tmp_path / "rows.duckdb")
    with duckdb.connect(file, config={"preserve_insertion_order": False}) as made:
        made.execute("CREATE TABLE t AS SELECT range AS n FROM range(300_000) ORDER BY hash(range)")
        before = made.execute("SELECT rowid, n FROM t ORDER BY rowid").fetchall()
    with duckdb.connect(file) as again:
        assert again.execute("SELECT rowid, n FROM t ORDER BY rowid").fetchall() == before
    assert [row[0] for row in before] == list(range(300_000))
