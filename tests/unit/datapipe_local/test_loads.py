"""Loading into the warehouse: slices that are done again, columns that are left out or hashed, results in files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import duckdb
import pytest

from datapipe_local import sandbox
from datapipe_local.loading.columns import ColumnsError
from datapipe_local.loading.manner import Manner, Run
from datapipe_local.loading.readable import Selection, Stored
from datapipe_local.loads import Loads, Slice, Told
from datapipe_local.sandbox import SandboxTable
from datapipe_local.warehouse import Place, Scan, Warehouse, WarehouseError

PLACE = Place("raw", "things")
WHOLE = Selection()
#: A load like any other.
PLAIN = (Manner(), Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE"))


@pytest.fixture
def numbers(tmp_path: Path) -> Scan:
    file = tmp_path / "numbers.csv"
    file.write_text("n,text\n" + "".join(f"{n},t{n}\n" for n in range(10)))
    return Scan("read_csv", file)


def values(warehouse: Warehouse, column: str = "n") -> list[Any]:
    with warehouse.cursor() as cursor:
        return [row[0] for row in cursor.execute(f"SELECT {column} FROM {PLACE.sql} ORDER BY 1").fetchall()]  # noqa: S608


def tables(warehouse: Warehouse) -> list[str]:
    with warehouse.cursor() as cursor:
        return [row[0] for row in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()]


def test_slices_add_up(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    assert loads.first_slice(PLACE, numbers, 4, *PLAIN) == Slice(4, is_last=False)
    first = values(warehouse)
    assert len(first) == 4
    assert loads.next_slice(PLACE, 4, 4, *PLAIN) == Slice(4, is_last=False)
    assert set(first) < set(values(warehouse))
    assert loads.next_slice(PLACE, 8, 4, *PLAIN) == Slice(2, is_last=True)
    assert values(warehouse) == list(range(10))
    assert tables(warehouse) == ["things"]


@pytest.mark.parametrize(("size", "slices"), [(10, 1), (11, 1), (5, 2), (1, 10), (9, 2)])
def test_the_last_slice_is_known(warehouse: Warehouse, numbers: Scan, size: int, slices: int) -> None:
    loads = Loads(warehouse)
    done = [loads.first_slice(PLACE, numbers, size, *PLAIN)]
    while not done[-1].is_last:
        done.append(loads.next_slice(PLACE, sum(one.rows for one in done), size, *PLAIN))
    assert (len(done), sum(one.rows for one in done), values(warehouse)) == (slices, 10, list(range(10)))


def test_a_slice_is_done_again_and_adds_nothing_twice(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    # Killed after the table was changed, and before that was noted: each slice comes twice.
    for _ in range(2):
        assert loads.first_slice(PLACE, numbers, 4, *PLAIN) == Slice(4, is_last=False)
        assert len(values(warehouse)) == 4
    for start, size, is_last in ((4, 4, False), (8, 2, True)):
        for _ in range(2):
            assert loads.next_slice(PLACE, start, 4, *PLAIN) == Slice(size, is_last)
            assert len(set(values(warehouse))) == len(values(warehouse)) == start + size


def test_a_table_that_somebody_changed_is_not_added_to(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    loads.first_slice(PLACE, numbers, 4, *PLAIN)
    with warehouse.cursor() as cursor:
        cursor.execute(f"DELETE FROM {PLACE.sql} WHERE n IN (SELECT min(n) FROM {PLACE.sql})")  # noqa: S608
    with pytest.raises(WarehouseError, match="3 rows"):
        loads.next_slice(PLACE, 4, 4, *PLAIN)


def test_a_bound_that_has_gone_leaves_one_slice(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    loads.first_slice(PLACE, numbers, 2, *PLAIN)
    assert loads.next_slice(PLACE, 2, None, *PLAIN) == Slice(8, is_last=True)
    assert values(warehouse) == list(range(10))


def test_a_first_slice_replaces_what_was_left(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    loads.first_slice(PLACE, numbers, 6, *PLAIN)
    numbers.paths[0].write_text("n,text\n7,a\n8,b\n9,c\n")
    assert loads.first_slice(PLACE, numbers, 2, *PLAIN) == Slice(2, is_last=False)
    assert loads.next_slice(PLACE, 2, 2, *PLAIN) == Slice(1, is_last=True)
    assert values(warehouse) == [7, 8, 9]


def test_a_first_slice_that_fails_leaves_the_table(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    loads.whole(PLACE, numbers, *PLAIN)
    with pytest.raises(WarehouseError):
        loads.first_slice(PLACE, Scan("read_csv", numbers.path, {"types": {"text": "INTEGER"}}), 2, *PLAIN)
    assert values(warehouse) == list(range(10))
    assert tables(warehouse) == ["things"]


@pytest.mark.parametrize("slices", [False, True])
def test_types_come_from_the_whole_file_if_need_be(warehouse: Warehouse, tmp_path: Path, slices: bool) -> None:
    file = tmp_path / "late.csv"
    file.write_text("n\n" + "1\n" * 30_000 + "x\n")
    loads, scan = Loads(warehouse), Scan("read_csv", file)
    if slices:
        assert loads.first_slice(PLACE, scan, 10, *PLAIN) == Slice(10, is_last=False)
        assert loads.next_slice(PLACE, 10, None, *PLAIN) == Slice(29_991, is_last=True)
    else:
        assert loads.whole(PLACE, scan, *PLAIN) == 30_001
    assert values(warehouse)[-1] == "x"


def test_columns_are_left_out_and_hashed(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    loads.whole(PLACE, numbers, Manner(Selection(["N"], ["Text"], substreams=["gone"])), PLAIN[1])
    assert [column.name for column in warehouse.columns(f"FROM {PLACE.sql}")] == ["text"]
    assert set(values(warehouse, "text")) == {hashlib.sha256(f"t{n}".encode()).hexdigest() for n in range(10)}
    with pytest.raises(WarehouseError, match="No column would be left"):
        loads.whole(PLACE, numbers, Manner(Selection(excluded=["N", "text"])), PLAIN[1])
    for missing in (Selection(excluded=["n", "gone"]), Selection(hashed=["text", "gone"])):
        with pytest.raises(ColumnsError, match="has no column 'gone', which is protected"):
            loads.whole(PLACE, numbers, Manner(missing), PLAIN[1])
    # A name is a name, whatever is in it.
    odd = 'a"; DROP TABLE x; --'
    numbers.paths[0].write_text(f'"{odd.replace(chr(34), chr(34) * 2)}",b\n1,2\n')
    accepting = PLAIN[1]._replace(accepts_columns=True)
    loads.whole(PLACE, numbers, Manner(Selection(hashed=[odd])), accepting)
    assert [column.name for column in warehouse.columns(f"FROM {PLACE.sql}")] == [odd, "b"]


def test_the_shape_of_a_table_during_a_load(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    assert loads.shape(PLACE) is None
    loads.whole(PLACE, numbers, Manner(Selection(hashed=["TEXT"])), PLAIN[1])
    columns = [("n", "BIGINT", False), ("text", "VARCHAR", True)]
    with warehouse.cursor() as cursor:
        cursor.execute(f"BEGIN; CREATE OR REPLACE TABLE {PLACE.sql} AS SELECT 1 AS other")
        assert loads.shape(PLACE) == (columns, 10)
        cursor.execute("ROLLBACK")


def test_dropping_takes_what_was_put_by(warehouse: Warehouse, numbers: Scan) -> None:
    loads = Loads(warehouse)
    loads.first_slice(PLACE, numbers, 4, *PLAIN)
    loads.drop(PLACE)
    assert tables(warehouse) == []
    loads.drop(PLACE)


def test_a_stored_result_keeps_its_types(warehouse: Warehouse, numbers: Scan, tmp_path: Path) -> None:
    query = "SELECT sum(n) AS n, list(text) AS texts, INTERVAL 1 DAY AS day, NULL::UUID AS id FROM numbers"
    file = tmp_path / "it's.duckdb"
    sandbox.store(warehouse, query, {"numbers": SandboxTable(numbers, WHOLE)}, file)
    assert Loads(warehouse).whole(PLACE, Stored(file), *PLAIN) == 1
    types = [column.type for column in warehouse.columns(f"FROM {PLACE.sql}")]
    assert types == ["HUGEINT", "VARCHAR[]", "INTERVAL", "UUID"]
    assert values(warehouse) == [45]
    with warehouse.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM duckdb_databases() WHERE NOT internal").fetchall() == [(1,)]


def test_a_sandbox_has_what_it_is_given_and_nothing_else(warehouse: Warehouse, numbers: Scan, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    tables = {"Numbers": SandboxTable(numbers, Selection(excluded=["text"]))}
    assert sandbox.columns(warehouse, "SELECT * FROM nUMBERS", tables) == [("n", "BIGINT")]
    for query in (
        f"FROM '{tmp_path}/secret.csv'",
        f"FROM read_text('{tmp_path}/*')",
        "FROM read_csv('http://127.0.0.1:1/x.csv')",
        "SELECT text FROM numbers",
        "FROM raw.things",
    ):
        with pytest.raises(WarehouseError):
            sandbox.columns(warehouse, query, tables)
        with pytest.raises(WarehouseError):
            sandbox.store(warehouse, query, tables, tmp_path / "never.duckdb")


def test_a_query_does_not_write_what_it_may_read(warehouse: Warehouse, numbers: Scan, tmp_path: Path) -> None:
    before = numbers.paths[0].read_text()
    tables = {"numbers": SandboxTable(numbers, WHOLE)}
    for query in (
        "WITH c AS (COPY (SELECT 1 AS n) TO '{}' (USE_TMP_FILE false)) FROM c",
        "SELECT n FROM numbers, (WITH c AS (COPY (SELECT 1 AS n) TO '{}' (USE_TMP_FILE false)) FROM c)",
        "WITH c AS (INSERT INTO numbers VALUES (1, 'x') RETURNING *) FROM c",
        "WITH c AS (CREATE TABLE x AS SELECT 1 AS n) FROM c",
        "SELECT n FROM read_csv('{}')",
    ):
        said = query.format(numbers.path)
        with pytest.raises(WarehouseError):
            sandbox.tables_named(said)
        with pytest.raises(WarehouseError):
            sandbox.columns(warehouse, said, tables)
        with pytest.raises(WarehouseError):
            sandbox.store(warehouse, said, tables, tmp_path / "never.duckdb")
        assert numbers.paths[0].read_text() == before
        assert not (tmp_path / "never.duckdb").exists()


def test_a_query_meets_what_only_later_lines_say(warehouse: Warehouse, tmp_path: Path) -> None:
    file, result = tmp_path / "late.jsonl", tmp_path / "result.duckdb"
    file.write_text('{"n": 1}\n' * 25_000 + '{"n": "x", "new": 1}\n')
    scan = Scan("read_json", file, {"format": "newline_delimited"})
    sandbox.store(
        warehouse, "SELECT count(*) AS n, sum(new) AS text FROM late", {"late": SandboxTable(scan, WHOLE)}, result
    )
    assert Loads(warehouse).whole(PLACE, Stored(result), *PLAIN) == 1
    assert (values(warehouse), values(warehouse, "text")) == ([25_001], [1])


def test_a_sandbox_can_be_interrupted(warehouse: Warehouse) -> None:
    warehouse.interrupt()
    with pytest.raises(WarehouseError, match="stopping"):
        sandbox.columns(warehouse, "SELECT 1 AS a", {})
    warehouse.resume()
    assert sandbox.columns(warehouse, "SELECT 1 AS a", {}) == [("a", "INTEGER")]


def test_the_tables_that_a_query_names() -> None:
    assert sandbox.tables_named("WITH x AS (FROM a) SELECT * FROM x JOIN B USING (c)") == {"a", "B", "x"}
    for refused in ("SELECT 1; SELECT 2", "DROP TABLE a", "", "\0", "x" * 1_000_000, "SELECT FROM FROM"):
        with pytest.raises(WarehouseError):
            sandbox.tables_named(refused)


def test_duckdb_numbers_the_rows_of_a_table_as_slices_need_it(tmp_path: Path) -> None:
    """Assumption of slices: rows of a table that is created at once are numbered from 0, also in the next process."""
    file = str(tmp_path / "rows.duckdb")
    with duckdb.connect(file, config={"preserve_insertion_order": False}) as made:
        made.execute("CREATE TABLE t AS SELECT range AS n FROM range(300_000) ORDER BY hash(range)")
        before = made.execute("SELECT rowid, n FROM t ORDER BY rowid").fetchall()
    with duckdb.connect(file) as again:
        assert again.execute("SELECT rowid, n FROM t ORDER BY rowid").fetchall() == before
    assert [row[0] for row in before] == list(range(300_000))
