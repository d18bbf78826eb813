"""Files whose rows are of other types than the first ones said, or than those of the table: no row is lost for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from datapipe_local.loading.increment import OutdatedError
from datapipe_local.loading.manner import Manner, Run
from datapipe_local.loads import Loads, Told
from datapipe_local.sources.base import Need
from datapipe_local.sources.files import FilesSource
from datapipe_local.warehouse import Place, Scan, Warehouse, WarehouseError

PLACE = Place("raw", "things")
HISTORY = Place("raw", "things_history")
MERGED = Manner(pointer="at", key=("id",))
#: More rows than DuckDB looks at to infer their types.
MANY = 25_000


def lines(*rows: Any) -> str:
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


class Stream:
    """A file that is loaded again and again."""

    def __init__(self, folder: Path, warehouse: Warehouse, name: str, manner: Manner) -> None:
        self._folder, self._warehouse, self._name, self._manner = folder, warehouse, name, manner
        self._runs = 0

    def load(self, content: str) -> int:
        (self._folder / self._name).write_text(content)
        self._runs += 1
        told = Told(Run(f"run{self._runs}", f"2026-01-01T00:00:{self._runs:02}"), 0, "FULL", "NONE")
        loads = Loads(self._warehouse)
        load = loads.added if self._manner.pointer and self._runs > 1 else loads.whole
        source = FilesSource({"path": str(self._folder)})
        with source.fetch({"file": self._name}, self._warehouse.scratch, Need()) as fetched:
            return load(PLACE, fetched.scan, self._manner, told)

    def rows(self, columns: str = "*", place: Place = PLACE) -> list[tuple[Any, ...]]:
        with self._warehouse.cursor() as cursor:
            return cursor.execute(f"SELECT {columns} FROM {place.sql} ORDER BY ALL").fetchall()  # noqa: S608

    def type_of(self, column: str) -> str:
        return next(one.type for one in self._warehouse.columns(f"FROM {PLACE.sql}") if one.name == column)


@pytest.fixture
def csv(tmp_path: Path, warehouse: Warehouse) -> Stream:
    return Stream(tmp_path, warehouse, "things.csv", MERGED)


@pytest.fixture
def jsonl(tmp_path: Path, warehouse: Warehouse) -> Stream:
    return Stream(tmp_path, warehouse, "things.jsonl", MERGED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "late", "expected"),
    [
        ({"a": 1}, {"a": "x"}, ['"x"']),
        ({"a": "2026-01-01"}, {"a": "soon"}, ["soon"]),
        ({"a": 1}, {"a": {"b": 1}}, ['{"b":1}']),
        ({}, {"a": 5}, [5]),
    ],
    ids=["text", "no day", "nested", "new"],
)
def test_later_lines_are_of_another_type(jsonl: Stream, first: Any, late: Any, expected: list[Any]) -> None:
    rows = [{"id": number, "at": 1, **first} for number in range(MANY)]
    assert jsonl.load(lines(*rows, {"id": MANY, "at": 1, **late})) == MANY + 1
    assert jsonl.rows(f"id, a FROM {PLACE.sql} WHERE id = {MANY} --") == [(MANY, *expected)]
    # So it is as well with what is new.
    assert jsonl.load(lines(*rows, {"id": MANY + 1, "at": 2, **late})) == 1


def test_text_among_other_values_is_the_same_text_in_each_run(jsonl: Stream) -> None:
    jsonl.load(lines({"id": 1, "at": 1, "a": "x"}))
    # Of several kinds, these are JSON to DuckDB.
    assert (
        jsonl.load(lines({"id": 2, "at": 2, "a": 'it\'s "y"'}, {"id": 3, "at": 2, "a": [1]}, {"id": 4, "at": 2})) == 3
    )
    assert jsonl.rows("a") == [("[1]",), ('it\'s "y"',), ("x",), (None,)]


@pytest.mark.slow
def test_rows_with_very_many_fields_have_as_many_columns(jsonl: Stream) -> None:
    wide = {f"c{number}": number for number in range(400)}
    assert jsonl.load(lines({"id": 1, "at": 1, **wide}, {"id": 2, "at": 1, "c399": 1})) == 2
    assert jsonl.rows("id, c0, c399") == [(1, 0, 399), (2, None, 1)]
    # Where it is a value, it stays one.
    jsonl.load(lines({"id": 3, "at": 3, "m": wide}))
    assert jsonl.type_of("m").startswith("MAP(")


def test_days_that_are_written_in_several_ways_are_text(csv: Stream) -> None:
    assert csv.load("id,at,day,big\n1,1,2026-01-02,1\n2,2,03/04/2026,99999999999999999999999999999999999999999\n") == 2
    assert csv.rows("id, day, big::VARCHAR") == [
        (1, "2026-01-02", "1"),
        (2, "03/04/2026", "99999999999999999999999999999999999999999"),
    ]


def test_a_file_without_a_row_takes_nothing_away(csv: Stream) -> None:
    csv.load("id,at\n1,1\n")
    # A column without a value is text to DuckDB; that is no other kind of pointer.
    assert csv.load("id,at\n") == 0
    assert csv.load("id,at\n1,\n") == 1
    assert csv.load("id,at\n2,2\n") == 1
    assert csv.rows() == [(1, None), (2, 2)]


@pytest.mark.parametrize("first", ["id,at\n", "id,at\n1,\n"])
def test_a_table_without_a_pointer_takes_any(csv: Stream, first: str) -> None:
    csv.load(first)
    assert csv.load("id,at\n1,1\n2,2\n") == 2
    assert csv.rows() == [(1, 1), (2, 2)]
    with pytest.raises(OutdatedError, match="was BIGINT, and is VARCHAR"):
        csv.load("id,at\n3,soon\n")


@pytest.mark.parametrize(
    "number", ["9007199254740993", "18446744073709551615", "99999999999999999999999999999999999999999"]
)
def test_numbers_that_would_become_others_become_text(csv: Stream, number: str) -> None:
    csv.load(f"id,at,n\n1,1,{number}\n")
    csv.load("id,at,n\n2,2,0.5\n")
    assert csv.rows("id, n") == [(1, number), (2, "0.5")]


def test_decimals_that_would_become_others_become_text(jsonl: Stream, warehouse: Warehouse) -> None:
    jsonl.load(lines({"id": 1, "at": 1, "n": 1, "m": 1}))
    exact = "1234567890123456789.01"
    with warehouse.cursor() as cursor:
        for name, value in (("n", exact), ("m", "0.10")):
            cursor.execute(f"ALTER TABLE {PLACE.sql} ALTER {name} TYPE DECIMAL(30, 2) USING '{value}'")
    jsonl.load(lines({"id": 2, "at": 2, "n": 0.5, "m": 0.5}))
    assert jsonl.rows("id, n, m") == [(1, exact, 0.1), (2, "0.5", 0.5)]


def test_a_history_takes_a_list_for_a_structure(tmp_path: Path, warehouse: Warehouse) -> None:
    stream = Stream(tmp_path, warehouse, "things.jsonl", Manner(keeps_history=True))
    for value in ({"a": 1}, {"a": 1, "b": 2}, [1], "text"):
        assert stream.load(lines({"id": 1, "x": value})) == 1
    assert stream.rows("x, valid_to IS NULL", HISTORY) == [
        ("[1]", False),
        ("text", True),
        ('{"a":1,"b":2}', False),
        ('{"a":1,"b":null}', False),
    ]


def test_no_name_of_a_column_stands_in_the_way(tmp_path: Path, warehouse: Warehouse) -> None:
    stream = Stream(tmp_path, warehouse, "things.jsonl", Manner(pointer="at"))
    names = ("_", "__", "__number__", "__fresh__", "f", "k", "t", "n", "range", "rowid")
    row = dict.fromkeys(names, 1)
    stream.load(lines({"at": 1, **row}))
    assert stream.load(lines({"at": 1, **row}, {"at": 1, **row}, {"at": 2, **row})) == 2
    assert len(stream.rows()) == 3


def test_a_file_replaced_while_it_is_read_is_not_mixed(tmp_path: Path, warehouse: Warehouse) -> None:
    file = tmp_path / "things.csv"
    file.write_text("id,name\n1,2\n")
    source, loads = FilesSource({"path": str(tmp_path)}), Loads(warehouse)
    told = Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE")

    def load(meanwhile: Callable[[], object]) -> int:
        with source.fetch({"file": file.name}, warehouse.scratch, Need()) as fetched:
            meanwhile()
            return loads.whole(PLACE, fetched.scan, Manner(), told)

    def grow() -> None:
        with file.open("a") as more:
            more.write("2,3\n")

    # What is added to it is there, or not yet.
    assert load(grow) == 2
    other = tmp_path / "other.csv"
    other.write_text("name,id\n8,9\n10,11\n12,13\n")
    for change in (lambda: other.replace(file), lambda: file.write_text("id\n")):
        with pytest.raises(WarehouseError, match="was replaced while it was read: run it again"):
            load(change)
        with warehouse.cursor() as cursor:
            assert cursor.execute(f"SELECT id, name FROM {PLACE.sql} ORDER BY id").fetchall() == [(1, 2), (2, 3)]  # noqa: S608
    scan = Scan("read_csv", file).stamped()
    file.unlink()
    with pytest.raises(WarehouseError, match="was taken away while it was read"):
        scan.check()


def test_what_is_text_in_the_table_stays_the_same_text(csv: Stream) -> None:
    csv.load("id,at,version\nx,a,1.50\n1.50,b,beta\n")
    # To DuckDB these are numbers and days, the pointer among them.
    assert csv.load("id,at,version\n1.50,2026-01-01,2.0\n2.50,c,03\n") == 1
    assert csv.load("id,version,at\n1.50,2.50,2099-01-01\n07,2.50,2099-01-01\n") == 0
    assert csv.load("id,version,AT\n1.50,2.50,d\n") == 1
    assert csv.rows() == [("1.50", "d", "2.50"), ("2.50", "c", "03"), ("x", "a", "1.50")]


def test_truth_among_numbers_is_text(tmp_path: Path, warehouse: Warehouse) -> None:
    (tmp_path / "1.csv").write_text("id,x\n1,1\n")
    (tmp_path / "2.csv").write_text("id,x\n2,true\n")
    told = Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE")
    with FilesSource({"path": str(tmp_path)}).fetch({"files": "*.csv"}, warehouse.scratch, Need()) as fetched:
        assert Loads(warehouse).whole(PLACE, fetched.scan, Manner(), told) == 2
    with warehouse.cursor() as cursor:
        assert cursor.execute(f"SELECT id, x FROM {PLACE.sql} ORDER BY id").fetchall() == [(1, "1"), (2, "true")]  # noqa: S608


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
def test_files_of_a_folder_are_of_several_types(
    tmp_path: Path, warehouse: Warehouse, other: str, expected: list[str | None]
) -> None:
    for name, value in (("1", "5"), ("2", other)):
        duckdb.execute(f"COPY (SELECT {value} AS x, {name} AS id) TO '{tmp_path / name}.parquet'")
    told = Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE")
    with FilesSource({"path": str(tmp_path)}).fetch({"files": "*.parquet"}, warehouse.scratch, Need()) as fetched:
        assert Loads(warehouse).whole(PLACE, fetched.scan, Manner(), told) == 2
    with warehouse.cursor() as cursor:
        found = cursor.execute(f"SELECT CAST(x AS VARCHAR) FROM {PLACE.sql} ORDER BY ALL").fetchall()  # noqa: S608
    assert [value for (value,) in found] == expected
