"""Tests of CSV and JSON Lines files as destinations: operations, kills, other writers, and full disks."""

from __future__ import annotations

import csv
import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_datapipe.api.models.reverse_etl_syncs import OperationName
from datapipe_local.common.errors import RunError
from datapipe_local.connectors import destinations
from datapipe_local.connectors.destinations.base import ABSENT, Destination, Outcome, Progress, Record, Target
from datapipe_local.connectors.destinations.changes import Changes
from datapipe_local.connectors.destinations.csv_form import as_row
from datapipe_local.connectors.destinations.jsonl_table import JsonLinesTable
from datapipe_local.storage.records import Connection
from tests.support.examples import scaled
from tests.support.room import no_file_beyond

INSERT, UPDATE, UPSERT, MIRROR = OperationName.INSERT, OperationName.UPDATE, OperationName.UPSERT, OperationName.MIRROR
ODD = "a,\"b\"\r\n\nü; 'c'"


def record(key: Any, **properties: Any) -> Record:
    return Record(str(key), {"id": key, **properties}, {"id": key})


@dataclass
class Files:
    """A folder with the file ``things`` of one format, as the destination of a sync."""

    folder: Path
    kind: str = "jsonl"

    @property
    def file(self) -> Path:
        return self.folder / f"things.{self.kind}"

    @property
    def connection(self) -> Connection:
        settings = {"path": str(self.folder)}
        return Connection(id="c", integration_id=self.kind, label="", settings=settings, created_at="")

    def open(self, mode: OperationName = MIRROR, checkpoint: str | None = None, **progress: Any) -> Destination:
        target, known = Target("sync", "things", mode), Progress(checkpoint, **progress)
        return destinations.connect(self.connection, target, progress=known, pause=lambda _: None)

    def run(self, mode: OperationName, *records: Record, delete: tuple[Record, ...] = ()) -> list[Outcome]:
        destination = self.open(mode)
        outcomes = destination.send(records) if records else []
        if delete:
            destination.delete(delete)
        destination.close()
        return outcomes

    def killed(self, mode: OperationName, *records: Record) -> str:
        """Send as a process that is killed before it closes the file, and return what it stored."""
        noted: list[str] = []
        self.open(mode, note=noted.append).send(records)
        return noted[-1]

    def resume(self, noted: str, *more: Record) -> None:
        """Repeat the last batch, as the engine does after a kill, and send more records."""
        destination = self.open(INSERT, noted)
        left = destination.unanswered()
        assert left is not None
        destination.send([*left.records])
        if more:
            destination.send(more)
        destination.close()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]

    def rows(self) -> list[list[str]]:
        with self.file.open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file, strict=True))

    def names(self) -> list[str]:
        if self.kind == "jsonl":
            return [line["name"] for line in self.lines()]
        return [row[1] for row in self.rows()[1:]]


@pytest.fixture
def jsonl(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def csvs(tmp_path: Path) -> Files:
    return Files(tmp_path, "csv")


@pytest.fixture(params=["csv", "jsonl"])
def either(tmp_path: Path, request: pytest.FixtureRequest) -> Files:
    return Files(tmp_path, request.param)


@pytest.mark.parametrize("next_mode", [INSERT, MIRROR])
def test_changes_of_a_failed_run_are_written_by_the_next(
    either: Files, next_mode: OperationName, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(RunError, match=r"things\.\w+ cannot be written: No space left on device"):
            either.run(UPSERT, record(1, name="Zoë"))
    either.run(next_mode, record(2, name="Bob"))
    assert either.names() == ["Zoë", "Bob"]
    assert list(either.folder.iterdir()) == [either.file]


@settings(max_examples=scaled(60))
@given(
    kind=st.sampled_from(["csv", "jsonl"]),
    names=st.lists(st.text(alphabet='ab,"\r\n ü', max_size=5), min_size=1, max_size=4, unique=True),
    share=st.floats(0, 1),
)
def test_a_kill_at_any_byte_of_an_insert_repeats_no_row(kind: str, names: list[str], share: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), kind)
        files.run(INSERT, record(-1, name="before"))
        begin = files.file.stat().st_size
        noted = files.killed(INSERT, *(record(number, name=name) for number, name in enumerate(names)))
        whole = files.file.read_bytes()
        files.file.write_bytes(whole[: begin + int(share * (len(whole) - begin))])
        files.resume(noted, record(99, name="after"))
        assert sorted(files.names()) == sorted(["before", *names, "after"])


def test_an_insert_keeps_lines_of_other_writers(jsonl: Files) -> None:
    noted = jsonl.killed(INSERT, record(1))
    # All of it was written. Then another writer wrote the same, and a line without an end.
    jsonl.file.write_bytes(jsonl.file.read_bytes() + b'{"id": 1}\n{"id": 8}')
    jsonl.resume(noted, record(2))
    assert [line["id"] for line in jsonl.lines()] == [1, 1, 8, 2]
    # Nothing of it was written, and another writer wrote there.
    jsonl.file.write_bytes(b'{"id": 9}')
    jsonl.resume(noted)
    assert [line["id"] for line in jsonl.lines()] == [9, 1]


def test_a_full_disk_leaves_no_part_of_an_insert(either: Files) -> None:
    either.run(INSERT, record(-1, name="before"))
    before = either.file.read_bytes()
    many = [record(n, name="x" * 50) for n in range(1_000)]
    with no_file_beyond(len(before) + 20_000), pytest.raises(RunError, match=r"cannot be written: File too large"):
        either.run(INSERT, *many)
    assert either.file.read_bytes() == before
    either.run(INSERT, *many)
    assert either.file.read_bytes().count(b"\n") == before.count(b"\n") + 1_000


@pytest.mark.parametrize("mode", [INSERT, UPSERT, UPDATE])
def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, mode: OperationName) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"things\.jsonl.* cannot be written"):
        Files(tmp_path / "file" / "folder").open(mode).send([record(1)])


