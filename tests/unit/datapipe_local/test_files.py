"""Tests of files and archives as sources: formats, offered streams, and refused archives."""

from __future__ import annotations

import os
import shutil
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest
from pydantic import ValidationError

from datapipe_local.common.errors import RunError
from datapipe_local.connectors.sources import archives
from datapipe_local.connectors.sources.base import Need, SourceError
from datapipe_local.connectors.sources.files import FileOrigin, FilesSource
from datapipe_local.warehouse.warehouse import WarehouseError
from tests.unit.datapipe_local.file_loads import FileLoads, lines

ROWS = [(1, "one", None), (2, "two", 2.5)]
CSV = "id,name,score\n1,one,\n2,two,2.5\n"


def pack(path: Path, members: Mapping[str, str | bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_becomes_a_table(files: FileLoads, kind: str, zipped: bool) -> None:
    name = f"things.{kind}l" if kind == "json" else f"things.{kind}"
    path = files.folder / name
    rows = "(VALUES (1, 'one', NULL), (2, 'two', 2.5)) AS t (id, name, score)"
    duckdb.execute(f"COPY (FROM {rows}) TO '{path}' (FORMAT {kind})")
    if zipped:
        pack(path.with_name(f"{name}.zip"), {name: path.read_bytes()})
        path.unlink()
    assert files.load(file=f"{name}.zip" if zipped else name) == 2
    assert files.rows() == ROWS


def test_a_file_name_with_wildcards_is_one_file(files: FileLoads) -> None:
    (files.folder / "a[1]*.csv").write_text(CSV)
    (files.folder / "a1x.csv").write_text("other\nfile\n")
    files.load(file="a[1]*.csv")
    assert files.rows() == ROWS


def test_options_go_to_the_reader(files: FileLoads) -> None:
    (files.folder / "things.dat").write_text("# made by hand\nid;it's\n1;NA\n2;'x'\n")
    options = {"delim": ";", "skip": 1, "nullstr": ["NA"], "quote": "'", "types": {"id": "VARCHAR"}}
    assert files.load(file="things.dat", format="csv", options=options) == 2
    assert files.rows() == [("1", None), ("2", "x")]


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ({"file": "a.xlsx"}, "format"),
        ({"file": "/etc/passwd", "format": "csv"}, "relative to"),
        ({"file": "../a.csv"}, "relative to"),
        ({"file": "a.csv", "options": {"ignore_errors": True}}, "ignore_errors"),
        ({"file": "a.csv", "options": {"skip": "1"}}, "skip"),
        ({"file": "a.jsonl", "options": {"delim": ","}}, "delim"),
        ({"file": "a.csv", "folder": "x"}, "folder"),
        ({"file": "a.zip", "options": {"skip": 1}}, "give `format`, too"),
        ({"file": "a.csv", "within": "*"}, "`within` is for archives"),
        ({"files": "*", "within": "*"}, "format"),
    ],
)
def test_invalid_origins_are_refused(origin: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FileOrigin.model_validate(origin)


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", b""), ("a.parquet", b"\x93" * 2_000), ("a.jsonl", b"\x93" * 2_000)]
)
def test_a_broken_file_fails_in_one_line_and_keeps_the_table(files: FileLoads, name: str, content: bytes) -> None:
    files.load_text("things.csv", CSV)
    (files.folder / name).write_bytes(content)
    with pytest.raises((RunError, WarehouseError), match="empty" if content == b"" else None) as failure:
        files.load(file=name)
    assert "\n" not in str(failure.value)
    assert files.rows() == ROWS


def test_files_of_an_archive_decide_its_format(files: FileLoads) -> None:
    rows = {"a/1.csv": "id\n1\n", "a/2.csv": "id,more\n2,x\n", "b/3.csv": ""}
    others = {"README": "id", "a/.4.csv": "id\n4\n", "__MACOSX/a/1.csv": "id\n5\n"}
    pack(files.folder / "all.zip", rows | others)
    assert files.load(files="all.zip") == 2
    assert files.rows("id") == [(1,), (2,)]
    pack(files.folder / "one.zip", {"1.jsonl": lines({"id": 7}), "README": "x", "__MACOSX/._1.jsonl": "x"})
    assert files.load(file="one.zip") == 1
    assert files.rows("id") == [(7,)]


ALL = {"2025/a.csv": "id\n1\n", "2026/a.csv": "id\n2\n", "2026/b.csv": "id\n3\n", "c.jsonl": lines({"id": 4})}


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ({"files": "all.zip", "within": "2026/*"}, [2, 3]),
        ({"files": "*.zip", "within": "*/a.csv"}, [1, 2]),
        ({"file": "all.zip", "within": "c.jsonl"}, [4]),
        ({"file": "all.zip", "within": "2025/*", "format": "csv", "options": {"types": {"id": "BIGINT"}}}, [1]),
        ({"files": "all.zip"}, "formats, csv and jsonl: set `within`"),
        ({"files": "all.zip", "within": "x"}, "No file with a row"),
        ({"file": "all.zip"}, "holds 4 files: pack only one file"),
    ],
)
def test_within_selects_files_of_an_archive(files: FileLoads, origin: Any, expected: list[int] | str) -> None:
    pack(files.folder / "all.zip", ALL)
    if isinstance(expected, str):
        with pytest.raises(RunError, match=expected):
            files.load(**origin)
    else:
        files.load(**origin)
        assert [row[0] for row in files.rows("id")] == expected


