"""Files become tables: every format, zipped or not, and what can be wrong with them."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import ValidationError

from datapipe_local.errors import RunError
from datapipe_local.loading.manner import Manner, Run
from datapipe_local.loads import Loads, Told
from datapipe_local.sources.base import Need, SourceError
from datapipe_local.sources.files import FileOrigin, FilesSource
from datapipe_local.warehouse import Place, Warehouse, WarehouseError

PLACE = Place("raw", "things")
#: A load like any other.
PLAIN = (Manner(), Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE"))
ROWS = [(1, "one", None), (2, "two", 2.5)]


def write_csv(path: Path) -> None:
    path.write_text("id,name,score\n1,one,\n2,two,2.5\n")


def write_jsonl(path: Path) -> None:
    lines = [{"id": 1, "name": "one", "score": None}, {"id": 2, "name": "two", "score": 2.5}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_parquet(path: Path) -> None:
    rows = "(VALUES (1, 'one', NULL), (2, 'two', 2.5)) AS t (id, name, score)"
    duckdb.execute(f"COPY (FROM {rows}) TO '{path}' (FORMAT parquet)")


WRITERS = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}


def zip_up(path: Path, *members: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.write(path.with_name("plain"), member)


@contextmanager
def loaded(tmp_path: Path, warehouse: Warehouse, **origin: Any) -> Iterator[int]:
    source = FilesSource({"path": str(tmp_path)})
    with source.fetch(FileOrigin(**origin).model_dump(exclude_none=True), tmp_path / "scratch", Need()) as fetched:
        yield Loads(warehouse).whole(PLACE, fetched.scan, *PLAIN)
    # Nothing that was unpacked is left.
    assert list((tmp_path / "scratch").glob("tmp*")) == []


def rows_of(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    columns = [column.name for column in warehouse.columns(f"FROM {PLACE.sql}")]
    return sorted(row for batch in warehouse.distinct_rows(PLACE, columns, [], 100) for row in batch)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_becomes_a_table(tmp_path: Path, warehouse: Warehouse, kind: str, zipped: bool) -> None:
    name = f"things.{kind}"
    if zipped:
        WRITERS[kind](tmp_path / "plain")
        zip_up(tmp_path / f"{name}.zip", name)
        name += ".zip"
    else:
        WRITERS[kind](tmp_path / name)
    with loaded(tmp_path, warehouse, file=name) as rows:
        assert rows == 2
    assert rows_of(warehouse) == ROWS


def test_the_format_can_be_given(tmp_path: Path, warehouse: Warehouse) -> None:
    write_csv(tmp_path / "things.dat")
    with loaded(tmp_path, warehouse, file="things.dat", format="csv") as rows:
        assert rows == 2


def test_options_go_to_the_reader(tmp_path: Path, warehouse: Warehouse) -> None:
    (tmp_path / "things.csv").write_text("# made by hand\nid;it's\n1;NA\n2;'x'\n")
    options = {"delim": ";", "skip": 1, "nullstr": ["NA"], "quote": "'", "types": {"id": "VARCHAR"}}
    with loaded(tmp_path, warehouse, file="things.csv", options=options) as rows:
        assert rows == 2
    assert rows_of(warehouse) == [("1", None), ("2", "x")]


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ({"file": "a.xlsx"}, "format"),
        ({"file": "/etc/passwd", "format": "csv"}, "within"),
        ({"file": "../a.csv"}, "within"),
        ({"file": "a.csv", "options": {"ignore_errors": True}}, "ignore_errors"),
        ({"file": "a.csv", "options": {"skip": "1"}}, "skip"),
        ({"file": "a.jsonl", "options": {"delim": ","}}, "delim"),
        ({"file": "a.csv", "folder": "x"}, "folder"),
    ],
)
def test_what_a_stream_may_not_say(origin: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        FileOrigin.model_validate(origin)


def test_a_type_that_only_later_rows_contradict(tmp_path: Path, warehouse: Warehouse) -> None:
    (tmp_path / "things.csv").write_text("id,code\n" + "".join(f"{n},{n}\n" for n in range(60_000)) + "60000,A1\n")
    with loaded(tmp_path, warehouse, file="things.csv") as rows:
        assert rows == 60_001
    assert [column.type for column in warehouse.columns(f"FROM {PLACE.sql}")] == ["BIGINT", "VARCHAR"]


def test_a_name_that_looks_like_a_pattern(tmp_path: Path, warehouse: Warehouse) -> None:
    write_csv(tmp_path / "a[1]*.csv")
    (tmp_path / "a1x.csv").write_text("other\nfile\n")
    with loaded(tmp_path, warehouse, file="a[1]*.csv") as rows:
        assert rows == 2
    assert rows_of(warehouse) == ROWS


def test_a_reload_adds_and_removes_columns(tmp_path: Path, warehouse: Warehouse) -> None:
    write_csv(tmp_path / "things.csv")
    with loaded(tmp_path, warehouse, file="things.csv"):
        pass
    (tmp_path / "things.csv").write_text("id,other\n7,x\n")
    with loaded(tmp_path, warehouse, file="things.csv") as rows:
        assert rows == 1
    assert rows_of(warehouse) == [(7, "x")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00" * 500, "line 1: the line is not UTF-8"),
    ],
)
def test_a_broken_file_leaves_the_table_as_it_was(
    tmp_path: Path, warehouse: Warehouse, content: bytes, said: str
) -> None:
    write_csv(tmp_path / "things.csv")
    with loaded(tmp_path, warehouse, file="things.csv"):
        pass
    (tmp_path / "things.csv").write_bytes(content)
    with (
        pytest.raises((RunError, WarehouseError), match=said) as failure,
        loaded(tmp_path, warehouse, file="things.csv"),
    ):
        pass
    assert "\n" not in str(failure.value)
    assert rows_of(warehouse) == ROWS


@pytest.mark.parametrize("name", ["things.parquet", "things.jsonl"])
def test_a_file_of_another_kind_than_its_name_says(tmp_path: Path, warehouse: Warehouse, name: str) -> None:
    (tmp_path / name).write_bytes(os.urandom(2_000))
    with pytest.raises(WarehouseError) as failure, loaded(tmp_path, warehouse, file=name):
        pass
    assert "\n" not in str(failure.value)


def test_a_file_that_is_not_there(tmp_path: Path, warehouse: Warehouse) -> None:
    with (
        pytest.raises(RunError, match=r"things\.csv does not exist: put it there"),
        loaded(tmp_path, warehouse, file="things.csv"),
    ):
        pass


@pytest.mark.parametrize("members", [[], ["a.csv", "b.csv"]])
def test_an_archive_of_no_or_several_files(tmp_path: Path, warehouse: Warehouse, members: list[str]) -> None:
    write_csv(tmp_path / "plain")
    zip_up(tmp_path / "things.csv.zip", *members)
    with (
        pytest.raises(RunError, match=f"holds {len(members)} files"),
        loaded(tmp_path, warehouse, file="things.csv.zip"),
    ):
        pass


def test_the_folder_that_macos_adds_does_not_count(tmp_path: Path, warehouse: Warehouse) -> None:
    write_csv(tmp_path / "plain")
    zip_up(tmp_path / "things.csv.zip", "data/things.csv", "__MACOSX/data/._things.csv")
    with loaded(tmp_path, warehouse, file="things.csv.zip") as rows:
        assert rows == 2


def test_an_archive_that_is_none(tmp_path: Path, warehouse: Warehouse) -> None:
    (tmp_path / "things.csv.zip").write_bytes(b"PK nonsense")
    with pytest.raises(RunError, match="cannot be unpacked"), loaded(tmp_path, warehouse, file="things.csv.zip"):
        pass


def test_an_archive_with_a_damaged_member(tmp_path: Path, warehouse: Warehouse) -> None:
    (tmp_path / "plain").write_bytes(os.urandom(100_000))
    zip_up(tmp_path / "things.csv.zip", "things.csv")
    damaged = bytearray((tmp_path / "things.csv.zip").read_bytes())
    damaged[50_000:50_100] = bytes(100)
    (tmp_path / "things.csv.zip").write_bytes(bytes(damaged))
    with pytest.raises(RunError, match="cannot be unpacked"), loaded(tmp_path, warehouse, file="things.csv.zip"):
        pass


def offers(folder: Path) -> dict[str, tuple[str, bool]]:
    return {
        offer.name: (offer.origin["file"], offer.is_selectable) for offer in FilesSource({"path": str(folder)}).offers()
    }


def test_files_are_offered_by_names_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    assert offers(folder) == {}
    for name in (
        *("a.csv", "a.tsv", "A.jsonl", "2024 Sales.csv.zip", "WeeklySpend.parquet", "my.data.ndjson"),
        *(".hidden.csv", "notes.txt", "\u65e5\u672c.csv", "a\nb.csv", "x" * 100 + ".csv"),
    ):
        (folder / name).write_text("x")
    (folder / os.fsdecode(b"\xff.csv")).write_text("x")
    (folder / "folder.csv").mkdir()
    (folder / "nowhere.csv").symlink_to(folder / "nothing")
    assert offers(folder) == {
        "a": ("A.jsonl", True),
        "a_csv": ("a.csv", True),
        "a_2": ("a.tsv", True),
        "n_2024_sales": ("2024 Sales.csv.zip", True),
        "weekly_spend": ("WeeklySpend.parquet", True),
        "my_data": ("my.data.ndjson", True),
        "x" * 63: ("x" * 100 + ".csv", True),
        "\u65e5\u672c.csv": ("\u65e5\u672c.csv", False),
    }
    source = FilesSource({"path": str(folder)})
    assert source.has({"file": "a.csv"})
    assert not source.has({"file": "b.csv"})
    assert not source.has({"file": "folder.csv"})


def test_a_folder_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="Correct `path`") as missing:
        FilesSource({"path": str(tmp_path / "nothing")}).offers()
    assert not missing.value.lost_access
    (tmp_path / "file").write_text("x")
    with pytest.raises(SourceError):
        FilesSource({"path": str(tmp_path / "file")}).offers()

    # The tests may run as root, who may read everything.
    def refuse(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SourceError, match="give this user the right") as refused:
        FilesSource({"path": str(tmp_path)}).offers()
    assert refused.value.lost_access