def test_csv_rows_are_appended_below_a_header(tmp_path: Path) -> None:
    csvs = Files(tmp_path / "new", "csv")
    assert csvs.run(INSERT, record(1, name=ODD), record(2, name=None)) == [None, None]
    csvs.run(INSERT, record(True, name=[1, "x"]))
    assert csvs.rows() == [["id", "name"], ["1", ODD], ["2", ""], ["true", '[1, "x"]']]


def test_the_header_of_a_csv_file_decides_its_columns(csvs: Files) -> None:
    csvs.file.write_bytes(b"name,more,id\r\nAda,x,1\r\n")
    csvs.run(INSERT, record(2, name="Bob"))
    assert csvs.rows() == [["name", "more", "id"], ["Ada", "x", "1"], ["Bob", "", "2"]]
    with pytest.raises(RunError, match="has no column 'age': it has name, more, id"):
        csvs.run(INSERT, record(3, age=1))


def test_csv_rows_are_changed_and_deleted_by_key(csvs: Files) -> None:
    csvs.file.write_bytes(b"id,name\r\n1,Ada\r\nno row\r\n2,Bob")
    assert csvs.run(UPSERT, record(2, name="Eve"), record(3, name=ODD)) == [None, None]
    # Other rows stay the same, byte for byte.
    assert csvs.file.read_bytes().startswith(b'id,name\r\n1,Ada\r\nno row\r\n2,Eve\n"3",')
    assert csvs.run(UPDATE, record(1, name="Zoe"), record(9, name="Nobody")) == [None, ABSENT]
    assert csvs.run(MIRROR, record(3, name="Cyd", age=7), delete=(record(2),)) == [None]
    assert csvs.rows() == [["id", "name", "age"], ["1", "Zoe", ""], ["no row"], ["3", "Cyd", "7"]]
    before = csvs.file.read_bytes()
    csvs.run(UPSERT, record(3, name="Cyd"))
    assert csvs.file.read_bytes() == before


@pytest.mark.parametrize("mode", [UPSERT, UPDATE, MIRROR])
def test_columns_with_empty_or_equal_names_keep_their_values(csvs: Files, mode: OperationName) -> None:
    csvs.file.write_bytes(b"id,x,,name,x,\n1,a,b,Ada,c,d\n2,e,f,Bob,g,h\n")
    csvs.run(mode, record(1, name="Eve"))
    assert csvs.file.read_bytes() == b"id,x,,name,x,\n1,a,b,Eve,c,d\n2,e,f,Bob,g,h\n"
    csvs.run(mode, record(2, age=7))
    assert csvs.file.read_bytes() == b"id,x,,name,x,,age\n1,a,b,Eve,c,d,\n2,e,f,Bob,g,h,7\n"


@pytest.mark.parametrize("header", [b"id,name,name", b"id,name,id"])
def test_a_property_with_several_csv_columns_fails_the_run(csvs: Files, header: bytes) -> None:
    csvs.file.write_bytes(header + b"\n1,Ada,1\n")
    with pytest.raises(RunError, match=r"has several columns '(name|id)': rename all but one"):
        csvs.run(UPSERT, record(1, name="Eve"))
    assert csvs.file.read_bytes() == header + b"\n1,Ada,1\n"
    # The next run applies the changes.
    csvs.file.write_bytes(b"id,name,more\n1,Ada,1\n")
    csvs.run(UPSERT)
    assert csvs.file.read_bytes() == b"id,name,more\n1,Eve,1\n"


