"""Archives: what is in them becomes one table, and what they say of themselves is not trusted."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from datapipe_local.errors import RunError
from datapipe_local.loading.manner import Manner, Run
from datapipe_local.loads import Loads, Told
from datapipe_local.sources import archives
from datapipe_local.sources.base import Need
from datapipe_local.sources.files import FileOrigin, FilesSource
from datapipe_local.warehouse import Place, Warehouse, WarehouseError

PLACE = Place("raw", "things")
PLAIN = (Manner(), Told(Run("run", "2026-01-01T00:00:00"), 0, "FULL", "NONE"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def pack(path: Path, members: Mapping[str, str | bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@contextmanager
def loaded(folder: Path, warehouse: Warehouse, need: Need | None = None, **origin: Any) -> Iterator[int]:
    origin = FileOrigin(**origin).model_dump(exclude_none=True)
    with FilesSource({"path": str(folder)}).fetch(origin, warehouse.scratch, need or Need()) as fetched:
        yield Loads(warehouse).whole(PLACE, fetched.scan, *PLAIN)
    assert list(warehouse.scratch.glob("tmp*")) == []


def ids(warehouse: Warehouse) -> list[int]:
    with warehouse.cursor() as cursor:
        return [row[0] for row in cursor.execute(f"SELECT id FROM {PLACE.sql} ORDER BY id").fetchall()]  # noqa: S608


def lines(*numbers: int) -> str:
    return "".join(json.dumps({"id": number}) + "\n" for number in numbers)


def test_the_files_in_it_tell_the_format(folder: Path, warehouse: Warehouse) -> None:
    pack(
        folder / "all.zip",
        {
            "a/1.csv": "id\n1\n",
            "a/2.csv": "id,more\n2,x\n",
            "b/3.csv": "",
            "README": "id",
            "a/.4.csv": "id\n4\n",
            "__MACOSX/a/1.csv": "id\n5\n",
        },
    )
    with loaded(folder, warehouse, files="all.zip") as rows:
        assert rows == 2
    assert ids(warehouse) == [1, 2]
    pack(folder / "one.zip", {"1.jsonl": lines(7), "README": "x"})
    with loaded(folder, warehouse, file="one.zip") as rows:
        assert rows == 1
    assert ids(warehouse) == [7]


def test_a_pattern_tells_which_files_are_meant(folder: Path, warehouse: Warehouse) -> None:
    pack(
        folder / "all.zip",
        {"2025/a.csv": "id\n1\n", "2026/a.csv": "id\n2\n", "2026/b.csv": "id\n3\n", "c.jsonl": lines(4)},
    )
    for origin, expected in (
        ({"files": "all.zip", "within": "2026/*"}, [2, 3]),
        ({"files": "*.zip", "within": "*/a.csv"}, [1, 2]),
        ({"file": "all.zip", "within": "c.jsonl"}, [4]),
        ({"file": "all.zip", "within": "2025/*", "format": "csv", "options": {"types": {"id": "BIGINT"}}}, [1]),
    ):
        with loaded(folder, warehouse, **origin):
            pass
        assert ids(warehouse) == expected
    refused = "formats, csv and jsonl: give `within`"
    with pytest.raises(RunError, match=refused), loaded(folder, warehouse, files="all.zip"):
        pass
    with pytest.raises(RunError, match="No file with a row"), loaded(folder, warehouse, files="all.zip", within="x"):
        pass
    with pytest.raises(RunError, match="holds 4 files: pack the one"), loaded(folder, warehouse, file="all.zip"):
        pass


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ({"file": "a.zip", "options": {"skip": 1}}, "give `format`, too"),
        ({"file": "a.csv", "within": "*"}, "`within` is for archives"),
        ({"files": "*", "within": "*"}, "format"),
    ],
)
def test_what_a_stream_may_not_say_of_it(origin: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        FileOrigin.model_validate(origin)


def test_those_whose_files_end_alike_are_offered(folder: Path) -> None:
    pack(folder / "Many Things.zip", {"a.csv": "id\n1\n", "b/b.csv": "id\n2\n", "notes.txt": "x"})
    pack(folder / "one.zip", {"a.parquet": b"", "README": "x"})
    pack(folder / "mixed.zip", {"a.csv": "", "b.jsonl": ""})
    pack(folder / "none.zip", {"notes.txt": ""})
    pack(folder / "a[1].zip", {"a.csv": "", "b.csv": ""})
    pack(folder / "things.csv.zip", {"x": ""})
    (folder / "broken.zip").write_bytes(b"PK")
    assert {offer.name: offer.origin for offer in FilesSource({"path": str(folder)}).offers()} == {
        "many_things": {"files": "Many Things.zip"},
        "one": {"file": "one.zip"},
        "things": {"file": "things.csv.zip"},
    }


class Disk(NamedTuple):
    free: int


def test_one_that_would_fill_the_disk_is_not_unpacked(
    folder: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(folder / "a.csv.zip", {"a.csv": "id\n" + "1\n" * 1_000_000})
    monkeypatch.setattr(archives, "_LARGE", 1_000_000)
    with pytest.raises(RunError, match=r"would become 2000003 bytes, \d+ times as many"):  # noqa: SIM117 - not loaded
        with loaded(folder, warehouse, file="a.csv.zip"):
            pass
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2_000_002))
    with pytest.raises(RunError, match="there is no room for them"), loaded(folder, warehouse, file="a.csv.zip"):
        pass
    monkeypatch.undo()
    monkeypatch.setattr(archives, "_MOST_FILES", 2)
    pack(folder / "many.zip", {f"{n}.csv": "id\n1\n" for n in range(3)})
    with pytest.raises(RunError, match="holds 3 files, more than 2"), loaded(folder, warehouse, files="many.zip"):
        pass


def test_one_that_says_it_is_smaller_than_it_is(folder: Path, warehouse: Warehouse) -> None:
    path = folder / "a.csv.zip"
    pack(path, {"a.csv": "id\n" + "1\n" * 1_000_000})
    # As the sizes stand in it, before the file and in the list at its end.
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 2_000_003), struct.pack("<I", 3)))
    with pytest.raises(RunError, match="cannot be unpacked"), loaded(folder, warehouse, file="a.csv.zip"):
        pass


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_one_that_is_damaged(folder: Path, warehouse: Warehouse, method: int) -> None:
    path = folder / "a.csv.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.csv", "id\n" + "".join(f"{n * 7919 % 100_003}\n" for n in range(100_000)))
    whole = path.read_bytes()
    for place in range(40, len(whole) - 100, len(whole) // 20):
        path.write_bytes(whole[:place] + bytes(50) + whole[place + 50 :])
        with pytest.raises(RunError, match="cannot be unpacked"), loaded(folder, warehouse, file="a.csv.zip"):
            pass


def test_unpacking_ends_once_nobody_wants_it(folder: Path, warehouse: Warehouse) -> None:
    def check() -> None:
        raise WarehouseError("It is not wanted any more.")

    pack(folder / "a.csv.zip", {"a.csv": "id\n1\n"})
    with pytest.raises(WarehouseError), loaded(folder, warehouse, Need(check=check), file="a.csv.zip"):
        pass
    assert list(warehouse.scratch.glob("tmp*")) == []