def test_an_archive_that_would_fill_the_disk_is_refused(files: FileLoads, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(files.folder / "a.csv.zip", {"a.csv": "id\n" + "1\n" * 1_000_000})
    pack(files.folder / "many.zip", {f"{n}.csv": "id\n1\n" for n in range(3)})
    cases: list[tuple[Any, str, Any, dict[str, Any], str]] = [
        (archives, "_LARGE", 1_000_000, {"file": "a.csv.zip"}, r"would become 2000003 bytes, \d+ times as many"),
        (shutil, "disk_usage", lambda _: Mock(free=2_000_002), {"file": "a.csv.zip"}, "there is no room for them"),
        (archives, "_MOST_FILES", 2, {"files": "many.zip"}, "holds 3 files, more than 2"),
    ]
    for module, name, value, origin, message in cases:
        with monkeypatch.context() as patched:
            patched.setattr(module, name, value)
            with pytest.raises(RunError, match=message):
                files.load(**origin)


def test_an_archive_with_a_false_size_is_refused(files: FileLoads) -> None:
    path = files.folder / "a.csv.zip"
    pack(path, {"a.csv": "id\n" + "1\n" * 1_000_000})
    # The size occurs before the file, and in the directory at the end.
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 2_000_003), struct.pack("<I", 3)))
    with pytest.raises(RunError, match="cannot be unpacked"):
        files.load(file=path.name)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_that_is_damaged_anywhere_is_refused(files: FileLoads, method: int) -> None:
    path = files.folder / "a.csv.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.csv", "id\n" + "".join(f"{n * 7919 % 100_003}\n" for n in range(100_000)))
    whole = path.read_bytes()
    for place in range(40, len(whole) - 100, len(whole) // 20):
        path.write_bytes(whole[:place] + bytes(50) + whole[place + 50 :])
        with pytest.raises(RunError, match="cannot be unpacked"):
            files.load(file=path.name)


def test_unpacking_ends_once_its_stream_is_deleted(files: FileLoads) -> None:
    pack(files.folder / "a.csv.zip", {"a.csv": "id\n1\n"})
    check = Mock(side_effect=WarehouseError("The stream was deleted."))
    with pytest.raises(WarehouseError, match="deleted"):
        files.load(Need(check=check), file="a.csv.zip")


def test_archives_of_one_format_are_offered(files: FileLoads) -> None:
    for name, members in {
        "Many Things.zip": {"a.csv": "id\n1\n", "b/b.csv": "id\n2\n", "notes.txt": "x"},
        "one.zip": {"a.parquet": "", "README": "x"},
        "mixed.zip": {"a.csv": "", "b.jsonl": ""},
        "none.zip": {"notes.txt": ""},
        "a[1].zip": {"a.csv": "", "b.csv": ""},
        "things.csv.zip": {"x": ""},
    }.items():
        pack(files.folder / name, members)
    (files.folder / "broken.zip").write_bytes(b"PK")
    assert {offer.name: offer.origin for offer in FilesSource({"path": str(files.folder)}).offers()} == {
        "many_things": {"files": "Many Things.zip"},
        "one": {"file": "one.zip"},
        "things": {"file": "things.csv.zip"},
    }


@pytest.mark.parametrize("extensions", [".csv", ".csv.gz", ".jsonl.GZ", ".csv.zip", ".parquet.ZIP"])
def test_a_subfolder_of_one_format_is_offered(files: FileLoads, extensions: str) -> None:
    (files.folder / "sales").mkdir()
    for name in ("a", "2026.b"):
        (files.folder / "sales" / f"{name}{extensions}").touch()
    source = FilesSource({"path": str(files.folder)})
    (offer,) = source.offers()
    assert offer.origin == {"files": f"sales/*{extensions}"}
    assert source.has(offer.origin)
    (files.folder / "sales" / "c.tsv").touch()
    assert source.offers() == []


def test_offered_files_have_distinct_names(files: FileLoads) -> None:
    folder = files.folder
    source = FilesSource({"path": str(folder)})
    assert list(source.offers()) == []
    for name in (
        *("a.csv", "a.tsv", "A.jsonl", "2024 Sales.csv.zip", "WeeklySpend.parquet", "my.data.ndjson"),
        *(".hidden.csv", "notes.txt", "\u65e5\u672c.csv", "a\nb.csv", "x" * 100 + ".csv", os.fsdecode(b"\xff.csv")),
    ):
        (folder / name).write_text("x")
    (folder / "folder.csv").mkdir()
    (folder / "nowhere.csv").symlink_to(folder / "nothing")
    assert {offer.name: (offer.origin["file"], offer.is_selectable) for offer in source.offers()} == {
        "a": ("A.jsonl", True),
        "a_csv": ("a.csv", True),
        "a_2": ("a.tsv", True),
        "n_2024_sales": ("2024 Sales.csv.zip", True),
        "weekly_spend": ("WeeklySpend.parquet", True),
        "my_data": ("my.data.ndjson", True),
        "x" * 63: ("x" * 100 + ".csv", True),
        "\u65e5\u672c.csv": ("\u65e5\u672c.csv", False),
    }
    assert [source.has({"file": name}) for name in ("a.csv", "b.csv", "folder.csv")] == [True, False, False]


def test_an_unreadable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(SourceError, match="Correct `path`") as missing:
            FilesSource({"path": str(path)}).offers()
        assert not missing.value.lost_access

    # The tests may run as root, who may read everything.
    refusal = PermissionError(13, "Permission denied", str(tmp_path))
    monkeypatch.setattr(os, "scandir", Mock(side_effect=refusal))
    with pytest.raises(SourceError, match="give this user the permission") as refused:
        FilesSource({"path": str(tmp_path)}).offers()
    assert refused.value.lost_access