@pytest.mark.parametrize("torn", [b"", b"i", b"id,name", as_row(["id", "name"])])
def test_a_torn_csv_header_is_written_again(csvs: Files, torn: bytes) -> None:
    noted = csvs.killed(INSERT, record(1, name="Ada"))
    csvs.file.write_bytes(torn)
    csvs.resume(noted)
    assert csvs.rows() == [["id", "name"], ["1", "Ada"]]


def test_a_byte_order_mark_is_not_part_of_a_csv_header(csvs: Files) -> None:
    csvs.file.write_bytes(b"\xef\xbb\xbfid,name\r\n1,Ada\r\n")
    csvs.run(INSERT, record(2, name="Bob"))
    csvs.run(UPSERT, record(1, name="Eve"))
    assert csvs.file.read_bytes() == b"\xef\xbb\xbfid,name\r\n1,Eve\n2,Bob\n"
    csvs.run(UPSERT, record(1, age=7))
    assert csvs.file.read_bytes() == b"\xef\xbb\xbfid,name,age\n1,Eve,7\n2,Bob,\n"


def test_a_csv_file_removed_during_an_insert_is_created_again(csvs: Files) -> None:
    destination = csvs.open(INSERT)
    destination.send([record(1)])
    csvs.file.unlink()
    assert destination.send([record(2)]) == [None]
    assert csvs.rows() == [["id"], ["2"]]


def test_csv_files_of_a_folder_are_offered(csvs: Files) -> None:
    csvs.run(INSERT, record(1, name="Ada"))
    (csvs.folder / "other.jsonl").touch()
    offer = destinations.catalog_of(csvs.connection)
    assert offer.object_type_ids() == ["things"]
    assert [one.id for one in offer.properties("things")] == ["id", "name"]
    assert offer.properties("nobody") == []


def test_lines_do_not_change_before_the_end_of_a_run(jsonl: Files) -> None:
    jsonl.file.write_text('{"id": 1, "a": 1}\n{"id": 2}\n')
    table = jsonl.open()
    table.send([record(1, b=2), record(3)])
    table.delete([record(2)])
    assert jsonl.lines() == [{"id": 1, "a": 1}, {"id": 2}]
    table.close()
    assert jsonl.lines() == [{"id": 1, "a": 1, "b": 2}, {"id": 3}]


def test_a_kill_after_the_write_repeats_it(jsonl: Files) -> None:
    jsonl.file.write_text('{"id": 2}\n')
    changes = jsonl.folder / ".things.jsonl.sync"
    table = jsonl.open()
    table.send([record(1)])
    table.delete([record(2)])
    noted, kept = table.checkpoint(), changes.read_bytes()
    table.close()
    changes.write_bytes(kept)
    # Killed before, and after, the changes were removed.
    for _ in range(2):
        jsonl.open(MIRROR, noted).close()
        assert jsonl.lines() == [{"id": 1}]


def test_lines_of_other_writers_stay_the_same(jsonl: Files) -> None:
    theirs = b'  {"id": 9}  \n\xff\n"\\ud800"\n[' + b"[" * 100_000 + b'\n{"other": NaN}\n{"id": 1, "half": "\\ud800"}\n'
    jsonl.file.write_bytes(theirs)
    jsonl.run(MIRROR, record(1, x="é"))
    *before, changed = jsonl.file.read_bytes().splitlines()
    assert before == theirs.splitlines()[:-1]
    assert json.loads(changed) == {"id": 1, "half": "\ud800", "x": "é"}


def test_other_properties_of_a_changed_line_keep_their_text(jsonl: Files) -> None:
    others = '"a" :12345678901234567.89, "b":1e400, "c":{"x":[1.10,NaN]}, "d":"\\u00fc\\ud800"'
    jsonl.file.write_text(f'  {{"name":"Ada","id":1 ,{others} , "e":1}}  ')
    jsonl.run(UPSERT, record(1, name="Zoë", e=2.0, f=None))
    assert jsonl.file.read_text(encoding="utf-8") == f'{{"name": "Zoë", "id": 1, {others}, "e": 2.0, "f": null}}\n'


@pytest.mark.parametrize("mode", [UPDATE, UPSERT, MIRROR])
def test_a_key_whose_type_changes_keeps_its_line(jsonl: Files, mode: OperationName) -> None:
    jsonl.file.write_text('{"id": 1, "x": 1}\n{"id": "2"}\n{"id": 3.0}\n{"id": null}\n{"id": true}\n')
    keys = ["1", 2, 3, "null", "true"]
    assert jsonl.run(mode, *(record(key, y=0) for key in keys))[:3] == [None] * 3
    assert jsonl.lines()[:4] == [{"id": "1", "x": 1, "y": 0}, {"id": 2, "y": 0}, {"id": 3, "y": 0}, {"id": None}]
    jsonl.run(MIRROR, delete=(record(1), record("2"), record(3.0)))
    assert {"1", "2", "3"}.isdisjoint(str(line["id"]) for line in jsonl.lines())


def test_lines_written_during_a_rewrite_are_kept(jsonl: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    jsonl.file.write_text('{"id": 1}\n')
    rewritten = JsonLinesTable.rewritten
    rewrites: list[int] = []

    def write_meanwhile(self: JsonLinesTable, changes: Changes) -> Iterator[bytes]:
        yield from rewritten(self, changes)
        if not rewrites:
            jsonl.file.write_text('{"id": 1}\n{"id": 2}\n{"id": 3}\n')
        rewrites.append(1)

    monkeypatch.setattr(JsonLinesTable, "rewritten", write_meanwhile)
    jsonl.run(MIRROR, record(1, a=2), record(3, a=4))
    assert jsonl.lines() == [{"id": 1, "a": 2}, {"id": 2}, {"id": 3, "a": 4}]
    assert len(rewrites) == 2


def test_a_rewritten_file_keeps_its_link_and_permissions(jsonl: Files) -> None:
    elsewhere = jsonl.folder / "elsewhere"
    elsewhere.mkdir()
    target = elsewhere / "file"
    target.write_text('{"id": 1}\n')
    target.chmod(0o640)
    jsonl.file.symlink_to(target)
    jsonl.run(MIRROR, record(2))
    assert jsonl.file.is_symlink()
    assert target.read_text() == '{"id": 1}\n{"id": 2}\n'
    assert target.stat().st_mode & 0o777 == 0o640
    assert list(elsewhere.iterdir()) == [target]


@pytest.mark.parametrize("room", [10_000, 300_000], ids=["for no changes", "for the changes only"])
def test_a_full_disk_leaves_the_file_unchanged(jsonl: Files, room: int) -> None:
    jsonl.file.write_text('{"id": -1, "text": "' + "y" * 250_000 + '"}\n')
    before = jsonl.file.read_bytes()
    many = [record(n, text="x" * 200) for n in range(1_000)]
    with no_file_beyond(room), pytest.raises(RunError, match="cannot be written: File too large"):
        jsonl.run(MIRROR, *many)
    assert jsonl.file.read_bytes() == before
    assert {path.name for path in jsonl.folder.iterdir()} == {"things.jsonl", ".things.jsonl.sync"}
    jsonl.run(MIRROR, *many)
    assert len(jsonl.lines()) == 1_001


@pytest.mark.slow
@pytest.mark.parametrize("mode", [UPSERT, UPDATE])
def test_memory_does_not_grow_with_the_changes(jsonl: Files, mode: OperationName) -> None:
    number = 4_000
    jsonl.file.write_text("".join(f'{{"id": {n}}}\n' for n in range(0, number, 2)))
    table = jsonl.open(mode)
    tracemalloc.start()
    try:
        for start in range(0, number, 200):
            table.send([record(n, text=f"{n} {'x' * 100}") for n in range(start, start + 200)])
        table.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum("text" in line for line in jsonl.lines()) == (number if mode == UPSERT else number // 2)
    # All changes, or all keys, of so few lines take 3 to 5 MiB.
    assert peak < 1.5 * 1024 * 1024


_STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "delete", "kill", "end"]), st.integers(0, 4), st.integers(0, 2)), max_size=30
)


@settings(max_examples=scaled(60))
@given(kind=st.sampled_from(["csv", "jsonl"]), steps=_STEPS)
def test_the_result_is_the_same_without_kills(kind: str, steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), kind)
        expected: dict[str, str] = {}
        noted: str | None = None
        table = files.open()

        def end() -> None:
            table.close()
            found = [row.values() for row in files.lines()] if kind == "jsonl" else files.rows()[1:]
            assert sorted(tuple(map(str, row)) for row in found) == sorted(expected.items())

        for what, key, value in steps:
            if what == "send":
                table.send([record(key, name=value)])
                expected[str(key)] = str(value)
            elif what == "delete":
                table.delete([record(key)])
                expected.pop(str(key), None)
            elif what == "kill":
                # Killed in the middle of a line. The following process does not have this record any more.
                table.send([record(9, name=9)])
                with (files.folder / f".things.{kind}.sync").open("a") as torn:
                    torn.write('{"key": {"id": 3')
                table = files.open(MIRROR, noted or "0")
                continue
            else:
                end()
                table = files.open()
            noted = table.checkpoint()
        end()
